"""The posterior of Gaussian sites against dense linear algebra, full and sparse."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.gp import CVI, Gaussian
from pymc_ext.gp.covariance import JITTER, SMALL_JITTER, jittered_cholesky
from pymc_ext.gp.errors import ImproperPosteriorError
from pymc_ext.gp.full import FullPrior
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.gp.solver import Solver
from pymc_ext.gp.sparse import SparsePrior
from tests.pymc_ext.gp.problems import covariance, prior, sparse

TAU = {
    "positive": np.array([0.5, 2.0, 0.0, 1e4, 1e-9, 0.3]),
    "mixed": np.array([0.5, -0.2, 0.0, 3.0, -0.05, 0.3]),
    "negative": np.array([-0.1, -0.2, -0.01, -0.1, -0.05, -0.1]),
}


def dense(mean, K, sites):
    """Mean, covariance and log normaliser by inverses."""
    precision = np.linalg.inv(K) + np.diag(sites.precision)
    S = np.linalg.inv(precision)
    mu = S @ (np.linalg.solve(K, mean) + sites.linear)
    log_det = np.linalg.slogdet(np.eye(len(K)) + K * sites.precision)[1]
    log_Z = 0.5 * (mu @ precision @ mu - mean @ np.linalg.solve(K, mean) - log_det)
    return mu, S, log_Z


def log_normaliser(post) -> float:
    """log ∫ p(f) Π t_i(f_i) df."""
    at_mean = post.sites.linear * post.mean - 0.5 * post.sites.precision * post.mean**2
    return post.centred_log_normaliser + np.sum(at_mean)


@pytest.mark.parametrize("signs", TAU)
def test_full_posterior_matches_dense_algebra(signs: str) -> None:
    _, m, K = prior(6)
    sites = GaussianSites(np.arange(6) - 2.0, TAU[signs])
    post = FullPrior(m, K).condition(sites)
    mu, S, log_Z = dense(m, K, sites)
    np.testing.assert_allclose(post.mean, mu, rtol=1e-8)
    np.testing.assert_allclose(post.variance, np.diag(S), rtol=1e-8)
    np.testing.assert_allclose(post.S, S, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(post.apply_covariance(mu), S @ mu, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(post.R, np.linalg.inv(K) @ (K - S) @ np.linalg.inv(K), atol=1e-6)
    assert log_normaliser(post) == pytest.approx(log_Z, rel=1e-9)


@pytest.mark.parametrize("signs", TAU)
def test_gradient_in_the_prior_matches_dense_algebra(signs: str) -> None:
    """Of log Z + cᵀμ + eᵀdiag(S), in K along one symmetric direction, and in every mean."""
    _, m, K = prior(6)
    sites = GaussianSites(np.arange(6) - 2.0, TAU[signs])
    c, e, direction = np.random.default_rng(3).normal(size=(3, 6))

    def value(m: np.ndarray, K: np.ndarray) -> float:
        mu, S, log_Z = dense(m, K, sites)
        return float(log_Z + c @ mu + e @ np.diag(S))

    def slope(by_m: np.ndarray, by_K: np.ndarray) -> float:
        h = 1e-5
        return (value(m + h * by_m, K + h * by_K) - value(m - h * by_m, K - h * by_K)) / (2 * h)

    by_m, by_K = FullPrior(m, K).condition(sites).gradient(c, e)
    at = np.outer(direction, direction)
    assert np.sum(by_K * at) == pytest.approx(slope(np.zeros(6), at), rel=1e-6)
    differences = [slope(unit, np.zeros((6, 6))) for unit in np.eye(6)]
    np.testing.assert_allclose(by_m, differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("signs", TAU)
def test_sparse_posterior_with_all_inputs_is_the_full_one(signs: str) -> None:
    X, m, K = prior(6)
    sites = GaussianSites(np.arange(6) - 2.0, TAU[signs])
    full = FullPrior(m, K).condition(sites)
    same = SparsePrior(*sparse(X, m, X)).condition(sites)
    for name in ("mean", "variance", "alpha"):
        np.testing.assert_allclose(getattr(same, name), getattr(full, name), rtol=1e-6, atol=1e-9)
    jitter = SMALL_JITTER * 1.7  # in K_mm always
    assert log_normaliser(same) == pytest.approx(log_normaliser(full), rel=100 * jitter)
    np.testing.assert_allclose(same.residual, jitter, rtol=1e-3)


@pytest.mark.parametrize("signs", TAU)
def test_sparse_posterior_is_the_full_one_of_its_projected_covariance(signs: str) -> None:
    X, m, _ = prior(6)
    Z = np.random.default_rng(5).normal(size=(3, 2))
    Kzx = covariance(Z, X)
    Q = Kzx.T @ np.linalg.solve(covariance(Z, Z) + SMALL_JITTER * 1.7 * np.eye(3), Kzx)
    sites = GaussianSites(np.arange(6) - 2.0, TAU[signs])
    full = FullPrior(m, Q).condition(sites)
    post = SparsePrior(*sparse(X, m, Z)).condition(sites)
    for name in ("mean", "variance", "alpha", "centred_log_normaliser"):
        np.testing.assert_allclose(getattr(post, name), getattr(full, name), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(post.residual, 1.7 - np.diag(Q), rtol=1e-9)
    c = np.random.default_rng(1).normal(size=(2, 6))
    a, b = post.apply_covariance(c[0]), full.apply_covariance(c[0])
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    for a, b in zip(post.pull_back_to_sites(*c), full.pull_back_to_sites(*c), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["full", "sparse"])
def test_too_negative_sites_are_refused(kind: str) -> None:
    X, m, K = prior(6)
    p = FullPrior(m, K) if kind == "full" else SparsePrior(*sparse(X, m, X))
    with pytest.raises(ImproperPosteriorError, match="sites of negative precision outweigh"):
        p.condition(GaussianSites(np.zeros(6), np.full(6, -2.0)))


def test_singular_covariance_of_duplicated_inputs_is_legal() -> None:
    X, m, _ = prior(6)
    X[3:], m[3:] = X[:3], m[:3]
    tau = np.array([1.0, 2.0, 0.5, 0.7, 0.1, 3.0])
    twice = FullPrior(m, covariance(X, X)).condition(GaussianSites(np.arange(6.0), tau))
    nu = np.arange(3.0) + np.arange(3.0, 6.0)
    once = FullPrior(m[:3], covariance(X[:3], X[:3])).condition(
        GaussianSites(nu, tau[:3] + tau[3:])
    )
    np.testing.assert_allclose(twice.mean[:3], once.mean, rtol=1e-9)
    np.testing.assert_allclose(twice.variance[3:], once.variance, rtol=1e-9)
    assert log_normaliser(twice) == pytest.approx(log_normaliser(once), rel=1e-9)


def test_indefinite_covariance_is_refused_with_its_eigenvalue() -> None:
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(
        ValueError, match="K is not positive definite: its smallest eigenvalue is -1"
    ):
        FullPrior(np.zeros(2), K).condition(GaussianSites(np.zeros(2), np.full(2, 5.0)))


def test_jitter_is_added_once_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    X, m, _ = prior(6)
    Z = np.vstack([X[:3], X[:3]])
    p = SparsePrior(*sparse(X, m, Z))
    assert p.jitter == pytest.approx(SMALL_JITTER * 1.7)
    assert SparsePrior(*sparse(X, m, X)).jitter == 0.0  # it decides nothing there
    solver, y = Solver(Gaussian(), CVI()), np.arange(6.0)
    for noise in (1.0, 2.0):
        solver.solve(y, np.array([noise]), sparse(X, m, Z))
    said = [r.getMessage() for r in caplog.records if "added to it" in r.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("K_mm of the inducing inputs is not positive definite")
    exact = SparsePrior(*sparse(X, m, X[:3]))
    sites = GaussianSites(np.arange(6.0), np.ones(6))
    np.testing.assert_allclose(
        p.condition(sites).mean, exact.condition(sites).mean, rtol=1e-4, atol=1e-4
    )


def test_least_jitter_that_has_a_factor() -> None:
    K = covariance(*2 * [np.random.default_rng(0).normal(size=(5, 2))])
    factor = jittered_cholesky(K, "K")
    assert factor.share == SMALL_JITTER
    vectors = np.linalg.qr(K)[0]
    for smallest, share in ((-1e-12, SMALL_JITTER), (-1e-8, JITTER)):
        values = np.array([smallest, 0.5, 1.0, 1.0, 2.5])
        factor = jittered_cholesky((vectors * values) @ vectors.T, "K")
        assert factor.share == share
    assert factor.jitter == pytest.approx(JITTER)  # the mean of the diagonal is 1
    with pytest.raises(ValueError, match="K is not positive definite"):
        jittered_cholesky((vectors * (values - 1e-3)) @ vectors.T, "K")


def test_gradient_through_the_jitter() -> None:
    """Of log|K + jitter|, where K is singular and the jitter grows with it."""
    K = np.outer(*2 * [np.array([1.0, 0.5, 2.0])])
    factor = jittered_cholesky(K, "K")
    assert factor.jitter == pytest.approx(SMALL_JITTER * 5.25 / 3)
    whole = factor.L @ factor.L.T
    by_K = factor.pull_back(np.linalg.inv(whole))
    assert np.sum(by_K * K) == pytest.approx(3.0, rel=1e-4)  # log|cK + c jitter| grows by 3 log c


@pytest.mark.parametrize("kind", ["full", "sparse"])
@pytest.mark.parametrize("signs", TAU)
def test_weights_give_the_posterior_at_the_data(kind: str, signs: str) -> None:
    X, m, K = prior(6)
    Z = X if kind == "full" else X[:4]
    inputs = (m, K) if kind == "full" else sparse(X, m, Z)
    p = FullPrior(*inputs) if kind == "full" else SparsePrior(*inputs)
    post = p.condition(GaussianSites(np.arange(6) - 2.0, TAU[signs]))
    cross = covariance(X, Z)
    w, F, G = post.weights()
    np.testing.assert_allclose(m + cross @ w, post.mean, rtol=1e-7, atol=1e-9)
    variance = 1.7 - np.sum((cross @ F) ** 2, axis=1) + np.sum((cross @ G) ** 2, axis=1)
    np.testing.assert_allclose(variance, post.variance + post.residual, rtol=1e-7)


def test_weights_of_precise_sites_do_not_cancel() -> None:
    """Variances of 1e-6 from prior ones of 25."""
    X = np.linspace(-3, 3, 30)[:, None]
    K = covariance(X, X, 25.0)
    tau = 1e6 * np.exp(np.sin(1.5 * X[:, 0]))
    post = FullPrior(np.zeros(30), K).condition(GaussianSites(tau, tau))
    _, F, _ = post.weights()
    variance = 25.0 - np.sum((K @ F) ** 2, axis=1)
    np.testing.assert_allclose(variance, post.variance, rtol=1e-4)
