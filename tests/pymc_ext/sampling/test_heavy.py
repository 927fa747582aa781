"""Tails of draws: duplicates and few values are no long ones."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.sampling.heavy import khat_of_squares, unknown_moments
from pymc_ext.variational.core.precision import Precision


@pytest.mark.parametrize("seed", range(10))
def test_resampled_draws_of_a_normal_have_no_long_tail(seed: int) -> None:
    """Two draws in five are there twice, so that the tail's threshold is, in one seed of two."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(6_000)
    twice = rng.choice(x, size=(4, 1_000, 1))
    assert len(np.unique(twice)) < 3_000
    assert khat_of_squares(twice)[0] < 0.5
    assert unknown_moments({"log ratio": twice[..., 0]}, ess=400) == ()


def test_a_few_values_have_no_long_tail() -> None:
    counts = np.random.default_rng(1).binomial(3, 0.1, (4, 1_000, 1)).astype(float)
    assert khat_of_squares(counts)[0] == -np.inf


def test_a_state_that_is_most_often_the_same_has_no_long_tail() -> None:
    states = np.ones((4, 1000, 1))
    states[:3, 0], states[3, :2] = 2.0, 3.0
    assert khat_of_squares(states)[0] == -np.inf
    assert unknown_moments({"state": states[..., 0]}, 400) == ()


def test_a_tail_of_a_few_huge_draws_is_named_in_words() -> None:
    """All others are as far from the mean, so that no Pareto distribution fits."""
    x = np.exp(100 * np.random.default_rng(1).standard_normal((4, 1_000, 1)))
    assert khat_of_squares(x)[0] == np.inf
    (heavy,) = unknown_moments({"x": x[..., 0]}, ess=400)
    assert str(heavy) == "mean and sd of x (a few draws hold its variance)"


def test_a_khat_that_cannot_be_had_is_no_number_in_the_verdict() -> None:
    none = Precision(
        np.zeros(1), np.zeros(1), np.full(1, np.inf), np.full(1, -np.inf), *np.ones((2, 1))
    )
    said = none.doubt(["log tau"], 0.7, 400)
    assert said is not None and "inf" not in said and "too few of its draws have a weight" in said
