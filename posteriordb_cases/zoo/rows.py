"""A hierarchical normal of whose rows the spread is unknown, too: two scales."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Rows", "simulated"]


class Rows(ZooDensity):
    """y_kr ~ N(x_k, σ²), x_k ~ N(μ, τ²), μ ~ N(0, 10²), τ ~ N⁺(0, 2²), σ ~ Exp(1), centred.

    θ = (μ, log τ, x, log σ). Exact: all else is Gaussian given both scales, which are summed over a
    grid.

    Parameters
    ----------
    y
        K groups of n rows, (K, n).
    """

    PRIOR_MEAN_SD, PRIOR_SCALE = 10.0, 2.0

    def __init__(self, y: Array) -> None:
        self.count, self.rows = y.shape
        self.dimension = self.count + 3
        self.mean = y.mean(axis=1)
        self.within = float(((y - self.mean[:, None]) ** 2).sum())
        self._t = np.linspace(-16, 2.5, 1_201)[:, None]
        self._u = np.linspace(-1.5, 2.0, 351)[None]
        value = self._given_scales(self._t, self._u)
        steps = np.log(self._t[1, 0] - self._t[0, 0]) + np.log(self._u[0, 1] - self._u[0, 0])
        total = logsumexp(value)
        self.log_z = float(total + steps + 0.5 * (self.count + 1) * np.log(2 * np.pi))
        self._shares = np.exp(value - total).ravel()

    def _given_scales(self, t: Array, u: Array) -> Array:
        """log p̃ of log τ and log σ, less the constant of all else."""
        tau2, seen, precision, mean = self._middle(t, u)
        total = tau2 + seen
        return (
            self._log_prior(t, u)
            - self.count * (t + self.rows * u)
            - 0.5 * self.within * np.exp(-2 * u)
            + 0.5 * self.count * np.log(tau2 * seen / total)
            + 0.5 * precision * mean**2
            - 0.5 * np.log(precision)
            - 0.5 * (self.mean**2).sum() / total
        )

    def _log_prior(self, t: Array, u: Array) -> Array:
        return t - 0.5 * (np.exp(t) / self.PRIOR_SCALE) ** 2 + u - np.exp(u)

    def _middle(self, t: Array, u: Array) -> tuple[Array, Array, Array, Array]:
        """τ², variance of a group's mean, and precision and mean of μ given both scales."""
        tau2, seen = np.exp(2 * t), np.exp(2 * u) / self.rows
        precision = self.PRIOR_MEAN_SD**-2 + self.count / (tau2 + seen)
        return tau2, seen, precision, self.mean.sum() / (tau2 + seen) / precision

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # far out in the neck
    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        mu, t, x, u = theta[:, :1], theta[:, 1:2], theta[:, 2:-1], theta[:, -1:]
        z = (x - mu) * np.exp(-t)
        off = x - self.mean
        squares = self.within + self.rows * (off**2).sum(axis=1, keepdims=True)
        weight = np.exp(-2 * u)
        far = (z**2).sum(axis=1, keepdims=True)
        lp = (
            self._log_prior(t, u)
            - 0.5 * (mu / self.PRIOR_MEAN_SD) ** 2
            - self.count * (t + self.rows * u)
            - 0.5 * (far + squares * weight)
        )
        pull = z * np.exp(-t)
        by_mu = pull.sum(axis=1, keepdims=True) - mu / self.PRIOR_MEAN_SD**2
        by_t = 1 - (np.exp(t) / self.PRIOR_SCALE) ** 2 - self.count + far
        by_u = 1 - np.exp(u) - self.count * self.rows + squares * weight
        return lp[:, 0], np.hstack([by_mu, by_t, -pull - self.rows * off * weight, by_u])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        cell = rng.choice(self._shares.size, size=n, p=self._shares)
        row, column = np.divmod(cell, self._u.size)
        inside = rng.uniform(-0.5, 0.5, (2, n))
        t = self._t[row, 0] + inside[0] * (self._t[1, 0] - self._t[0, 0])
        u = self._u[0, column] + inside[1] * (self._u[0, 1] - self._u[0, 0])
        tau2, seen, precision, mean = self._middle(t, u)
        mu = mean + rng.standard_normal(n) / np.sqrt(precision)
        keep = (tau2 / (tau2 + seen))[:, None]
        noise = np.sqrt(keep * seen[:, None]) * rng.standard_normal((n, self.count))
        x = mu[:, None] + keep * (self.mean - mu[:, None]) + noise
        return np.column_stack([mu, t, x, u])


def simulated(seed: int, tau: float, sigma: float = 1.5, shape: tuple[int, int] = (12, 4)) -> Rows:
    """Groups of some rows each, of mean 2 and given spreads."""
    rng = np.random.default_rng(seed)
    x = rng.normal(2, tau, shape[0])
    return Rows(rng.normal(x[:, None], sigma, shape))
