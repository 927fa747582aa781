"""Spike and slab by marginalisation: regressions whose coefficients are nearly zero, or not."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import logsumexp

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["SpikeAndSlab", "simulated"]


class SpikeAndSlab(ZooDensity):
    r"""y ~ N(X β, σ²), β_j ~ (1 − π) N(0, s₀²) + π N(0, s₁²), the indicator summed out.

    Exact: given the 2ᴶ indicators β is Gaussian.

    Parameters
    ----------
    X, y
        Data (n, J), (n,).
    noise, spike, slab, share
        σ, s₀, s₁ and π.

    References
    ----------
    George and McCulloch (1993), Variable selection via Gibbs sampling, JASA 88, 881.
    """

    def __init__(
        self, X: Array, y: Array, noise: float, spike: float, slab: float, share: float
    ) -> None:
        self.X, self.y, self.noise = X, y, noise
        self.sds, self.shares = np.array([spike, slab]), np.array([1 - share, share])
        self.dimension = J = X.shape[1]
        choice = np.array(list(product((0, 1), repeat=J)))
        precision = X.T @ X / noise**2 + np.eye(J) / self.sds[choice][:, None] ** 2
        roots = np.linalg.cholesky(precision)
        b = X.T @ y / noise**2
        self._means = np.linalg.solve(precision, np.broadcast_to(b[:, None], (*choice.shape, 1)))
        self._means = self._means[..., 0]
        log_mass = (
            np.log(self.shares / self.sds)[choice].sum(axis=1)
            - 0.5 * (y**2).sum() / noise**2
            + 0.5 * self._means @ b
            - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        )
        self.log_z = float(logsumexp(log_mass))
        self._mass = np.exp(log_mass - self.log_z)
        self._inverse_roots = np.linalg.inv(roots)  # θ = m + L⁻ᵀ z

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        e = (self.y - theta @ self.X.T) / self.noise
        square = theta[..., None] ** 2 / self.sds**2
        parts = np.log(self.shares / self.sds) - 0.5 * square - 0.5 * np.log(2 * np.pi)
        prior = logsumexp(parts, axis=2)
        pull = (np.exp(parts - prior[..., None]) / self.sds**2).sum(axis=2)
        lp = -0.5 * (e**2).sum(axis=1) + prior.sum(axis=1)
        return lp, e @ self.X / self.noise - pull * theta

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        c = rng.choice(len(self._mass), n, p=self._mass / self._mass.sum())
        z = rng.standard_normal((n, self.dimension))
        return self._means[c] + np.einsum("nij,ni->nj", self._inverse_roots[c], z)


def simulated(J: int, correlation: float, spike: float) -> SpikeAndSlab:
    """20 rows; of J coefficients the first is 1, the others 0; rows' correlation is the same."""
    rng = np.random.default_rng(J)
    common = rng.standard_normal((20, 1))
    own = rng.standard_normal((20, J))
    X = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    y = X[:, 0] + rng.standard_normal(20)
    return SpikeAndSlab(X, y, 1.0, spike, 2.0, 0.3)
