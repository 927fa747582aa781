"""Hierarchical normals whose groups hardly tell their scale: four, seven, and eight schools."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from posteriordb_cases.zoo.density import Array, ZooDensity
from posteriordb_cases.zoo.numerics import GridLaw

__all__ = ["Groups", "Schools"]


class Groups(ZooDensity):
    """y_j ~ N(x_j, σ_j²), x_j ~ N(μ, τ²), μ ~ N(0, s²), τ ~ half-Cauchy(c); θ = (μ, log τ, x or z).

    Exact: all but τ is Gaussian given τ, and log τ is summed over a grid.

    Parameters
    ----------
    centred
        Whether the last coordinates are x, or z = (x − μ) / τ.
    y, sigma
        Data and their standard deviations, (J,).
    spread, prior
        s and c.
    """

    def __init__(
        self, centred: bool, y: Array, sigma: Array, spread: float, prior: float = 5.0
    ) -> None:
        self.centred, self.y, self.sigma, self.spread = centred, y, sigma, spread
        self.prior = prior
        self.dimension = len(y) + 2
        t = np.linspace(-30, 15, 20_001)
        precision, mean, total = self._middle(t)
        value = (
            0.5 * precision * mean**2
            - 0.5 * np.log(precision)
            - 0.5 * (self.y**2 / total - np.log(self.sigma**2 / total)).sum(axis=1)
            + self._log_prior(t)
        )
        self._log_tau = GridLaw(t, value)
        self.log_z = self._log_tau.log_z + 0.5 * (len(y) + 1) * float(np.log(2 * np.pi))

    def _log_prior(self, t: Array) -> Array:
        """Of log τ, up to a constant."""
        return t - np.logaddexp(0, 2 * (t - np.log(self.prior)))

    def _middle(self, t: Array) -> tuple[Array, Array, Array]:
        """Precision and mean of μ | τ, (G,), and the variances of y | μ, τ, (G, J)."""
        total = self.sigma**2 + np.exp(2 * t)[:, None]
        precision = 1 / self.spread**2 + (1 / total).sum(axis=1)
        return precision, (self.y / total).sum(axis=1) / precision, total

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # far out in the neck
    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        mu, t, last = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        tau = np.exp(t)
        z = (last - mu) / tau if self.centred else last
        x = last if self.centred else mu + tau * last
        pull = (self.y - x) / self.sigma**2
        lp = -0.5 * (pull * (self.y - x) + z**2).sum(axis=1) - 0.5 * (mu[:, 0] / self.spread) ** 2
        lp = lp + self._log_prior(t[:, 0])
        by_t = 1 - 2 * expit(2 * (t - np.log(self.prior)))
        if self.centred:
            lp = lp - len(self.y) * t[:, 0]
            by_mu = (z / tau).sum(axis=1, keepdims=True)
            by_t, by_last = by_t + (z**2 - 1).sum(axis=1, keepdims=True), pull - z / tau
        else:
            by_mu = pull.sum(axis=1, keepdims=True)
            by_t = by_t + (pull * tau * z).sum(axis=1, keepdims=True)
            by_last = pull * tau - z
        return lp, np.hstack([by_mu - mu / self.spread**2, by_t, by_last])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        t = self._log_tau.draws(n, rng)
        precision, mean, _ = self._middle(t)
        mu = (mean + rng.standard_normal(n) / np.sqrt(precision))[:, None]
        tau = np.exp(t)[:, None]
        keep = tau**2 / (tau**2 + self.sigma**2)
        noise = self.sigma * np.sqrt(keep) * rng.standard_normal((n, len(self.y)))
        offset = keep * (self.y - mu) + noise  # x − μ
        return np.hstack([mu, t[:, None], mu + offset if self.centred else offset / tau])


class Schools(Groups):
    """Eight schools, s = 5.

    Parameters
    ----------
    centred
        As of :class:`Groups`.

    References
    ----------
    Rubin (1981), Estimation in parallel randomized experiments, J. Educational Statistics 6, 377.
    """

    def __init__(self, centred: bool) -> None:
        y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
        sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
        super().__init__(centred, y, sigma, spread=5.0)
