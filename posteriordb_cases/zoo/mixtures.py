"""Mixtures of Gaussians: separated modes of any weights and widths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["NormalMixture", "on_a_grid", "two"]


class NormalMixture(ZooDensity):
    """Σ_k w_k N(m_k, s_k² I), normalised; each component is a mode.

    Parameters
    ----------
    weights, means, sds
        w (K,), m (K, D) and s (K,).
    """

    log_z = 0.0

    def __init__(
        self, weights: Sequence[float] | Array, means: Array, sds: float | Sequence[float]
    ):
        self.weights, self.means = np.asarray(weights) / np.sum(weights), np.asarray(means, float)
        self.modes, self.dimension = self.means.shape
        self.sds = np.broadcast_to(np.asarray(sds, float), self.modes)

    def _parts(self, theta: Array) -> tuple[Array, Array]:
        """log w_k N_k (N, K), and θ − m_k (N, K, D)."""
        apart = theta[:, None] - self.means
        square = (apart**2).sum(axis=2) / self.sds**2
        norm = self.dimension * (np.log(self.sds) + 0.5 * np.log(2 * np.pi))
        return np.log(self.weights) - 0.5 * square - norm, apart

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        parts, apart = self._parts(theta)
        lp = logsumexp(parts, axis=1)
        share = np.exp(parts - lp[:, None]) / self.sds**2
        return lp, -np.einsum("nk,nkd->nd", share, apart)

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        k = rng.choice(self.modes, n, p=self.weights)
        return self.means[k] + self.sds[k, None] * rng.standard_normal((n, self.dimension))

    def mode_of(self, theta: Array) -> NDArray[np.integer]:
        return np.argmax(self._parts(theta)[0], axis=1)


def two(D: int, apart: float, weight: float, sds: float | Sequence[float] = 1.0) -> NormalMixture:
    """``1 − weight`` at the origin, ``weight`` at a distance of ``apart`` along (1, …, 1)."""
    means = np.stack([np.zeros(D), np.full(D, apart / np.sqrt(D))])
    return NormalMixture([1 - weight, weight], means, sds)


def on_a_grid(side: int, apart: float, sd: float) -> NormalMixture:
    """``side``² modes in the plane, of weights 1, 2, 1, 2, …"""
    axis = apart * (np.arange(side) - (side - 1) / 2)
    means = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return NormalMixture(1.0 + np.arange(side**2) % 2, means, sd)
