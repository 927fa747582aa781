"""The low-rank Gaussian against its dense covariance, and paths against dense BFGS."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.newton import (
    Iterate,
    _candidates,
    diagonal_of_inverse,
    newton_gaussians,
    stacked,
)
from pymc_ext.variational.gaussian.path import follow_path
from tests.tolerances import NUMERIC, monte_carlo

D, R = 6, 2


@pytest.fixture
def q():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((D, R)))[0]
    core = rng.standard_normal((R, R)) + 2 * np.eye(R)
    return LowRankGaussian(rng.standard_normal(D), np.exp(rng.standard_normal(D)), basis, core)


def test_density_draws_and_moments_are_those_of_the_covariance(q) -> None:
    z = np.random.default_rng(2).standard_normal((5, D))
    theta, log_q = q.forward(z)
    dense = multivariate_normal(q.mean, q.cov)
    np.testing.assert_allclose(log_q, dense.logpdf(theta), rtol=NUMERIC)
    np.testing.assert_allclose(q.log_density(theta), log_q, rtol=NUMERIC)
    np.testing.assert_allclose(q.std, np.sqrt(np.diag(q.cov)), rtol=NUMERIC)
    np.testing.assert_allclose(q.inverse(theta), z, atol=1e-10)


def test_scores_are_pulled_back_by_the_transposed_root(q) -> None:
    z, s = np.random.default_rng(3).standard_normal((2, 4, D))
    root = q.root_product(np.eye(D)).T
    np.testing.assert_allclose(q.pullback(z, s), s @ root, rtol=1e-9, atol=1e-12)


def test_a_factor_and_a_diagonal_make_their_covariance() -> None:
    rng = np.random.default_rng(4)
    factor, variance = rng.standard_normal((D, R)), np.exp(rng.standard_normal(D))
    q = LowRankGaussian.from_factor(np.zeros(D), factor, variance)
    np.testing.assert_allclose(q.cov, factor @ factor.T + np.diag(variance), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("pairs", [1, 3, 5])  # five pairs of six dimensions: B has ten columns
def test_the_compact_form_is_the_inverse_hessian_of_bfgs(pairs) -> None:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((D, D))
    A = A @ A.T + np.eye(D)
    steps = rng.standard_normal((pairs, D))
    alpha, H = np.ones(D), None
    for s in steps:
        alpha = diagonal_of_inverse(alpha, s, A @ s)
    H = np.diag(alpha)
    for s in steps:
        y, identity = A @ s, np.eye(D)
        V = identity - np.outer(s, y) / (s @ y)
        H = V @ H @ V.T + np.outer(s, s) / (s @ y)
    x, slope = rng.standard_normal((2, D))
    q = stacked([Iterate(x, slope, alpha, tuple((s, A @ s) for s in steps))]).one(0)
    np.testing.assert_allclose(q.cov, H, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(q.mean, x - H @ slope, rtol=1e-8, atol=1e-10)


def test_gaussians_of_a_path_are_the_same_one_at_a_time(monkeypatch) -> None:
    """On a banana, where curvatures differ, with a pair that says nothing and one that is mad."""
    rng = np.random.default_rng(6)
    points = list(np.cumsum(rng.standard_normal((30, D)), axis=0))
    slopes = [x + 0.3 * x**3 for x in points]
    slopes[10] = slopes[9] - (points[10] - points[9])  # sᵀy < 0
    together = list(newton_gaussians(points, slopes, 4))
    monkeypatch.setattr("pymc_ext.variational.gaussian.newton.NUMBERS_TOGETHER", 1)
    alone = list(newton_gaussians(points, slopes, 4))
    assert len(together) < 10 < len(alone) == sum(map(len, together))
    many = [some.one(i) for some in together for i in range(len(some))]
    for q, own in zip(many, alone, strict=True):
        z = rng.standard_normal((3, D))
        np.testing.assert_allclose(q.mean, own.one(0).mean, rtol=1e-10)
        for mine, its in zip(q.forward(z), own.forward(z[None]), strict=True):
            np.testing.assert_allclose(mine, its[0], rtol=1e-9)


def test_an_iterate_without_a_gaussian_leaves_the_others_theirs() -> None:
    x = np.ones(D)
    good = Iterate(x, x, x, ((x, x),))
    bad = Iterate(x, x, x, ((x, -x),))
    with pytest.raises(np.linalg.LinAlgError):
        stacked([good, bad])
    assert [len(some) for some in _candidates([good, bad, good])] == [1, 1]


def test_a_path_on_a_gaussian_finds_its_mode_and_nearly_its_evidence() -> None:
    precision = np.diag([1.0, 4.0, 25.0])
    density = CallableDensity(
        lambda t: -0.5 * np.sum(t @ precision * t, axis=1), lambda t: -t @ precision, dimension=3
    )
    path = follow_path(CountedDensity(density), np.ones(3), np.random.default_rng(1))
    np.testing.assert_allclose(path.end, 0, atol=1e-4)
    fresh = fresh_draws(path.q, density, np.random.default_rng(2))
    log_z = 1.5 * np.log(2 * np.pi) - 0.5 * np.log(100)
    assert log_z - 0.1 < fresh.elbo < log_z + monte_carlo(fresh.elbo_se)
    assert abs(path.elbo - fresh.elbo) < 0.5  # ten draws, the best of its iterates


def test_a_path_from_where_there_is_no_density_is_none() -> None:
    density = CallableDensity(
        lambda t: np.where(t[:, 0] > 5, -t[:, 0], -np.inf), lambda t: -np.ones_like(t), dimension=1
    )
    assert follow_path(CountedDensity(density), np.zeros(1), np.random.default_rng(1)) is None
