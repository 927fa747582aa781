"""Normal kernels of one covariance about points: a law of what a few points are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, ndtr

from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.numbers import cholesky

__all__ = ["Kernels", "kernels_about", "spread_of"]

# Of the points' covariance, as some are alike, and of q's beside it, as they may be fewer than
# dimensions.
WIDER, OF_Q = 1.2, 1e-3


@dataclass(frozen=True, eq=False)
class Kernels:
    """r = Σ_k N(θ_k, L Lᵀ) / K, without a triangular solve for each of K as a mixture of Gaussians
    takes: 256 about points in 300 dimensions took 28 s for 22,000 draws.

    Parameters
    ----------
    points
        θ_k, (K, D).
    root
        L, (D, D), lower triangular.
    """

    points: Array
    root: Array

    @property
    def latent_dimension(self) -> int:
        """One normal chooses the point, D make the draw."""
        return 1 + self.points.shape[1]

    def forward(self, z: Array) -> Array:
        """Draws, (N, 1 + D) -> (N, D)."""
        K = len(self.points)
        chosen = np.minimum((K * ndtr(z[:, 0])).astype(int), K - 1)  # Φ(z₀) is uniform
        return self.points[chosen] + z[:, 1:] @ self.root.T

    def log_density(self, theta: Array) -> Array:
        """Normalised log r, (N, D) -> (N,)."""
        (K, D), diagonal = self.points.shape, np.diag(self.root)
        of_points, v = (
            solve_triangular(self.root, x.T, lower=True).T for x in (self.points, theta)
        )
        constant = np.log(K) + np.log(diagonal).sum() + 0.5 * D * np.log(2 * np.pi)
        return logsumexp(-0.5 * cdist(v, of_points, "sqeuclidean"), axis=1) - constant


def kernels_about(points: Array, cov: Array) -> Kernels:
    """Kernels about points (K, D), each once, beside a q of that covariance (D, D), of a width by
    Silverman's rule.

    Silverman (1986), Density estimation for statistics and data analysis, section 4.3.2.
    """
    K, D = points.shape
    return Kernels(points, cholesky((4 / (K * (D + 2))) ** (2 / (D + 4)) * spread_of(points, cov)))


def spread_of(points: Array, cov: Array) -> Array:
    """Covariance (D, D) of what points (K, D) are of."""
    return WIDER * np.atleast_2d(np.cov(points.T)) + OF_Q * cov
