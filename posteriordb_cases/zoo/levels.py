"""A level that walks at random under noise: either may have next to no variance."""

from __future__ import annotations

import numpy as np

from posteriordb_cases.zoo.cells import Cells
from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["LocalLevel", "simulated"]


class LocalLevel(ZooDensity):
    """y_t ~ N(x_t, σ²), x_t ~ N(x_{t−1}, s²), x_1 ~ N(0, 2²), s, σ ~ N⁺(0, 1), centred.

    θ = (log s, log σ, x). Exact: given both scales the Kalman filter has log p(y), and draws of x
    backwards; the scales are drawn from cells of a grid.

    Parameters
    ----------
    y
        (T,).
    """

    FIRST_VAR = 4.0

    def __init__(self, y: Array) -> None:
        self.y, self.dimension = y, len(y) + 2
        axis = np.linspace(-10, 2, 241)
        self._cells = Cells((axis, axis), self._marginal)
        self.log_z = self._cells.log_integral + 0.5 * len(y) * np.log(2 * np.pi)

    def _marginal(self, t: Array, u: Array) -> Array:
        """log p̃ of both log scales, (N,), less 2π of the walk."""
        return self._filtered(t, u)[2]

    def _filtered(self, t: Array, u: Array) -> tuple[Array, Array, Array]:
        """Means and variances of x_t given y_1 … y_t, (T, N) each, and log p̃ of the scales."""
        step, noise = np.exp(2 * t), np.exp(2 * u)
        log_p = self._log_prior(t, u)
        mean, var = np.zeros_like(t), np.full_like(t, self.FIRST_VAR)
        means, variances = np.empty((2, len(self.y), len(t)))
        for k, y in enumerate(self.y):
            total = var + noise
            log_p = log_p - 0.5 * ((y - mean) ** 2 / total + np.log(total))
            mean, var = mean + var / total * (y - mean), var * noise / total
            means[k], variances[k] = mean, var
            var = var + step
        return means, variances, log_p

    def _log_prior(self, t: Array, u: Array) -> Array:
        return np.asarray(t + u - 0.5 * (np.exp(2 * t) + np.exp(2 * u)))

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # far out in a neck
    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        t, u, x = theta[:, 0], theta[:, 1], theta[:, 2:]
        steps, left = np.diff(x, axis=1), self.y - x
        of_steps, of_noise, T = np.exp(-2 * t), np.exp(-2 * u), len(self.y)
        far, squares = (steps**2).sum(axis=1), (left**2).sum(axis=1)
        log_p = (
            self._log_prior(t, u)
            - (T - 1) * t - T * u - 0.5 * np.log(self.FIRST_VAR)
            - 0.5 * (x[:, 0] ** 2 / self.FIRST_VAR + far * of_steps + squares * of_noise)
        )  # fmt: skip
        score = np.empty_like(theta)
        score[:, 0] = 1 - np.exp(2 * t) - (T - 1) + far * of_steps
        score[:, 1] = 1 - np.exp(2 * u) - T + squares * of_noise
        pull = steps * of_steps[:, None]
        score[:, 2:] = left * of_noise[:, None]
        score[:, 2] -= x[:, 0] / self.FIRST_VAR
        score[:, 2:-1] += pull
        score[:, 3:] -= pull
        return log_p, score

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        t, u = self._cells.draws(n, rng)
        means, variances, _ = self._filtered(t, u)
        x = np.empty_like(means)
        x[-1] = means[-1] + np.sqrt(variances[-1]) * rng.standard_normal(n)
        step = np.exp(2 * t)
        for k in range(len(x) - 2, -1, -1):
            keep = variances[k] / (variances[k] + step)
            sd = np.sqrt(keep * step)
            x[k] = means[k] + keep * (x[k + 1] - means[k]) + sd * rng.standard_normal(n)
        return np.column_stack([t, u, x.T])


def simulated(seed: int, step: float, noise: float, times: int) -> LocalLevel:
    """A walk from zero on, with given scales."""
    rng = np.random.default_rng(seed)
    return LocalLevel(np.cumsum(rng.normal(0, step, times)) + rng.normal(0, noise, times))
