"""Recovers the Gaussian behind a Stan approximation from its draws, and evaluates mixtures of them.

Stan writes draws of q but never its covariance. Each method writes a column κ that is log q up to
a constant, a quadratic in the unconstrained draw, so the Gaussian follows by linear least squares:

    mean known (ADVI, Laplace):  -2 κ = (θ - m)ᵀ P (θ - m)
    mean unknown (Pathfinder):      κ = c + bᵀz + zᵀ A z,   z = θ in whitened coordinates

The system is solved in coordinates whitened by the draws' own moments, where it is well
conditioned, and the fit must reproduce κ at every draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse.linalg import LinearOperator, lsmr
from scipy.special import logsumexp

from stan_models.errors import StanRunError
from stan_models.types import Array

TOLERANCE = 1e-6  # largest disagreement with Stan's own column, per draw


@dataclass(frozen=True)
class StanGaussian:
    """A normal distribution on the unconstrained space: ``mean`` (D,), ``cov`` (D, D)."""

    mean: Array
    cov: Array

    def log_density(self, theta: Array) -> Array:
        """log N(θ | mean, cov), normalised; ``theta`` (N, D) unconstrained, result (N,)."""
        L = np.linalg.cholesky(self.cov)
        z = solve_triangular(L, (theta - self.mean).T, lower=True)
        return -0.5 * (z**2).sum(0) - np.log(np.diag(L)).sum() - 0.5 * len(L) * np.log(2 * np.pi)


def mixture_log_density(theta: Array, weights: Array, components: list[StanGaussian]) -> Array:
    """log Σ_k w_k N(θ | m_k, S_k), (N,), normalised, at unconstrained θ (N, D) for w (K,)."""
    logs = np.stack([component.log_density(theta) for component in components])
    return logsumexp(logs, axis=0, b=np.asarray(weights)[:, None])


def draws_needed(dimension: int, covariance: str = "full") -> int:
    """Draws from which a Gaussian is recovered: twice the number of unknowns."""
    unknowns = dimension if covariance == "diagonal" else dimension * (dimension + 3) // 2 + 1
    return 2 * unknowns + 10


def gaussian_around(mean: Array, theta: Array, kernel: Array, covariance: str) -> StanGaussian:
    """The Gaussian with known ``mean`` and -2 ``kernel`` = (θ - m)ᵀ P (θ - m).

    Parameters
    ----------
    mean, theta, kernel
        (D,) and (N, D) unconstrained, (N,) Stan's column.
    covariance
        "diagonal" or "full".

    Raises
    ------
    StanRunError
        The column is not such a quadratic, or P is not positive definite (Laplace at a point
        that is not a maximum).
    """
    offset = theta - mean
    if covariance == "diagonal":
        scale = _positive(np.sqrt((offset**2).mean(0)))
        precision = np.linalg.lstsq((offset / scale) ** 2, -2 * kernel, rcond=None)[0]
        P = np.diag(precision / scale**2)
    else:
        L = _cholesky(offset.T @ offset / len(offset))
        z = solve_triangular(L, offset.T, lower=True).T
        A = _fit_quadratic(z, -2 * kernel, linear=False)[2]
        P = _unwhiten(A, L)
    _agree(-0.5 * np.einsum("ni,ij,nj->n", offset, P, offset), kernel)
    return StanGaussian(mean, _inverse(P))


def gaussian_of(theta: Array, log_q: Array) -> StanGaussian:
    """The Gaussian whose normalised log density at ``theta`` (N, D) is ``log_q`` (N,)."""
    center = theta.mean(0)
    L = _cholesky(np.cov(theta.T, ddof=0).reshape(len(center), -1))
    z = solve_triangular(L, (theta - center).T, lower=True).T
    _, b, A = _fit_quadratic(z, log_q, linear=True)  # log q = c + bᵀz + zᵀ A z, A negative
    fitted = StanGaussian(center + L @ np.linalg.solve(-2 * A, b), _inverse(_unwhiten(-2 * A, L)))
    _agree(fitted.log_density(theta), log_q)
    return fitted


def _fit_quadratic(z: Array, y: Array, linear: bool) -> tuple[float, Array, Array]:
    """Least squares of y = c + bᵀz + zᵀ A z with A symmetric; c = 0 and b = 0 unless ``linear``.

    A is packed with √2 off the diagonal, which keeps the features' norm; the features are
    never formed: N × D² numbers would not fit where D is in the hundreds.
    """
    N, D = z.shape
    rows, columns = np.triu_indices(D)
    pack = np.where(rows == columns, 1.0, np.sqrt(2))
    extra = D + 1 if linear else 0

    def unpack(x: Array) -> Array:
        A = np.zeros((D, D))
        A[rows, columns] = x[extra:] / pack
        A = A + A.T
        A[np.diag_indices(D)] /= 2
        return A

    def forward(x: Array) -> Array:
        values = ((z @ unpack(x)) * z).sum(1)
        return values + x[0] + z @ x[1 : D + 1] if linear else values

    def adjoint(r: Array) -> Array:
        M = (z * r[:, None]).T @ z
        head = np.concatenate([[r.sum()], z.T @ r]) if linear else np.empty(0)
        return np.concatenate([head, M[rows, columns] * pack])

    size = extra + len(rows)
    operator = LinearOperator((N, size), matvec=forward, rmatvec=adjoint, dtype=float)
    x = np.zeros(size)
    for _ in range(2):  # the second pass solves for what the first left
        x = x + lsmr(operator, y - forward(x), atol=1e-10, btol=1e-10, maxiter=1000)[0]
    c, b = (x[0], x[1 : D + 1]) if linear else (0.0, np.zeros(D))
    return float(c), b, unpack(x)


def _unwhiten(A: Array, L: Array) -> Array:
    """L⁻ᵀ A L⁻¹."""
    half = solve_triangular(L, A, lower=True, trans="T")
    P = solve_triangular(L, half.T, lower=True, trans="T").T
    return 0.5 * (P + P.T)


def _inverse(P: Array) -> Array:
    scale = 1 / np.sqrt(np.abs(np.diag(P)))
    try:
        L = np.linalg.cholesky(P * np.outer(scale, scale))
    except np.linalg.LinAlgError as error:
        smallest = np.linalg.eigvalsh(P)[0]
        raise StanRunError(
            "the approximation is not a Gaussian: its precision matrix has the eigenvalue "
            f"{smallest:.3g}, expected > 0; the point it is centred at is not a maximum"
        ) from error
    half = solve_triangular(L, np.diag(scale), lower=True)
    return half.T @ half


def _cholesky(cov: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise StanRunError(
            "the approximation's draws lie in a subspace: their covariance is singular to double "
            "precision, so its Gaussian cannot be recovered; rescale the model's parameters"
        ) from error


def _positive(scale: Array) -> Array:
    if not (scale > 0).all():
        raise StanRunError(
            f"the approximation's scale is zero in coordinates {np.flatnonzero(scale <= 0)}: "
            "it has collapsed; try other initial values or a smaller step size"
        )
    return scale


def _agree(fitted: Array, given: Array) -> None:
    worst = float(np.max(np.abs(fitted - given) / np.maximum(1, np.abs(given))))
    if not worst <= TOLERANCE:
        raise StanRunError(
            "Stan's density column is not that of a Gaussian of its draws: it differs by "
            f"{worst:.1e}, allowed {TOLERANCE:.0e}; draws too extreme for double precision "
            "after the constraining transform are the usual reason"
        )
