"""The horseshoe: normal means whose scales have half-Cauchy priors, a local and a global one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity
from posteriordb_cases.zoo.numerics import GridLaw

__all__ = ["Horseshoe"]


class Horseshoe(ZooDensity):
    """y_i ~ N(β_i, 1), β_i ~ N(0, (λ_i τ)²), λ_i and τ half-Cauchy; θ = (log τ, log λ, β or z).

    Exact: given τ the effects are independent, p(y_i | λ_i, τ) is Gaussian, and log λ_i is summed
    over a grid.

    Parameters
    ----------
    y
        Data (J,).
    centred
        Whether the last J coordinates are β, or z = β / (λ τ).

    References
    ----------
    Carvalho, Polson and Scott (2010), The horseshoe estimator for sparse signals, Biometrika 97,
    465, doi:10.1093/biomet/asq017.
    """

    def __init__(self, y: Sequence[float], centred: bool) -> None:
        self.y, self.centred = np.asarray(y, float), centred
        self.dimension = 1 + 2 * len(self.y)
        # beyond 30 the densities of log τ and log λ, of exponential tails, are below 1e-12
        t, ell = np.linspace(-30, 30, 1201), np.linspace(-30, 30, 2401)
        precision = 1 / (1 + np.exp(2 * (t[:, None] + ell)))
        prior = -np.logaddexp(ell, -ell)
        self._local, log_t = [], -np.logaddexp(t, -t)
        for each in self.y:
            value = prior + 0.5 * np.log(precision) - 0.5 * each**2 * precision
            mass = np.exp(value) * (ell[1] - ell[0])
            log_t = log_t + np.log(mass.sum(axis=1))
            cdf = np.cumsum(mass, axis=1)
            self._local.append(cdf / cdf[:, -1:])
        self._ell, self._global = ell, GridLaw(t, log_t)
        self.log_z = self._global.log_z + 0.5 * len(self.y) * float(np.log(2 * np.pi))

    def _split(self, theta: Array) -> tuple[Array, Array, Array]:
        """log τ (N, 1), log λ (N, J) and the last J coordinates (N, J)."""
        J = len(self.y)
        return theta[:, :1], theta[:, 1 : 1 + J], theta[:, 1 + J :]

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        t, ell, last = self._split(theta)
        scale = np.exp(t + ell)
        beta = last if self.centred else scale * last
        z = last / scale if self.centred else last
        e = self.y - beta
        own = np.concatenate([t, ell], axis=1)
        lp = -0.5 * (e**2 + z**2).sum(axis=1) - np.logaddexp(own, -own).sum(axis=1)
        if self.centred:
            lp = lp - (t + ell).sum(axis=1)
            by_scale, by_last = z**2 - 1, e - z / scale
        else:
            by_scale, by_last = e * beta, e * scale - z
        by_t = by_scale.sum(axis=1, keepdims=True) - np.tanh(t)
        return lp, np.hstack([by_t, by_scale - np.tanh(ell), by_last])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        law, J = self._global, len(self.y)
        t = np.sort(law.draws(n, rng))
        node = np.rint((t - law.grid[0]) / law.step).astype(int)
        edges = np.searchsorted(node, np.arange(len(law.grid) + 1))
        ell = np.empty((n, J))
        half = 0.5 * (self._ell[1] - self._ell[0])
        for i, cdf in enumerate(self._local):
            u = rng.random(n)
            for k in np.unique(node):
                rows = slice(edges[k], edges[k + 1])
                ell[rows, i] = np.interp(u[rows], cdf[k], self._ell) + half
        variance = np.exp(2 * (t[:, None] + ell))
        keep = variance / (1 + variance)
        beta = keep * self.y + np.sqrt(keep) * rng.standard_normal((n, J))
        last = beta if self.centred else beta / np.sqrt(variance)
        return rng.permutation(np.column_stack([t, ell, last]))
