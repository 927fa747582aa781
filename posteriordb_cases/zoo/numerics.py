"""Draws of laws in one dimension that are known on a fine grid."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from posteriordb_cases.zoo.density import Array

__all__ = ["GridLaw"]


class GridLaw:
    """A law on R from its log density on an even grid, by the trapezoidal rule.

    Smooth densities that vanish at both ends have an error far below that of any Monte Carlo
    judgement: the rule converges faster than any power of the step.

    Parameters
    ----------
    grid
        Even, (G,).
    log_density
        Unnormalised, (G,).
    """

    def __init__(self, grid: Array, log_density: Array) -> None:
        self.grid, self.step = grid, float(grid[1] - grid[0])
        self.log_z = float(logsumexp(log_density) + np.log(self.step))
        self.density = np.exp(log_density - self.log_z)
        between = 0.5 * (self.density[1:] + self.density[:-1]) * self.step
        self.cdf = np.concatenate([[0.0], np.cumsum(between)])
        self.cdf /= self.cdf[-1]

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """By inverse transform, (n,)."""
        return np.interp(rng.random(n), self.cdf, self.grid)
