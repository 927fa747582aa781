"""A map at one point after the other, as chains ask for it: by compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pymc_ext.maths.marginal import Marginal
from pymc_ext.maths.types import Array


@dataclass(frozen=True)
class OnePoint:
    """The numbers of a map with a dense root, as `pymc_ext.maths.map_kernels` takes them.

    Parameters
    ----------
    order, center, offset, gated_mean, sense, gate_at_zero, marginal
        As of `HierarchicalMap`.
    root, log_det
        L (D, D) and log|det L|.
    links
        C, H and Q, (D, D) each.
    linked
        Places that depend on others, those they depend on first.
    farthest_shut
        −x of a gate that is as good as shut.
    """

    order: NDArray[np.integer]
    center: Array
    root: Array
    log_det: float
    offset: Array
    gated_mean: Array
    sense: Array
    gate_at_zero: Array
    marginal: Marginal
    links: tuple[Array, Array, Array]
    linked: NDArray[np.integer]
    farthest_shut: float

    @cached_property
    def _of_both(self) -> tuple[object, ...]:
        """What forward and pullback share at the end of their arguments."""
        return *(_rows_of(matrix) for matrix in self.links), self.linked.astype(np.int64)

    @cached_property
    def _of_forward(self) -> tuple[object, ...]:
        bent, marginal = self.marginal.bent, self.marginal.of_bent
        start, slope, _ = marginal.at_zero
        return (
            self._order, self.center, self._root, self.log_det, self.offset, self.gated_mean,
            self.sense, self.gate_at_zero, self.farthest_shut, *self._of_both, bent,
            marginal.skew, marginal.tails, start, slope,
        )  # fmt: skip

    @cached_property
    def _order(self) -> NDArray[np.integer]:
        return np.ascontiguousarray(self.order, dtype=np.int64)

    @cached_property
    def _root(self) -> Array:
        return np.ascontiguousarray(self.root)

    def forward_with_pullback(self, z: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        """See `HierarchicalMap.forward_with_pullback`; of one row."""
        from pymc_ext.maths.map_kernels import forward, pullback  # numba: half a second

        v = np.ascontiguousarray(z[0], dtype=float)
        theta, log_q, state = forward(v, *self._of_forward)

        def pulled(score: Array) -> Array:
            row = np.ascontiguousarray(score[0], dtype=float)
            return pullback(row, state, self._order, self._root, self.sense, *self._of_both)[None]

        return theta[None], np.array([log_q]), pulled


def _rows_of(matrix: Array) -> tuple[NDArray[np.integer], NDArray[np.integer], Array]:
    """(starts, columns, values) of the rows."""
    rows = sparse.csr_array(matrix)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data
