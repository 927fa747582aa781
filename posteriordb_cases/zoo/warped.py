"""Warped Gaussians: sinh-arcsinh of a Gaussian, skewed, with lighter or heavier tails."""

from __future__ import annotations

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Warped"]


class Warped(ZooDensity):
    """θ = A u with u_i = sinh((asinh z_i + ε) / δ), z ~ N(0, I), normalised.

    Parameters
    ----------
    dimension
        D.
    skew, tail
        ε, and δ: below 1 the tails are heavier than a Gaussian's.
    correlation
        A has a unit diagonal and this below it.

    References
    ----------
    Jones and Pewsey (2009), Sinh-arcsinh distributions, Biometrika 96, 761,
    doi:10.1093/biomet/asp053.
    """

    log_z = 0.0

    def __init__(self, dimension: int, skew: float, tail: float, correlation: float = 0.0) -> None:
        self.dimension, self.skew, self.tail = dimension, skew, tail
        self.mixing = np.eye(dimension) + correlation * np.eye(dimension, k=-1)
        self.inverse = np.linalg.inv(self.mixing)

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        u = theta @ self.inverse.T
        root = np.sqrt(1 + u**2)
        a = self.tail * np.arcsinh(u) - self.skew
        z, slope = np.sinh(a), self.tail * np.cosh(a) / root
        each = -0.5 * z**2 + np.log(slope) - 0.5 * np.log(2 * np.pi)
        by_u = -z * slope + np.tanh(a) * self.tail / root - u / root**2
        return each.sum(axis=1), by_u @ self.inverse

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, self.dimension))
        return np.sinh((np.arcsinh(z) + self.skew) / self.tail) @ self.mixing.T
