"""Means and sds of the globals of `large_models` with the groups' effects integrated out.

Given the globals φ the groups are independent, p(φ | y) ∝ p(φ) Π_g Z_g(φ): Z_g is a Gaussian
integral where the likelihood is normal, else one by the trapezoidal rule. Draws of φ that an
approximation gives, widened, are weighted by it; where it is bad the weights' ESS says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from benchmarks.speed.large_models import PRIOR_SD, ROWS, VaryingIntercepts, VaryingSlopes
from pymc_ext.maths.types import Array

# Sds of u_g on each side, and the step: the error is exp(−2 π² s²/h²) for integrands of sd s, and
# the narrowest here have .15.
WIDTH, STEP = 7.0, 0.1
DRAWS, FREEDOM, WIDER = 2000, 5, 1.1  # of φ: a Student-t about the given draws, its scale times 1.1


@dataclass(frozen=True)
class Truth:
    """Posterior means and sds of the globals, (k,), from so many effective draws."""

    mean: Array
    std: Array
    ess: float


def true_globals(model: VaryingIntercepts | VaryingSlopes, near: Array, seed: int = 1) -> Truth:
    """By importance sampling; ``near`` (N, k) are draws of an approximation."""
    mean, scale = near.mean(axis=0), WIDER**2 * np.cov(near.T) * (FREEDOM - 2) / FREEDOM
    law = multivariate_t(mean, scale, df=FREEDOM, seed=seed)
    phi = law.rvs(DRAWS)
    marginal = of_slopes if isinstance(model, VaryingSlopes) else of_intercepts
    log_ratio = np.array([marginal(model, row) for row in phi]) - law.logpdf(phi)
    weights = np.exp(log_ratio - logsumexp(log_ratio))
    center = weights @ phi
    return Truth(center, np.sqrt(weights @ (phi - center) ** 2), float(1 / np.sum(weights**2)))


def of_intercepts(model: VaryingIntercepts, phi: Array) -> float:
    """log p(φ) Π_g Z_g(φ), φ = (μ, β, log τ), up to a constant."""
    mu, beta, log_tau = phi
    nodes = np.arange(-WIDTH, WIDTH + STEP / 2, STEP)[:, None]
    terms = -0.5 * nodes**2 + np.zeros(model.groups)
    for x, y in zip(model.x, model.y, strict=True):
        terms += model.likelihood(mu + np.exp(log_tau) * nodes + beta * x, y)[0]
    prior = -0.5 * (mu**2 + beta**2) / PRIOR_SD**2 - 0.5 * log_tau**2
    return float(prior + logsumexp(terms, axis=0).sum())


def of_slopes(model: VaryingSlopes, phi: Array) -> float:
    """The same for φ = (μ_a, μ_b, log τ_a, log τ_b, log σ)."""
    variance_a, variance_b, noise = np.exp(2 * phi[2:])
    x = model.x.T
    cov = noise * np.eye(ROWS) + variance_a + variance_b * x[:, :, None] * x[:, None, :]
    off = model.y.T - phi[0] - phi[1] * x
    root = np.linalg.cholesky(cov)
    scaled = np.linalg.solve(root, off[:, :, None])[:, :, 0]
    log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
    prior = -0.5 * np.sum(phi[:2] ** 2) / PRIOR_SD**2 - 0.5 * np.sum(phi[2:] ** 2)
    return float(prior - 0.5 * np.sum(scaled**2) - log_det)
