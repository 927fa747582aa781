"""Line searches that meet a wall go on to the minimum behind which it stands."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from pymc_ext.maths.walled import WALL, walled


@pytest.mark.parametrize("D", [1, 5, 20])
def test_an_optimiser_gets_past_points_without_a_value(D: int) -> None:
    """Σ c (x − 0.1 log x) of x > 0: from 5 the first long step is beyond the wall.

    None comes through where the wall is of one height, and in 20 dimensions 4 of 5 where it is no
    higher than the last point before it.
    """
    c, beyond, through = np.linspace(1, 50, D), [], 0

    def loss(x):
        if (x <= 0).any():
            beyond.append(x)
            return np.inf, np.full(D, np.nan)
        return float(np.sum(c * (x - 0.1 * np.log(x)))), c * (1 - 0.1 / x)

    for seed in range(30):
        start = 5 * np.random.default_rng(seed).uniform(0.8, 1.2, D)
        found = minimize(walled(loss), start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
        through += bool(np.abs(found.x - 0.1).max() < 1e-3)
    assert len(beyond) >= 30
    assert through == 30


def test_what_is_impossible_is_a_wall_and_other_errors_are_not() -> None:
    def loss(x):
        if x[0] > 1:
            raise ZeroDivisionError if x[0] > 2 else KeyError
        return float(-x[0]), np.array([-1.0])

    both = walled(loss, KeyError)
    value, slope = both(np.array([1.5]))
    assert value == WALL and slope == 0
    both(np.array([1.0]))
    value, slope = both(np.array([1.5]))
    assert value == -1 + 0.5 and slope == 2 * 1.0
    with pytest.raises(ZeroDivisionError):
        both(np.array([3.0]))


def test_where_the_lowest_point_is_flat_the_wall_is_as_high_as_it_can_be() -> None:
    both = walled(lambda x: (0.0 if x[0] < 1 else np.nan, np.zeros(1)))
    both(np.zeros(1))
    assert both(np.ones(1))[0] == WALL
