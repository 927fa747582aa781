r"""The globals of a field as a map of normals, from their log density on a grid.

.. math:: \eta = \hat\eta + s \odot y(v_\eta),

with the triangular map y of :mod:`pymc_ext.maths.quantiles`: of any form, as those of two scales
that share a neck are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.grid import Grid
from pymc_ext.maths.quantiles import Triangular
from pymc_ext.maths.types import Array


@dataclass(frozen=True, eq=False)
class GlobalsGrid(ByValue):
    """η of v, g of each.

    Parameters
    ----------
    center, sds
        η̂ and s, the units of y, (g,) each.
    grid
        In y.
    log_p
        At its known places, (T,).
    """

    center: Array
    sds: Array
    grid: Grid
    log_p: Array

    @property
    def dimension(self) -> int:
        """g."""
        return len(self.center)

    @cached_property
    def _map(self) -> Triangular:
        return self.grid.triangular(self.log_p)

    def axes(self, v: Array) -> Array:
        """y, (N, g)."""
        return self._map.forward(v)[0]

    def values(self, y: Array) -> Array:
        """η at y, (N, g)."""
        return self.center + self.sds * y

    def inverse(self, eta: Array) -> tuple[Array, Array]:
        """v and y of η, (N, g)."""
        y = (eta - self.center) / self.sds
        return self._map.inverse(y), y

    def log_det(self, v: Array, y: Array) -> Array:
        """log|det ∂η/∂v|, (N,)."""
        return np.asarray(np.log(self.sds).sum() + self._map.forward(v)[1])

    def pullback(self, v: Array, y: Array, score: Array, by_axes: Array) -> Array:
        """∂/∂v of log p̃ + log|det ∂η/∂v|, from ∂ log p̃/∂η and what else depends on y, (N, g)."""
        return self._map.forward_with_pullback(v)[2](by_axes + score * self.sds)
