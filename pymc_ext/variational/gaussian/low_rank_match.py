r"""Batch and match for a Gaussian of low rank plus diagonal: products only, memory O(D).

In q's own coordinates, z = R⁻¹(θ − μ), a match leaves every direction as it is that neither a draw
nor a score points along. It is therefore a dense match in the span of both, of at most 2 B
dimensions, and what comes out is brought back to the rank as in factor analysis. Modi, Cai & Saul
(2025), Batch, match, and patch: low-rank approximations for score-based variational inference,
arXiv:2410.22292; dense in :mod:`.score_matching`.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.gaussian.score_matching import divergence, matched

PATCHES = 4  # steps of factor analysis, from a start that is itself its classical iteration


def matched_low_rank(
    q: LowRankGaussian, theta: Array, scores: Array, weight: float, rank: int
) -> tuple[LowRankGaussian, float]:
    """The match at a rank, and the KL of the exact one from q, nats."""
    new, moved = exact_match(q, theta, scores, weight)
    return patched(new, rank), moved


def exact_match(
    q: LowRankGaussian, theta: Array, scores: Array, weight: float
) -> tuple[LowRankGaussian, float]:
    """The match of :func:`.score_matching.matched`, whose rank is up to 2 B higher, and its KL.

    Raises LinAlgError where rounding leaves no covariance.
    """
    z, g = q.inverse(theta), q.pullback(theta, scores)
    span = np.linalg.qr(np.concatenate([z, g]).T)[0]
    here = Gaussian(np.zeros(span.shape[1]), np.eye(span.shape[1]))
    new = matched(here, z @ span, g @ span, weight)
    return _moved(q, span, new), divergence(new, here)


def _moved(q: LowRankGaussian, span: Array, inner: Gaussian) -> LowRankGaussian:
    """q with its coordinates in ``span``, orthonormal (D, K), distributed as ``inner`` says."""
    mean = q.mean + q.root_product((span @ inner.mean)[None])[0]
    # R = diag(s) F, F = I + U (K − I) Uᵀ: Σ = diag(s)(F Fᵀ + F W (C − I) Wᵀ Fᵀ)diag(s)
    columns = q.root_product(span.T).T / q.scale[:, None]
    basis, T = np.linalg.qr(np.concatenate([q.basis, columns], axis=1))
    k = q.rank
    change = T[:, :k] @ (q.core @ q.core.T - np.eye(k)) @ T[:, :k].T
    change += T[:, k:] @ (inner.cov - np.eye(len(inner.mean))) @ T[:, k:].T
    return LowRankGaussian(mean, q.scale, basis, np.linalg.cholesky(np.eye(len(T)) + change))


def patched(q: LowRankGaussian, rank: int) -> LowRankGaussian:
    """q at a rank: Λ Λᵀ + diag ψ by some EM steps of factor analysis of its covariance."""
    variances, axes = np.linalg.eigh(q.core @ q.core.T)
    basis = q.basis @ axes
    kept = np.flatnonzero(variances > 1)[-rank:]
    variance = 1 + basis**2 @ (variances - 1)  # of θ/s, as everything here
    factor = basis[:, kept] * np.sqrt(variances[kept] - 1)
    rest = variance - np.sum(factor**2, axis=1)
    for _ in range(PATCHES):  # Modi, Cai & Saul (2025), their patch
        weighted = factor / rest[:, None]
        inner = np.eye(len(kept)) + factor.T @ weighted
        projection = np.linalg.solve(inner, weighted.T)  # β
        seen = projection.T + basis @ ((variances - 1)[:, None] * (basis.T @ projection.T))  # Σ βᵀ
        left = np.eye(len(kept)) - projection @ factor + projection @ seen
        factor = np.linalg.solve(left.T, seen.T).T
        rest = variance - np.sum(factor * seen, axis=1)
    return LowRankGaussian.from_factor(q.mean, q.scale[:, None] * factor, q.scale**2 * rest)
