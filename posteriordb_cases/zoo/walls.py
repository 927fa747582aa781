"""Modes that end at a wall: beyond it the density falls by many nats a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Walled"]


class Walled(ZooDensity):
    r"""(1 − w) N(0, I) and w times a N(a e₁, I) that a wall at θ₂ = c cuts,

    .. math:: \tilde p_2(\theta) = N(\theta; a e_1, I) \, e^{-s \max(\theta_2 - c, 0)}

    with its own normaliser. Exact: θ₂ of the second is either of two truncated normals.

    Parameters
    ----------
    dimension, apart, weight
        D ≥ 2, a and w.
    edge, slope
        c and s; ∞ is a wall that nothing passes.
    """

    modes = 2

    def __init__(
        self, dimension: int, apart: float, weight: float, edge: float, slope: float
    ) -> None:
        self.dimension, self.edge, self.slope = dimension, edge, slope
        self.middle = np.zeros(dimension)
        self.middle[0] = apart
        self.log_weights = np.log([1 - weight, weight])
        # ∫ φ e^{−s (x − c)} over x > c is e^{s c + s²/2} times the mass of N(−s, 1) beyond c
        beyond = (
            slope * edge + slope**2 / 2 + log_ndtr(-edge - slope) if slope < np.inf else -np.inf
        )
        self.log_masses = np.array([log_ndtr(edge), beyond])
        self.log_z = 0.0

    def _log_terms(self, theta: Array) -> Array:
        """Log of the two terms without the normals' constant, (2, N)."""
        over = theta[:, 1] > self.edge
        fall = np.zeros(len(theta))
        fall[over] = self.slope * (theta[over, 1] - self.edge)
        first = -0.5 * (theta**2).sum(axis=1)
        second = -0.5 * ((theta - self.middle) ** 2).sum(axis=1) - fall
        second -= np.logaddexp.reduce(self.log_masses)
        return self.log_weights[:, None] + np.array([first, second])

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        terms = self._log_terms(theta)
        lp = np.logaddexp(*terms)
        first, second = np.exp(terms - lp)
        score = -first[:, None] * theta - second[:, None] * (theta - self.middle)
        over = (theta[:, 1] > self.edge) & (second > 0)
        score[over, 1] -= self.slope * second[over]
        return lp - 0.5 * self.dimension * np.log(2 * np.pi), score

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        from scipy.stats import truncnorm  # .2 CPU seconds, which no list of targets should take

        theta = rng.standard_normal((n, self.dimension))
        cut = rng.random(n) < np.exp(self.log_weights[1])
        passes = rng.random(n) < np.exp(self.log_masses[1] - np.logaddexp.reduce(self.log_masses))
        below = truncnorm.rvs(-np.inf, self.edge, size=n, random_state=rng)
        theta[cut, 1] = below[cut]
        if self.slope < np.inf:
            a = self.edge + self.slope
            above = truncnorm.rvs(a, np.inf, loc=-self.slope, size=n, random_state=rng)
            theta[cut & passes, 1] = above[cut & passes]
        theta[cut] += self.middle
        return theta

    def mode_of(self, theta: Array) -> NDArray[np.integer]:
        return (theta[:, 0] > self.middle[0] / 2).astype(int)
