"""Small problems shared by the tests of Gaussian processes."""

from __future__ import annotations

import numpy as np

import pymc_ext as px

RULES = {
    "laplace": (px.gp.Laplace(), None),
    "laplace-ep": (px.gp.Laplace(), "ep"),
    "laplace-elbo": (px.gp.Laplace(), "elbo"),
    "ep": (px.gp.EP(tolerance=1e-11), None),
    "power-ep": (px.gp.EP(power=0.5, tolerance=1e-11), None),
    "cvi": (px.gp.CVI(tolerance=1e-11), None),
    "hybrid": (px.gp.CVI(tolerance=1e-12), "ep"),
    "matching": (px.gp.Matching(), None),
    "matching-elbo": (px.gp.Matching("moment"), "elbo"),
    "matching-ep": (px.gp.Matching("moment"), "ep"),
    "jaakkola": (px.gp.JaakkolaBound(tolerance=1e-11), None),
}


def covariance(A: np.ndarray, B: np.ndarray, variance: float = 1.7) -> np.ndarray:
    """RBF covariance with unit lengthscale."""
    return variance * np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=-1))


def prior(n: int, seed: int = 0, dims: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs X (n, dims), mean (n,) and covariance (n, n)."""
    X = np.random.default_rng(seed).normal(size=(n, dims))
    return X, 0.3 * X[:, 0], covariance(X, X)


def sparse(X: np.ndarray, mean: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, ...]:
    """Inputs of the sparse prior with inducing inputs Z."""
    return mean, covariance(Z, Z), covariance(X, Z), np.full(len(X), 1.7)


def observations(name: str, X: np.ndarray, seed: int = 1):
    """Likelihood, its parameters and n observations."""
    rng, n = np.random.default_rng(seed), len(X)
    f = 1.5 * X[:, 0]
    if name == "gaussian":
        return px.gp.Gaussian(), np.array([0.6]), f + 0.6 * rng.normal(size=n)
    if name == "probit":
        return px.gp.BernoulliProbit(), np.array([]), (f + rng.normal(size=n) > 0).astype(float)
    if name == "logit":
        return px.gp.BernoulliLogit(), np.array([]), (f + rng.logistic(size=n) > 0).astype(float)
    if name == "poisson":
        return px.gp.Poisson(), np.array([]), rng.poisson(np.exp(f)).astype(float)
    if name == "negative binomial":
        y = rng.poisson(np.exp(f) * rng.gamma(1.7, 1 / 1.7, n)).astype(float)
        return px.gp.NegativeBinomial(), np.array([1.7]), y
    y = f + 0.3 * rng.normal(size=n)
    y[::4] += np.array([6.0, -7.0] * n)[: len(y[::4])]  # outliers: negative site precisions
    return px.gp.StudentT(), np.array([3.0, 0.3]), y


def solver_of(rule: str, likelihood: px.gp.Likelihood):
    """`Solver` of a named rule, or None where it does not apply."""
    from pymc_ext.gp.solver import Solver

    kind, learning = RULES[rule]
    try:
        return Solver(likelihood, kind, learning)
    except ValueError:
        return None
