"""Student's t in many dimensions: one scale that all coordinates share."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["MultivariateT"]


class MultivariateT(ZooDensity):
    """log p̃ = −(ν + D)/2 log(1 + |θ|²/ν); heavy from ν ≤ 4 down.

    Parameters
    ----------
    dimension, df
        D and ν.
    """

    def __init__(self, dimension: int, df: float) -> None:
        self.dimension, self.df, self.heavy = dimension, df, df <= 4
        self.log_z = float(
            gammaln(df / 2) - gammaln((df + dimension) / 2) + 0.5 * dimension * np.log(df * np.pi)
        )

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        scaled, power = (theta**2).sum(axis=1) / self.df, self.df + self.dimension
        return -0.5 * power * np.log1p(scaled), -power / self.df * theta / (1 + scaled)[:, None]

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, self.dimension))
        return z / np.sqrt(rng.chisquare(self.df, (n, 1)) / self.df)
