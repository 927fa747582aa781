"""Effects of two factors that cross: each row has one of either."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posteriordb_cases.zoo.cells import Cells, of_log_sd
from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Crossed", "simulated"]


class Crossed(ZooDensity):
    """y_r ~ N(μ + a_i + b_j, σ²) with i, j of row r, a_i ~ N(0, s²), b_j ~ N(0, t²), centred.

    μ ~ N(0, 3²), s, t, σ ~ Exp(1). θ = (μ, log s, log t, a, b, log σ). Exact: all else is Gaussian
    given the three scales, which are drawn from cells of a grid.

    Parameters
    ----------
    first, second
        i and j of each row, (N,) integers from 0 on.
    y
        (N,).
    """

    PRIOR_MEAN_SD = 3.0

    def __init__(self, first: NDArray[np.integer], second: NDArray[np.integer], y: Array) -> None:
        self.first, self.second, self.y = first, second, y
        self.I, self.J = int(first.max()) + 1, int(second.max()) + 1
        self.dimension = self.I + self.J + 4
        A = np.eye(self.I)[first]
        B = np.column_stack([np.ones(len(y)), np.eye(self.J)[second]])  # μ and b
        self.counts, self.across, self.gram = A.sum(axis=0), A.T @ B, B.T @ B
        self.seen_a, self.seen_b, self.squares = A.T @ y, B.T @ y, float(y @ y)
        fixed = np.column_stack([A, B])
        left = y - fixed @ np.linalg.lstsq(fixed, y, rcond=None)[0]
        log_sigma = of_log_sd(left @ left, len(y) - int(np.linalg.matrix_rank(fixed)))
        log_scale = np.linspace(-8, 1.7, 49)
        self._cells = Cells((log_sigma, log_scale, log_scale), self._marginal)
        self.log_z = self._cells.log_integral + 0.5 * (self.I + self.J + 1) * np.log(2 * np.pi)

    def _marginal(self, u: Array, s: Array, t: Array) -> Array:
        """log p̃ of log scales, (N,), less 2π of all else."""
        weight = np.exp(-2 * u)
        own, precision, linear = self._given_scales(u, s, t)
        root = np.linalg.cholesky(precision)
        white = np.linalg.solve(root, linear[..., None])[..., 0]
        return np.asarray(
            self._log_prior(u, s, t)
            - self.I * s
            - self.J * t
            - len(self.y) * u
            - 0.5 * self.squares * weight
            + 0.5 * ((self.seen_a * weight[:, None]) ** 2 / own).sum(axis=1)
            - 0.5 * np.log(own).sum(axis=1)
            + 0.5 * (white**2).sum(axis=1)
            - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        )

    def _given_scales(self, u: Array, s: Array, t: Array) -> tuple[Array, Array, Array]:
        """Precisions of a, and of (μ, b) with a integrated out, and its linear term."""
        weight = np.exp(-2 * u)[:, None]
        own = self.counts * weight + np.exp(-2 * s)[:, None]
        through = (weight / own)[..., None] * self.across  # (N, I, J + 1)
        precision = weight[..., None] * (self.gram - self.across.T @ through)
        diagonal = np.column_stack(
            [np.full(len(u), self.PRIOR_MEAN_SD**-2), *[np.exp(-2 * t)] * self.J]
        )
        precision += diagonal[:, None] * np.eye(self.J + 1)
        return own, precision, weight * (self.seen_b - self.seen_a @ through)

    def _log_prior(self, u: Array, s: Array, t: Array) -> Array:
        return np.asarray(u - np.exp(u) + s - np.exp(s) + t - np.exp(t))

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # far out in a neck
    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        mu, s, t, u = theta[:, 0], theta[:, 1], theta[:, 2], theta[:, -1]
        a, b = theta[:, 3 : 3 + self.I], theta[:, 3 + self.I : -1]
        left = self.y - mu[:, None] - a[:, self.first] - b[:, self.second]
        weight, of_a, of_b = np.exp(-2 * u), np.exp(-2 * s), np.exp(-2 * t)
        squares, far_a, far_b = (left**2).sum(axis=1), (a**2).sum(axis=1), (b**2).sum(axis=1)
        log_p = (
            self._log_prior(u, s, t)
            - 0.5 * (mu / self.PRIOR_MEAN_SD) ** 2
            - self.I * s - self.J * t - len(self.y) * u
            - 0.5 * (squares * weight + far_a * of_a + far_b * of_b)
        )  # fmt: skip
        pull = weight[:, None] * left
        score = np.empty_like(theta)
        score[:, 0] = pull.sum(axis=1) - mu / self.PRIOR_MEAN_SD**2
        score[:, 1] = 1 - np.exp(s) - self.I + far_a * of_a
        score[:, 2] = 1 - np.exp(t) - self.J + far_b * of_b
        score[:, 3 : 3 + self.I] = pull @ np.eye(self.I)[self.first] - a * of_a[:, None]
        score[:, 3 + self.I : -1] = pull @ np.eye(self.J)[self.second] - b * of_b[:, None]
        score[:, -1] = 1 - np.exp(u) - len(self.y) + squares * weight
        return log_p, score

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        u, s, t = self._cells.draws(n, rng)
        own, precision, linear = self._given_scales(u, s, t)
        root = np.linalg.cholesky(precision)
        z = rng.standard_normal((n, self.J + 1, 1))
        white = np.linalg.solve(root, linear[..., None]) + z
        means = np.linalg.solve(np.swapaxes(root, 1, 2), white)[..., 0]
        weight = np.exp(-2 * u)[:, None]
        a = weight * (self.seen_a - means @ self.across.T) / own
        a += rng.standard_normal(a.shape) / np.sqrt(own)
        return np.column_stack([means[:, 0], s, t, a, means[:, 1:], u])


def simulated(
    seed: int, scales: tuple[float, float], shape: tuple[int, int], share: float = 1.0
) -> Crossed:
    """A mean of .5, a σ of 1; of all pairs of levels a row each for some ``share``, each level in
    two rows at least."""
    rng = np.random.default_rng(seed)
    i, j = (k.ravel() for k in np.indices(shape))
    seen = rng.uniform(size=len(i)) < share
    seen |= (j - i) % shape[1] < 2
    i, j = i[seen], j[seen]
    a, b = (scale * rng.standard_normal(size) for scale, size in zip(scales, shape, strict=True))
    return Crossed(i, j, 0.5 + a[i] + b[j] + rng.standard_normal(len(i)))
