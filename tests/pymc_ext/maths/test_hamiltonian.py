"""Leapfrog trajectories: exact where that is known, reversible, and still where they diverge."""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.hamiltonian import State, trajectory
from tests.tolerances import EXACT


def quartic(x):
    return -(x**4).sum(1) / 4, -(x**3)


def begun(of, seed=1, chains=5):
    x, momentum = np.random.default_rng(seed).normal(size=(2, chains, 3))
    return State(x, *of(x)), momentum


def test_on_a_normal_it_turns_the_phase_plane():
    """One leapfrog step is the matrix of its kicks and its drift, to the power of the steps."""
    step, steps = 0.3, 7
    begin, momentum = begun(lambda x: (-0.5 * (x**2).sum(1), -x))
    kick, drift = np.array([[1, 0], [-step / 2, 1]]), np.array([[1, step], [0, 1]])
    turn = np.linalg.matrix_power(kick @ drift @ kick, steps)
    found = trajectory(lambda x: (-0.5 * (x**2).sum(1), -x), begin, momentum, step, steps)
    end = turn[0, 0] * begin.point + turn[0, 1] * momentum
    np.testing.assert_allclose(found.end.point, end, atol=EXACT)
    speed = turn[1, 0] * begin.point + turn[1, 1] * momentum
    np.testing.assert_allclose(found.after, 0.5 * (end**2 + speed**2).sum(1), atol=EXACT)
    np.testing.assert_allclose(found.before, 0.5 * (begin.point**2 + momentum**2).sum(1))
    np.testing.assert_allclose(found.log_rate, np.minimum(found.before - found.after, 0))


def test_the_error_of_the_energy_falls_with_the_square_of_the_step():
    begin, momentum = begun(quartic)
    errors = []
    for steps in (20, 40, 80):
        found = trajectory(quartic, begin, momentum, 1 / steps, steps)
        errors.append(np.abs(found.after - found.before).max())
    assert 3.5 < errors[0] / errors[1] < 4.5 and 3.5 < errors[1] / errors[2] < 4.5


def test_one_chain_is_no_others_business_and_one_that_diverges_waits_where_it_began():
    seen = []

    def walled(x):
        seen.append(x.copy())
        value, score = quartic(x)
        return np.where(x[:, 0] > 1, -np.inf, value), score

    begin = State(np.zeros((2, 1)), *walled(np.zeros((2, 1))))
    found = trajectory(walled, begin, np.array([[0.5], [9.0]]), 0.2, 5)
    assert found.diverging.tolist() == [False, True]
    assert found.log_rate[1] == -np.inf and found.log_rate[0] > -0.1
    assert seen[2][1] == seen[-1][1] == 0  # after it was beyond the wall
    alone = trajectory(quartic, State(begin.point[:1], *quartic(begin.point[:1])),
                       np.array([[0.5]]), 0.2, 5)  # fmt: skip
    np.testing.assert_array_equal(found.end.point[:1], alone.end.point)
    kept = begin.or_where(np.array([True, False]), found.end)
    np.testing.assert_array_equal(kept.point, [found.end.point[0], begin.point[1]])
    np.testing.assert_array_equal(kept.value, [found.end.value[0], begin.value[1]])
