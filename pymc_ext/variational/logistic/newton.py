"""Natural-gradient ascent of a Gaussian ELBO, closed form in a logistic model affine in β.

ELBO(μ, Σ) = Σ_i weight_i [y_i ϑ_i − trials_i E(ϑ_i, τ_i)] + E_q log p(β) + ½ log|2πe Σ|,
ϑ = a + Xμ, τ_i² = x_iᵀΣx_i; E is the expected softplus or a bound on it. In natural parameters the
gradient step of length 1 is Λ ← P + Xᵀ diag(w h) X, h = 2∂E/∂τ², then μ ← μ + Λ⁻¹ ∂ELBO/∂μ: Newton
in μ; a fixed point in Σ. With Jaakkola and Jordan's bound it is their closed-form update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import DEFAULT_TERMS, series
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.monitor import STOPPED
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.logistic.numbers import GaussianPrior, LogisticData, Terms

# (ϑ, τ) -> E, ∂E/∂ϑ, h = 2∂E/∂τ², each (n,)
Softplus = Callable[[Array, Array], tuple[Array, Array, Array]]

Normal = Gaussian | DiagonalGaussian

LOG_2PI_E = float(np.log(2 * np.pi) + 1)


def exact_softplus(theta: Array, tau: Array) -> tuple[Array, Array, Array]:
    """The expected softplus itself as a `Softplus`, without compilation."""
    numbers = series(0, DEFAULT_TERMS, "cohen-villegas-zagier")
    value, slope, by_tau = expected_softplus_derivatives(theta, tau, numbers)
    return value, slope, curvature(by_tau, tau)


def curvature(by_tau: Array, tau: Array) -> Array:
    """h = 2∂E/∂τ² from ∂E/∂τ; where τ = 0 a row does not move with Σ, and h is not used."""
    return by_tau / np.where(tau > 0, tau, 1.0)


def by_precision(mean: Array, precision: Array) -> Gaussian:
    """N(mean, precision⁻¹). Raises LinAlgError where it is not positive definite."""
    R = cholesky(precision, lower=True)
    return Gaussian(mean, solve_triangular(R, np.eye(len(R)), lower=True).T, R.T)


def first_gaussian(mean: Array, data: LogisticData, prior: GaussianPrior, full: bool) -> Normal:
    """N(mean, Λ⁻¹) with the largest curvature the likelihood can have, h = 1/4."""
    X = data.X * np.sqrt(0.25 * data.trials * data.weight)[:, None]
    precision = prior.precision + X.T @ X
    if full:
        return by_precision(mean, precision)
    return DiagonalGaussian(mean, np.diag(precision) ** -0.5)


@dataclass(frozen=True)
class Expansion:
    """ELBO at a Gaussian with the gradient in μ and −2∂/∂Σ of its non-entropy part."""

    elbo: float
    gradient: Array
    precision: Array


class Data(Protocol):
    """Rows of a logistic model: arrays (:class:`LogisticData`), or blocks of a file."""

    def total(self, of: Callable[[LogisticData], Terms], q: Normal) -> Terms:
        """The sum of ``of`` over blocks of rows; ``q`` is what it depends on beside them."""


def expand(q: Normal, data: Data, prior: GaussianPrior, softplus: Softplus) -> Expansion:
    """One pass over the data, a block of rows at a time."""
    value, gradient, precision = data.total(lambda rows: of_rows(q, rows, softplus), q)
    elbo = value + prior.expected(q.mean, q.cov) + q.log_det + 0.5 * len(q.mean) * LOG_2PI_E
    gradient, precision = gradient + prior.score(q.mean), precision + prior.precision
    return Expansion(elbo, gradient, (precision + precision.T) / 2)


def of_rows(q: Normal, rows: LogisticData, softplus: Softplus) -> Terms:
    """E_q log likelihood of the rows, its gradient in μ, and −2∂/∂Σ of it."""
    X, w, trials = rows.X, rows.weight, rows.trials * rows.weight
    theta = rows.offset + X @ q.mean
    A = X * q.std if isinstance(q, DiagonalGaussian) else X @ q.root
    value, slope, h = softplus(theta, np.sqrt(np.einsum("ij,ij->i", A, A)))
    expected = rows.constant + w * rows.y @ theta - trials @ value
    return float(expected), X.T @ (w * rows.y - trials * slope), X.T @ (X * (trials * h)[:, None])


def mismatch(q: Normal, at: Expansion) -> float:
    """Distance to the fixed point in nats, ½ gᵀΣg + ¼‖Σ^½ (Λ' − Λ) Σ^½‖², at q's own Σ."""
    if isinstance(q, DiagonalGaussian):
        step, gap = q.std * at.gradient, np.diag(at.precision) * q.std**2 - 1
    else:
        step, gap = q.root.T @ at.gradient, q.root.T @ at.precision @ q.root - np.eye(len(q.mean))
    return float(0.5 * step @ step + 0.25 * np.sum(gap**2))


def step(q: Normal, at: Expansion, rate: float) -> Normal | None:
    """Natural-gradient step of length ``rate``; None where it has no positive precision.

    A diagonal Σ keeps the full Hessian for its mean, which then converges as fast as for full Σ.
    """
    try:
        if isinstance(q, DiagonalGaussian):
            precision = (1 - rate) / q.std**2 + rate * np.diag(at.precision)
            root = cholesky(at.precision, lower=True)
            mean = q.mean + rate * cho_solve((root, True), at.gradient)
            return DiagonalGaussian(mean, precision**-0.5) if precision.min() > 0 else None
        precision = (1 - rate) * (q.root_inverse.T @ q.root_inverse) + rate * at.precision
        new = by_precision(q.mean, precision)
        return replace(new, mean=q.mean + rate * (new.root @ (new.root.T @ at.gradient)))
    except np.linalg.LinAlgError:  # a truncated bound need not be convex
        return None


@dataclass(frozen=True)
class NewtonFit:
    """The Gaussian at which :func:`maximise` stopped."""

    q: Normal
    elbo: float
    iterations: int
    evaluations: int
    converged: bool
    reason: str


def maximise(
    data: Data,
    prior: GaussianPrior,
    softplus: Softplus,
    q: Normal,
    *,
    iterations: int,
    tolerance: float,
    report: Callable[[Normal, float], None],
) -> NewtonFit:
    """Ascend until the mismatch is below ``tolerance`` nats; steps that lose ELBO are halved."""
    at, rate, evaluations = expand(q, data, prior, softplus), 1.0, 1
    for i in range(iterations):
        gap = mismatch(q, at)
        if gap < tolerance:
            return NewtonFit(q, at.elbo, i, evaluations, True, f"natural gradient {gap:.1e} nats")
        while True:
            trial = step(q, at, rate)
            if trial is not None:
                new = expand(trial, data, prior, softplus)
                evaluations += 1
                if new.elbo >= at.elbo - 1e-12 * abs(at.elbo):
                    break
            rate /= 2
            if rate < 1e-6:
                reason = f"no step raises the ELBO; natural gradient {gap:.1e} nats"
                return NewtonFit(q, at.elbo, i, evaluations, False, reason)
        q, at, rate = trial, new, min(1.0, 2 * rate)
        try:
            report(q, at.elbo)
        except StopIteration:
            return NewtonFit(q, at.elbo, i + 1, evaluations, False, STOPPED)
    gap = mismatch(q, at)
    done = gap < tolerance
    reason = f"natural gradient {gap:.1e} nats" + (
        "" if done else f" after {iterations} iterations"
    )
    return NewtonFit(q, at.elbo, iterations, evaluations, done, reason)
