"""A curved ridge: data that know a product only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posteriordb_cases.zoo.density import Array, ZooDensity
from posteriordb_cases.zoo.numerics import GridLaw

__all__ = ["Product"]


class Product(ZooDensity):
    """y ~ N(a b, σ²) with a, b ~ N(0, s²); θ = (a, b): two branches of a hyperbola.

    Exact: b | a is Gaussian, and a is summed over a grid.

    Parameters
    ----------
    y, noise, prior
        y, σ and s.
    """

    dimension, modes = 2, 2

    def __init__(self, y: float, noise: float, prior: float) -> None:
        self.y, self.noise, self.prior = y, noise, prior
        a = np.linspace(-10 * prior, 10 * prior, 40_001)
        variance = noise**2 + (a * prior) ** 2  # of y given a
        value = -0.5 * (a / prior) ** 2 - 0.5 * y**2 / variance - 0.5 * np.log(variance)
        self._a = GridLaw(a, value)
        self.log_z = self._a.log_z + float(0.5 * np.log(2 * np.pi) + np.log(noise * prior))

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        e = (self.y - theta[:, 0] * theta[:, 1]) / self.noise**2
        lp = -0.5 * (e * self.noise) ** 2 - 0.5 * (theta**2).sum(axis=1) / self.prior**2
        return lp, e[:, None] * theta[:, ::-1] - theta / self.prior**2

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        a = self._a.draws(n, rng)
        precision = 1 / self.prior**2 + (a / self.noise) ** 2
        b = a * self.y / self.noise**2 / precision
        return np.column_stack([a, b + rng.standard_normal(n) / np.sqrt(precision)])

    def mode_of(self, theta: Array) -> NDArray[np.integer]:
        return (theta[:, 0] > 0).astype(int)
