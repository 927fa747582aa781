"""A hierarchy of three levels: rows in groups, groups in regions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posteriordb_cases.zoo.crossed import Crossed
from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Nested", "simulated"]


class Nested(ZooDensity):
    """y_r ~ N(c_i, σ²) with i of row r, c_i ~ N(a_j, s²) with j of group i, a_j ~ N(μ, t²).

    μ ~ N(0, 3²), s, t, σ ~ Exp(1). θ = (μ, log s, log t, c, a, log σ). Exact: c_i − a_j and a_j − μ
    are effects of two factors, as of :class:`.Crossed`, where each level of one has one of the
    other.

    Parameters
    ----------
    region
        j of each group, (I,) integers from 0 on.
    group
        i of each row, (N,).
    y
        (N,).
    """

    def __init__(self, region: NDArray[np.integer], group: NDArray[np.integer], y: Array) -> None:
        self.region, self._effects = region, Crossed(group, region[group], y)
        self.dimension, self.log_z = self._effects.dimension, self._effects.log_z
        self.c = slice(3, 3 + self._effects.I)
        self.a = slice(3 + self._effects.I, -1)

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        effects = theta.copy()
        effects[:, self.c] -= theta[:, self.a][:, self.region]
        effects[:, self.a] -= theta[:, :1]
        log_p, score = self._effects.log_density_gradient(effects)
        score[:, 0] -= score[:, self.a].sum(axis=1)
        score[:, self.a] -= score[:, self.c] @ np.eye(self._effects.J)[self.region]
        return log_p, score

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        theta = self._effects.draws(n, rng)
        theta[:, self.a] += theta[:, :1]
        theta[:, self.c] += theta[:, self.a][:, self.region]
        return theta


def simulated(seed: int, scales: tuple[float, float], shape: tuple[int, int, int]) -> Nested:
    """A mean of .5, a σ of 1; ``scales`` of regions and of groups in one, ``shape`` the numbers of
    regions, of groups in each and of rows in each of these."""
    rng = np.random.default_rng(seed)
    regions, groups, rows = shape
    region = np.repeat(np.arange(regions), groups)
    group = np.repeat(np.arange(regions * groups), rows)
    c = 0.5 + (scales[0] * rng.standard_normal(regions))[region]
    c += scales[1] * rng.standard_normal(len(c))
    return Nested(region, group, c[group] + rng.standard_normal(len(group)))
