"""Gaussians: of many dimensions, of scales far apart, nearly singular."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Autoregressive", "CorrelatedNormal", "of_condition", "unidentified_pairs"]


class CorrelatedNormal(ZooDensity):
    """N(m, L Lᵀ), unnormalised: log p̃ = −|L⁻¹(θ − m)|²/2.

    Parameters
    ----------
    mean, root
        m (D,) and L (D, D), lower triangular.
    """

    def __init__(self, mean: Array, root: Array) -> None:
        self.mean, self.root, self.dimension = mean, root, len(mean)
        self.log_z = float(0.5 * len(mean) * np.log(2 * np.pi) + np.log(np.diag(root)).sum())

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        z = solve_triangular(self.root, (theta - self.mean).T, lower=True)
        score = -solve_triangular(self.root, z, lower=True, trans="T").T
        return -0.5 * (z**2).sum(axis=0), score

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        return self.mean + rng.standard_normal((n, self.dimension)) @ self.root.T


def of_condition(D: int, condition: float) -> CorrelatedNormal:
    """Eigenvalues of the covariance from 1 to ``condition``, in a random basis."""
    rng = np.random.default_rng(D)
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    cov = (basis * np.geomspace(1, condition, D)) @ basis.T
    return CorrelatedNormal(rng.standard_normal(D), np.linalg.cholesky(cov))


def unidentified_pairs(pairs: int, prior: float, noise: float) -> CorrelatedNormal:
    """Of a_i and b_i ~ N(0, prior²) the data know a_i + b_i = 1 ± noise only; θ = (a, b)."""
    eye = np.eye(pairs)
    precision = np.block([[eye, eye], [eye, eye]]) / noise**2 + np.eye(2 * pairs) / prior**2
    cov = np.linalg.inv(precision)
    return CorrelatedNormal(cov @ np.full(2 * pairs, 1 / noise**2), np.linalg.cholesky(cov))


class Autoregressive(ZooDensity):
    """x_t = ρ x_{t−1} + √(1 − ρ²) ε_t with x_1 ~ N(0, 1), in units s_t: cheap in any dimension.

    Parameters
    ----------
    scales
        s (D,).
    rho
        ρ, the correlation of neighbours.
    """

    def __init__(self, scales: Array, rho: float) -> None:
        self.scales, self.rho, self.dimension = scales, rho, len(scales)
        D = self.dimension
        self.log_z = float(
            0.5 * D * np.log(2 * np.pi) + np.log(scales).sum() + 0.5 * (D - 1) * np.log1p(-(rho**2))
        )

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        x, free = theta / self.scales, 1 - self.rho**2
        step = x[:, 1:] - self.rho * x[:, :-1]
        score = np.zeros_like(x)
        score[:, 0] -= x[:, 0]
        score[:, 1:] -= step / free
        score[:, :-1] += self.rho * step / free
        return -0.5 * x[:, 0] ** 2 - 0.5 * (step**2).sum(axis=1) / free, score / self.scales

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        x = rng.standard_normal((n, self.dimension))
        for t in range(1, self.dimension):
            x[:, t] = self.rho * x[:, t - 1] + np.sqrt(1 - self.rho**2) * x[:, t]
        return x * self.scales
