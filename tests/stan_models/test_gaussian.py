"""Gaussians recovered from draws and a density column, against the ones the draws came from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stan_models.errors import StanRunError
from stan_models.gaussian import (
    StanGaussian,
    draws_needed,
    gaussian_around,
    gaussian_of,
    mixture_log_density,
)


def truth(dimension: int, seed: int = 1) -> StanGaussian:
    """A correlated Gaussian whose scales span orders of magnitude."""
    rng = np.random.default_rng(seed)
    B, s = rng.normal(size=(dimension, dimension)), np.exp(2 * rng.normal(size=dimension))
    cov = (B @ B.T / dimension + 0.1 * np.eye(dimension)) * np.outer(s, s)
    return StanGaussian(10 * rng.normal(size=dimension), cov)


def sample(gaussian: StanGaussian, count: int, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Draws and the column -|z|²/2 that ADVI and Laplace write beside them."""
    z = np.random.default_rng(seed).normal(size=(count, len(gaussian.mean)))
    return gaussian.mean + z @ np.linalg.cholesky(gaussian.cov).T, -0.5 * (z**2).sum(1)


def assert_same(found: StanGaussian, expected: StanGaussian, tolerance: float = 1e-8) -> None:
    sd = np.sqrt(np.diag(expected.cov))
    assert np.abs((found.mean - expected.mean) / sd).max() < tolerance
    assert np.abs((found.cov - expected.cov) / np.outer(sd, sd)).max() < tolerance


@pytest.mark.parametrize("dimension", [1, 2, 10, 40])
def test_full_covariance_is_recovered_from_the_fewest_draws_allowed(dimension):
    expected = truth(dimension)
    theta, kernel = sample(expected, draws_needed(dimension))
    assert_same(gaussian_around(expected.mean, theta, kernel, "full"), expected)
    assert_same(gaussian_of(theta, expected.log_density(theta)), expected)


def test_diagonal_covariance_is_recovered_from_the_fewest_draws_allowed():
    expected = StanGaussian(np.array([3.0, -1e3, 0.0]), np.diag([1e-6, 4.0, 1e4]))
    theta, kernel = sample(expected, draws_needed(3, "diagonal"))
    assert_same(gaussian_around(expected.mean, theta, kernel, "diagonal"), expected)


def test_log_densities_are_scipys():
    first, second = truth(4, seed=3), truth(4, seed=4)
    theta = np.vstack([sample(first, 5)[0], sample(second, 5)[0]])
    own = np.stack([multivariate_normal(g.mean, g.cov).logpdf(theta) for g in (first, second)])
    np.testing.assert_allclose(first.log_density(theta), own[0], rtol=1e-9)
    mixture = np.logaddexp(np.log(0.3) + own[0], np.log(0.7) + own[1])
    found = mixture_log_density(theta, np.array([0.3, 0.7]), [first, second])
    np.testing.assert_allclose(found, mixture, rtol=1e-9)


def test_column_of_another_density_is_refused():
    expected = truth(3)
    theta, kernel = sample(expected, 200)
    with pytest.raises(StanRunError, match="not that of a Gaussian"):
        gaussian_around(expected.mean, theta, kernel - 1e-3 * kernel**2, "full")
    with pytest.raises(StanRunError, match="not that of a Gaussian"):
        gaussian_of(theta, expected.log_density(theta) + 0.1)  # not normalised
    with pytest.raises(StanRunError, match="not that of a Gaussian"):
        gaussian_around(expected.mean, theta, kernel, "diagonal")  # correlated


def test_indefinite_precision_is_refused():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(100, 2))
    saddle = -0.5 * (theta[:, 0] ** 2 - theta[:, 1] ** 2)
    with pytest.raises(StanRunError, match="not a maximum"):
        gaussian_around(np.zeros(2), theta, saddle, "full")


def test_collapsed_draws_are_refused():
    theta = np.random.default_rng(6).normal(size=(100, 2)) * [1.0, 0.0]
    with pytest.raises(StanRunError, match="collapsed"):
        gaussian_around(np.zeros(2), theta, -0.5 * (theta**2).sum(1), "diagonal")
    with pytest.raises(StanRunError, match="singular"):
        gaussian_around(np.zeros(2), theta, -0.5 * (theta**2).sum(1), "full")
