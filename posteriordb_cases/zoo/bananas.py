"""Bananas: Gaussians bent along a parabola."""

from __future__ import annotations

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Banana"]


class Banana(ZooDensity):
    """Pairs x ~ N(0, s²), y | x ~ N(b (x² − s²), t²); θ = (x_1 … x_P, y_1 … y_P).

    Parameters
    ----------
    pairs, sd, bend, width
        P, s, b and t.

    References
    ----------
    Haario, Saksman and Tamminen (1999), Adaptive proposal distribution for random walk Metropolis
    algorithm, Computational Statistics 14, 375.
    """

    def __init__(self, pairs: int, sd: float, bend: float, width: float) -> None:
        self.dimension, self.sd, self.bend, self.width = 2 * pairs, sd, bend, width
        self.log_z = float(pairs * np.log(2 * np.pi * sd * width))

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        x, y = np.split(theta, 2, axis=1)
        z, e = x / self.sd, (y - self.bend * (x**2 - self.sd**2)) / self.width
        by_x = -z / self.sd + 2 * self.bend * x * e / self.width
        return -0.5 * (z**2 + e**2).sum(axis=1), np.hstack([by_x, -e / self.width])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        z, e = rng.standard_normal((2, n, self.dimension // 2))
        x = self.sd * z
        return np.hstack([x, self.bend * (x**2 - self.sd**2) + self.width * e])
