"""Hard edges: no density on the other side, and a score that does not say so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Box", "HalfExponential", "Ordered"]


Inside = NDArray[np.bool_]


def _outside(inside: Inside, lp: Array, score: Array) -> tuple[Array, Array]:
    return np.where(inside, lp, -np.inf), np.where(inside[:, None], score, 0.0)


class Box(ZooDensity):
    """Uniform on (−1, 2)^D."""

    low, high = -1.0, 2.0

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.log_z = dimension * float(np.log(self.high - self.low))

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        inside = np.all((theta > self.low) & (theta < self.high), axis=1)
        return _outside(inside, np.zeros(len(theta)), np.zeros_like(theta))

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        return rng.uniform(self.low, self.high, (n, self.dimension))


class HalfExponential(ZooDensity):
    """e^{−θ_i} on θ_i > −½: the density is highest at the edge."""

    low = -0.5

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.log_z = -dimension * self.low

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        inside = np.all(theta > self.low, axis=1)
        return _outside(inside, -theta.sum(axis=1), -np.ones_like(theta))

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        return self.low + rng.exponential(size=(n, self.dimension))


class Ordered(ZooDensity):
    """Two standard normals with θ_1 < θ_2 + c: an edge that no axis is along. Exact: by rejection.

    Parameters
    ----------
    slack
        c > 0, so that the origin is inside.
    """

    dimension = 2

    def __init__(self, slack: float) -> None:
        self.slack = slack
        self.log_z = float(np.log(2 * np.pi) + log_ndtr(slack / np.sqrt(2)))

    def _inside(self, theta: Array) -> Inside:
        return theta[:, 0] < theta[:, 1] + self.slack

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        return _outside(self._inside(theta), -0.5 * (theta**2).sum(axis=1), -theta)

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        kept = np.empty((0, 2))
        while len(kept) < n:
            theta = rng.standard_normal((2 * n, 2))
            kept = np.concatenate([kept, theta[self._inside(theta)]])
        return kept[:n]
