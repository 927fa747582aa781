r"""The globals of a field as a map of normals: each bent, with a scale that others govern.

.. math:: y_k = e^{a_k} m_k(v_k), \quad a_k = \sum_{j<k} \lambda_{kj}\, t(y_j - o_j), \quad
    \eta = \hat\eta + S y,

with the marginals m of :mod:`pymc_ext.maths.marginal` and t as in :mod:`.curves`: the sd of a mean
grows where an autoregression nears a unit root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.marginal import Marginal
from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.curves import bounded


@dataclass(frozen=True, eq=False)
class GlobalsMap(ByValue):
    """η of v, g of each.

    Parameters
    ----------
    center, scales
        η̂, (g,), and S, (g, g), whose columns are the axes.
    marginal
        m.
    links
        λ, strictly lower triangular, (g, g).
    origin
        o, where the axes meet, (g,).
    """

    center: Array
    scales: Array
    marginal: Marginal
    links: Array
    origin: Array

    @property
    def dimension(self) -> int:
        """g."""
        return len(self.center)

    def axes(self, v: Array) -> Array:
        """y, (N, g)."""
        y = self.marginal.forward(v)[0]
        for k in range(1, self.dimension):
            y[:, k] *= np.exp(self._log_scale(y, k))
        return y

    def values(self, y: Array) -> Array:
        """η at y, (N, g)."""
        return self.center + y @ self.scales.T

    def inverse(self, eta: Array) -> tuple[Array, Array]:
        """v and y of η, (N, g)."""
        y = np.linalg.solve(self.scales, (eta - self.center).T).T
        m = y.copy()
        for k in range(1, self.dimension):
            m[:, k] *= np.exp(-self._log_scale(y, k))
        return self.marginal.inverse(m), y

    def log_det(self, v: Array, y: Array) -> Array:
        """log|det ∂η/∂v|, (N,)."""
        log_scale = sum((self._log_scale(y, k) for k in range(1, self.dimension)), np.zeros(len(v)))
        slopes = np.log(self.marginal.forward(v)[1]).sum(axis=1)
        return np.asarray(np.linalg.slogdet(self.scales)[1] + slopes + log_scale)

    def pullback(self, v: Array, y: Array, score: Array, by_axes: Array) -> Array:
        """∂/∂v of log p̃ + log|det ∂η/∂v|, from ∂ log p̃/∂η and what else depends on y, (N, g)."""
        by_y, bend = by_axes + score @ self.scales, self.marginal.bend(v)
        by_m = np.empty_like(v)
        for k in reversed(range(self.dimension)):
            by_m[:, k] = by_y[:, k] * np.exp(self._log_scale(y, k))
            by_log_scale = by_y[:, k] * y[:, k] + 1
            _, rate = bounded(y[:, :k] - self.origin[:k])
            by_y[:, :k] += by_log_scale[:, None] * self.links[k, :k] * rate
        return by_m * bend.slope + bend.slope_score

    def _log_scale(self, y: Array, k: int) -> Array:
        """a_k, (N,)."""
        return bounded(y[:, :k] - self.origin[:k])[0] @ self.links[k, :k]
