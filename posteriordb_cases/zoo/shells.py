"""Rings and shells: mass at one distance from the origin, where the density is lowest."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from posteriordb_cases.zoo.density import Array, ZooDensity
from posteriordb_cases.zoo.numerics import GridLaw

__all__ = ["Shell"]


class Shell(ZooDensity):
    """log p̃ = −(|θ|² − R²)² / (8 R² s²): a shell of radius R and about s thick.

    Exact: the distance has a law in one dimension, the direction is uniform.

    Parameters
    ----------
    dimension, radius, width
        D, R and s.
    """

    def __init__(self, dimension: int, radius: float, width: float) -> None:
        self.dimension, self.radius, self.width = dimension, radius, width
        r = np.linspace(0, radius + 12 * width, 20_001)[1:]
        value = -((r**2 - radius**2) ** 2) / (8 * radius**2 * width**2)
        self._distance = GridLaw(r, value + (dimension - 1) * np.log(r))
        sphere = np.log(2) + 0.5 * dimension * np.log(np.pi) - gammaln(dimension / 2)
        self.log_z = float(sphere + self._distance.log_z)

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        unit = 2 * self.radius**2 * self.width**2
        excess = (theta**2).sum(axis=1) - self.radius**2
        return -(excess**2) / (4 * unit), -(excess / unit)[:, None] * theta

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        u = rng.standard_normal((n, self.dimension))
        distance = self._distance.draws(n, rng)
        return u * (distance / np.linalg.norm(u, axis=1))[:, None]
