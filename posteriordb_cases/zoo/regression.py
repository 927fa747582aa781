"""Regression of few rows with unknown noise, which is skewed and lends the slopes its tails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity
from posteriordb_cases.zoo.numerics import GridLaw

__all__ = ["Regression"]


class Regression(ZooDensity):
    """y ~ N(α + β x, σ²), α, β ~ N(0, 10²), σ ~ half-normal(s); θ = (α, β, log σ).

    Exact: α, β | σ are Gaussian, and log σ is summed over a grid.

    Parameters
    ----------
    x, y
        Data (n,).
    scale
        s.
    """

    dimension, prior = 3, 10.0

    def __init__(self, x: Sequence[float], y: Sequence[float], scale: float) -> None:
        self.X = np.column_stack([np.ones(len(x)), x])
        self.y, self.scale = np.asarray(y, float), scale
        u = np.linspace(-12, np.log(12 * scale), 20_001)
        mean, root, log_det = self._coefficients(u)
        fitted = (np.einsum("gij,gj->gi", root, mean) ** 2).sum(axis=1)
        value = (
            0.5 * fitted
            - 0.5 * log_det
            - 0.5 * (self.y**2).sum() * np.exp(-2 * u)
            - (len(self.y) - 1) * u
            - 0.5 * np.exp(2 * u) / scale**2
        )
        self._log_sigma = GridLaw(u, value)
        self.log_z = self._log_sigma.log_z + float(np.log(2 * np.pi))

    def _coefficients(self, u: Array) -> tuple[Array, Array, Array]:
        """Of α, β | σ: mean (G, 2), Lᵀ of the precision L Lᵀ (G, 2, 2), and its log det (G,)."""
        weight = np.exp(-2 * u)[:, None]
        precision = weight[..., None] * (self.X.T @ self.X) + np.eye(2) / self.prior**2
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, (weight * (self.X.T @ self.y))[..., None])[..., 0]
        log_det = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        return mean, np.swapaxes(root, 1, 2), log_det

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        b, u = theta[:, :2], theta[:, 2]
        weight, e, n = np.exp(-2 * u), self.y - b @ self.X.T, len(self.y)
        square, sigma = weight * (e**2).sum(axis=1), np.exp(2 * u) / self.scale**2
        lp = -0.5 * square - 0.5 * (b**2).sum(axis=1) / self.prior**2 - (n - 1) * u - 0.5 * sigma
        by_b = weight[:, None] * (e @ self.X) - b / self.prior**2
        return lp, np.column_stack([by_b, square - (n - 1) - sigma])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        u = self._log_sigma.draws(n, rng)
        mean, root, _ = self._coefficients(u)
        noise = np.linalg.solve(root, rng.standard_normal((n, 2, 1)))[..., 0]
        return np.column_stack([mean + noise, u])
