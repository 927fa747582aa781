"""Neal's funnel: a log scale that rules the spread of all else."""

from __future__ import annotations

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Funnel"]


class Funnel(ZooDensity):
    """s ~ N(0, σ²), x_i | s ~ N(0, e^s), i = 1 … D − 1; θ = (s, x).

    Heavy: E x⁴ = 3 e^{2σ²}, which for Neal's σ = 3 is ruled by one draw in 10⁹.

    Parameters
    ----------
    dimension, sd
        D and σ.

    References
    ----------
    Neal (2003), Slice sampling, Annals of Statistics 31, 705, doi:10.1214/aos/1056562461.
    """

    heavy = True

    def __init__(self, dimension: int, sd: float = 3.0) -> None:
        self.dimension, self.sd = dimension, sd
        self.log_z = float(0.5 * dimension * np.log(2 * np.pi) + np.log(sd))

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        s, x = theta[:, 0], theta[:, 1:]
        precision, half = np.exp(-s), 0.5 * (self.dimension - 1)
        square = precision * (x**2).sum(axis=1)
        lp = -0.5 * (s / self.sd) ** 2 - half * s - 0.5 * square
        by_s = -s / self.sd**2 - half + 0.5 * square
        return lp, np.column_stack([by_s, -precision[:, None] * x])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, self.dimension))
        s = self.sd * z[:, :1]
        return np.hstack([s, np.exp(0.5 * s) * z[:, 1:]])
