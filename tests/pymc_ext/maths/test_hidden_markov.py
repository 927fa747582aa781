"""Probabilities and draws of hidden states, against the sum over all paths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pymc_ext.maths import hidden_markov as hmm
from tests.tolerances import EXACT, monte_carlo

STEPS, STATES, DRAWS = 6, 3, 20_000
PATHS = np.array(list(product(range(STATES), repeat=STEPS)))


def chain(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log π (K,), log P (K, K), one transition of which is impossible, log p(y | s) (T, K)."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(STATES), size=STATES)
    P[1] = [0.4, 0.6, 0.0]
    with np.errstate(divide="ignore"):
        return np.log(rng.dirichlet(np.ones(STATES))), np.log(P), rng.normal(size=(STEPS, STATES))


def of_paths(log_initial, log_P, log_emission) -> np.ndarray:
    """p(s, y) of each of the K^T paths."""
    log_p = log_initial[PATHS[:, 0]] + log_emission[np.arange(STEPS), PATHS].sum(axis=1)
    return np.exp(log_p + log_P[PATHS[:, :-1], PATHS[:, 1:]].sum(axis=1))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_probabilities_are_those_of_all_paths(seed) -> None:
    parts = chain(seed)
    joint = of_paths(*parts)
    alpha = hmm.filtered(*parts)
    assert np.exp(alpha[-1]).sum() == pytest.approx(joint.sum(), rel=EXACT)
    log_p = hmm.smoothed(alpha, *parts[1:])
    for state in range(STATES):
        truth = joint @ (PATHS == state) / joint.sum()
        assert np.exp(log_p[:, state]) == pytest.approx(truth, rel=EXACT)


def test_paths_are_drawn_jointly() -> None:
    parts = chain(4)
    joint = of_paths(*parts)
    alpha = np.broadcast_to(hmm.filtered(*parts), (DRAWS, STEPS, STATES))
    drawn = hmm.sample_states(alpha, parts[1], np.random.default_rng(1))
    place = drawn @ STATES ** np.arange(STEPS)[::-1]  # of each path in PATHS
    share, truth = np.bincount(place, minlength=len(PATHS)) / DRAWS, joint / joint.sum()
    assert np.all(share[truth == 0] == 0)
    seen = truth > 1e-3
    errors = np.sqrt(truth * (1 - truth) / DRAWS)[seen]
    assert np.all(abs(share - truth)[seen] < [monte_carlo(se) for se in errors])


def test_chains_side_by_side_are_those_alone() -> None:
    parts = [np.stack(each) for each in zip(*map(chain, (1, 2, 3)), strict=True)]
    alpha = hmm.filtered(*parts)
    together = hmm.smoothed(alpha, *parts[1:])
    for place, seed in enumerate((1, 2, 3)):
        alone = chain(seed)
        np.testing.assert_allclose(
            together[place], hmm.smoothed(hmm.filtered(*alone), *alone[1:]), rtol=EXACT
        )
    drawn = np.stack(
        [hmm.sample_states(alpha, parts[1], np.random.default_rng(i)) for i in range(2000)]
    )
    share = (drawn == 0).mean(axis=0)
    truth = np.exp(together[..., 0])
    assert np.all(abs(share - truth) < 4 * np.sqrt(truth * (1 - truth) / 2000) + 1e-12)


def test_long_chains_and_sharp_densities_do_not_underflow() -> None:
    log_emission = np.full((5000, 2), -1e4)
    log_emission[:, 0] += np.where(np.arange(5000) % 2, 800.0, -800.0)
    log_P = np.log([[0.5, 0.5], [0.5, 0.5]])
    log_p = hmm.smoothed(hmm.filtered(log_P[0], log_P, log_emission), log_P, log_emission)
    assert log_p[0, 0] == pytest.approx(-800) and log_p[1, 1] == pytest.approx(-800)
