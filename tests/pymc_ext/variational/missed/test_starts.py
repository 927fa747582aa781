"""Starts of the search for missed mass: of how many points, and which of them are taken."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.missed.starts import NUMBERS, starts_of

MOST = 2 * 8 + 4 + 8 + 5  # pairs, near the origin, of many in random directions, along coordinates


def normal(D):
    return CountedDensity(
        CallableDensity(lambda t: -0.5 * (t**2).sum(1), lambda t: -t, dimension=D)
    )


def found(density, theta, seed=1):
    return np.array(starts_of(density, theta, 0.0, np.random.default_rng(seed)))


def draws(D, N=1_000):
    """Of mean 0 and covariance I to all digits."""
    z = np.random.default_rng(0).standard_normal((N, D))
    z -= z.mean(axis=0)
    return z @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(z.T)))).T


@pytest.mark.parametrize("D", [1, 2, 3, 5, 20, 100, 600])
def test_no_more_values_are_asked_than_their_numbers_allow(D) -> None:
    density = normal(D)
    starts = found(density, draws(D))
    assert starts.shape == (MOST, D) and np.isfinite(starts).all()
    assert density.gradients == 0
    assert density.values < 2 * NUMBERS / D + 120 and density.values < 9_000


def test_a_seed_tells_the_starts() -> None:
    first, again, other = (found(normal(3), draws(3), seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any(axis=1).all()


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 4.0])
def test_the_point_that_stands_out_is_taken_though_nearer_ones_are_higher(power) -> None:
    """A cone to one side in which p̃ is higher than elsewhere by a share, whichever its tails."""

    def log_p(t):
        r = np.linalg.norm(t, axis=1)
        return -(r**power) * np.where(t[:, 0] > 0.95 * r, 0.97, 1.0)

    density = CountedDensity(CallableDensity(log_p, lambda t: -t, dimension=3))
    starts = found(density, draws(3))[20:28]
    assert (starts[:, 0] > 0.95 * np.linalg.norm(starts, axis=1)).all()


def test_points_along_a_coordinate_have_the_others_where_q_expects_them() -> None:
    sds, correlation = np.array([1.0, 100.0]), 0.9
    cov = np.array([[1, correlation], [correlation, 1]]) * np.outer(sds, sds)
    theta = draws(2) @ np.linalg.cholesky(cov).T
    seen = []

    def log_p(t):
        seen.append(t)
        return np.zeros(len(t))

    density = CountedDensity(CallableDensity(log_p, lambda t: 0 * t, dimension=2))
    found(density, theta)
    along = np.concatenate(seen[-5:]) / sds
    ratio = np.abs(along).min(axis=1) / np.abs(along).max(axis=1)
    np.testing.assert_allclose(ratio, correlation, rtol=1e-6)
    farthest = np.abs(along).max(axis=1)
    assert 2 < farthest.min() < 3 and 1_500 < farthest.max() < 2_048


def test_where_p_has_no_value_there_is_no_start() -> None:
    def log_p(t):
        return np.where(np.linalg.norm(t, axis=1) < 100, -0.5 * (t**2).sum(1), np.nan)

    density = CountedDensity(CallableDensity(log_p, lambda t: -t, dimension=2))
    starts = found(density, draws(2))
    assert len(starts) < MOST
    assert (np.linalg.norm(starts[20:], axis=1) < 100).all()
