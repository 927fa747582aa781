"""Tests of ranks: their levels are exact, what is wrong is seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from bridge.calibration.bands import (
    ecdf,
    ecdf_band,
    holm,
    symmetry_p_values,
    uniformity_p_values,
)
from bridge.calibration.result import _inside

S, MOST = 300, 199


def uniform(columns: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, MOST + 1, size=(S, columns))


@pytest.mark.parametrize("test", [uniformity_p_values, symmetry_p_values])
def test_uniform_ranks_are_rejected_as_often_as_the_level_says(test) -> None:
    p = test(uniform(600), MOST)
    for level in (0.05, 0.5):
        rejected = int((p < level).sum())
        assert binomtest(rejected, len(p), level).pvalue > 1e-4, rejected


def test_an_ecdf_leaves_the_band_where_its_p_value_is_small() -> None:
    ranks = uniform(500)
    _, lower, upper = ecdf_band(S, MOST, 0.95)
    lines = ecdf(ranks, MOST) / S
    outside = ((lines < lower[:, None]) | (lines > upper[:, None])).any(axis=0)
    p = uniformity_p_values(ranks, MOST)
    # both are of discrete counts: the p-value of the band's own edge is the level itself
    assert np.array_equal(outside, p < 0.05) or np.abs(p[outside != (p < 0.05)] - 0.05).max() < 0.01


@pytest.mark.parametrize("change", ["narrow", "wide", "shifted", "edge"])
def test_what_is_not_uniform_is_seen(change: str) -> None:
    rng = np.random.default_rng(3)
    u = rng.beta(
        *{"narrow": (2, 2), "wide": (0.5, 0.5), "shifted": (1.5, 1)}.get(change, (1, 1)), S
    )
    ranks = np.floor(u * (MOST + 1)).astype(int)
    if change == "edge":
        ranks[:15] = 0  # a neck that is never reached: 5 % of truths below all draws
    assert uniformity_p_values(ranks[:, None], MOST)[0] < 1e-3
    symmetric = symmetry_p_values(ranks[:, None], MOST)[0]
    assert (symmetric < 1e-3) == (change == "shifted") or change == "edge"


def test_holm_is_its_definition() -> None:
    found = holm(np.array([0.04, 0.01, 0.03, 0.6]))
    np.testing.assert_allclose(found, [0.09, 0.04, 0.09, 0.6])
    assert holm(np.array([0.9, 0.8])).max() == 1.0


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_of_uniform_ranks_exactly_the_level_is_inside(level: float) -> None:
    assert _inside(np.arange(MOST + 1)[:, None], level).mean() == level
