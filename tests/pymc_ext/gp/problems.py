"""Small problems shared by the tests of Gaussian processes; the table of their likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

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


@dataclass(frozen=True)
class Case:
    """A line of the contract table of likelihoods.

    Parameters
    ----------
    likelihood, phi
        The likelihood, and values of its parameters, shape (P,).
    y
        Some observations, at which its functions are checked.
    log_density
        ``log_density(f, y, phi)``: log p(y | f) written apart from it, by SciPy.
    draw
        ``draw(rng, f)`` -> one y for every f (n,), on which the rules are run.
    """

    likelihood: px.gp.Likelihood
    phi: list[float]
    y: list[float]
    log_density: Callable[..., Any]
    draw: Callable[..., Any]


def _negative_binomial(f, y, phi):
    """By SciPy, whose p rounds to 0 for large f: there by the likelihood itself."""
    p = phi[0] / (phi[0] + np.exp(np.clip(f, -20, 20)))
    own = px.gp.NegativeBinomial().log_prob(f, np.array([y]), phi)
    return np.where(np.abs(f) < 20, stats.nbinom.logpmf(y, phi[0], p), own)


def _with_outliers(rng, f):
    """Every fourth far off, so that site precisions are negative."""
    y = f + 0.3 * rng.normal(size=len(f))
    y[::4] += np.array([6.0, -7.0] * len(f))[: len(y[::4])]
    return y


LIKELIHOODS = {
    "gaussian": Case(
        px.gp.Gaussian(), [0.6], [-1.3, 0.0, 2.0],
        lambda f, y, phi: stats.norm.logpdf(y, f, phi[0]),
        lambda rng, f: f + 0.6 * rng.normal(size=len(f)),
    ),
    "probit": Case(
        px.gp.BernoulliProbit(), [], [0.0, 1.0, 1.0],
        lambda f, y, phi: stats.norm.logcdf((2 * y - 1) * f),
        lambda rng, f: (f + rng.normal(size=len(f)) > 0).astype(float),
    ),
    "logit": Case(
        px.gp.BernoulliLogit(), [], [0.0, 1.0, 0.0],
        lambda f, y, phi: -np.logaddexp(0, (1 - 2 * y) * f),
        lambda rng, f: (f + rng.logistic(size=len(f)) > 0).astype(float),
    ),
    "poisson": Case(
        px.gp.Poisson(), [], [0.0, 3.0, 40.0],
        lambda f, y, phi: stats.poisson.logpmf(y, np.exp(f)),
        lambda rng, f: rng.poisson(np.exp(f)).astype(float),
    ),
    "negative binomial": Case(
        px.gp.NegativeBinomial(), [1.7], [0.0, 3.0, 40.0], _negative_binomial,
        lambda rng, f: rng.poisson(np.exp(f) * rng.gamma(1.7, 1 / 1.7, len(f))).astype(float),
    ),
    "student-t": Case(
        px.gp.StudentT(), [3.0, 0.3], [-2.0, 0.1, 6.0],
        lambda f, y, phi: stats.t.logpdf(y, phi[0], f, phi[1]), _with_outliers,
    ),
}  # fmt: skip


def observations(name: str, X: np.ndarray, seed: int = 1):
    """Likelihood, its parameters and n observations."""
    case = LIKELIHOODS[name]
    y = case.draw(np.random.default_rng(seed), 1.5 * X[:, 0])
    return case.likelihood, np.array(case.phi), y


def solver_of(rule: str, likelihood: px.gp.Likelihood):
    """`Solver` of a named rule, or None where it does not apply."""
    from pymc_ext.gp.solver import Solver

    kind, learning = RULES[rule]
    try:
        return Solver(likelihood, kind, learning)
    except ValueError:
        return None
