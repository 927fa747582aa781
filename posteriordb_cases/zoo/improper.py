"""Improper posteriors: no integral, so that the only right answer is that there is none."""

from __future__ import annotations

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["FlatDirection", "FlatLogScale", "Separated", "SlowTail"]


class _Improper(ZooDensity):
    """Without draws."""

    proper = False

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """Raises."""
        raise ValueError(f"{type(self).__name__} is improper: it has no draws")


class FlatDirection(_Improper):
    """Of a and b the data know a + b only, and both priors are flat."""

    dimension = 2

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        apart = theta.sum(axis=1) - 1
        return -0.5 * apart**2, np.repeat(-apart[:, None], 2, axis=1)


class SlowTail(_Improper):
    """(1 + θ²)^{−1/2}, whose integral grows as a logarithm."""

    dimension = 1

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        return -0.5 * np.log1p(theta[:, 0] ** 2), -theta / (1 + theta**2)


class FlatLogScale(_Improper):
    """x_i ~ N(0, e^{2t}), y_i ~ N(x_i, 1) with a flat prior on t: as t → −∞ p̃ does not fall.

    θ = (t, z) with x = e^t z: the classical mistake of a Jeffreys prior on a group's scale, Gelman
    (2006), doi:10.1214/06-BA117A.
    """

    def __init__(self) -> None:
        self.y = np.array([0.5, -1.0, 1.5, 0.3])
        self.dimension = 1 + len(self.y)

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        scale, z = np.exp(theta[:, :1]), theta[:, 1:]
        e = self.y - scale * z
        by_t = (e * scale * z).sum(axis=1)
        return -0.5 * (e**2 + z**2).sum(axis=1), np.column_stack([by_t, e * scale - z])


class Separated(_Improper):
    """Logistic regression of data that a line separates, with flat priors: θ = (α, β)."""

    dimension = 2

    def __init__(self) -> None:
        self.x = np.array([-2.0, -1.2, -0.4, 0.5, 1.1, 1.9])
        self.sign = np.where(self.x > 0, 1.0, -1.0)

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        margin = self.sign * (theta[:, :1] + theta[:, 1:] * self.x)
        pull = self.sign / (1 + np.exp(np.minimum(margin, 700.0)))
        score = np.column_stack([pull.sum(axis=1), (pull * self.x).sum(axis=1)])
        return -np.logaddexp(0, -margin).sum(axis=1), score
