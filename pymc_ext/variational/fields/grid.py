r"""Values at the places of a grid in a few coordinates, and between them.

.. math:: f(y) = \sum_{i_1, \dots, i_g} w_{i_1}(y_1) \cdots w_{i_g}(y_g)\, f_{i_1 \dots i_g},

with the weights of cubics along each axis (:mod:`pymc_ext.maths.cubics`). Off the known part of the
grid a place has the values of the nearest known one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator
from scipy.ndimage import distance_transform_edt
from scipy.sparse import csr_array

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.cubics import cubic_weights
from pymc_ext.maths.quantiles import Triangular
from pymc_ext.maths.types import Array

# Cells between two places along each axis, of one, two and three: p is constant on each, a tenth,
# a fifth or a fourth of an sd.
INSIDE = (8, 6, 4, 3)


@dataclass(frozen=True, eq=False)
class Grid(ByValue):
    """Weights with which f(y) is a sum of the rows at known places.

    Parameters
    ----------
    places
        Along each axis in rising order, one axis after the other, (P,).
    counts
        How many each axis has, two at least, (g,).
    nodes
        Which of these each row has, (T, g).

    Examples
    --------
    >>> grid = Grid(np.arange(3.0), np.array([3]), np.arange(3)[:, None])
    >>> weights, slopes = grid.at(np.array([[0.5]]))
    >>> weights @ [0.0, 2.0, 4.0], slopes[:, :, 0] @ [0.0, 2.0, 4.0]
    (array([1.]), array([2.]))
    """

    places: Array
    counts: NDArray[np.integer]
    nodes: NDArray[np.integer]

    @property
    def terms(self) -> int:
        """T."""
        return len(self.nodes)

    @cached_property
    def axes(self) -> list[Array]:
        """Places along each."""
        return np.split(self.places, np.cumsum(self.counts)[:-1])

    @cached_property
    def values(self) -> Array:
        """y of the known places, (T, g)."""
        return np.stack([axis[self.nodes[:, k]] for k, axis in enumerate(self.axes)], axis=1)

    @cached_property
    def _row(self) -> NDArray[np.integer]:
        """Of each place of the box, −1 where it is not known."""
        row = np.full(self.counts, -1)
        row[tuple(self.nodes.T)] = np.arange(self.terms)
        return row

    @cached_property
    def _row_of_places(self) -> csr_array:
        """Of each place of the box, one after the other, that of the nearest known place is 1."""
        at = distance_transform_edt(self._row < 0, return_distances=False, return_indices=True)
        row = self._row[tuple(at)].ravel()
        return csr_array((np.ones(row.size), row, np.arange(row.size + 1)), (row.size, self.terms))

    def at(self, y: Array) -> tuple[Array, Array]:
        """Weights (N, T) at y (N, g), and their derivatives in y, (N, T, g)."""
        N, g = y.shape
        along = [cubic_weights(axis, y[:, k]) for k, axis in enumerate(self.axes)]
        found = np.empty((1 + g, N, self.terms))
        for d in range(1 + g):  # the weights, then their derivative along each axis
            box = np.ones((N, 1))
            for k, pair in enumerate(along):
                own = pair[1 if d == k + 1 else 0]
                box = (box[:, :, None] * own[:, None, :]).reshape(N, -1)
            found[d] = box @ self._row_of_places
        return found[0], np.moveaxis(found[1:], 0, -1)

    def cells(self) -> tuple[Array, Array]:
        """Edges (C, g) below and above of cells between places all of which are known."""
        g = len(self.counts)
        known = self._row >= 0
        for k in range(g):
            known = np.take(known, range(self.counts[k] - 1), k) & np.take(
                known, range(1, self.counts[k]), k
            )
        inside = INSIDE[g - 1]
        share = np.arange(inside) / inside
        edges = [
            np.append((a[:-1, None] + np.diff(a)[:, None] * share).ravel(), a[-1])
            for a in self.axes
        ]
        for k in range(g):
            known = np.repeat(known, inside, axis=k)
        at = np.nonzero(known)
        lower = [own[i] for own, i in zip(edges, at, strict=True)]
        upper = [own[i + 1] for own, i in zip(edges, at, strict=True)]
        return np.stack(lower, axis=1), np.stack(upper, axis=1)

    def triangular(self, log_p: Array) -> Triangular:
        """The map of normals to y whose law has such log densities (T,) at the known places."""
        lower, upper = self.cells()
        between = RBFInterpolator(self.values, log_p - log_p.max(), kernel="cubic", degree=1)
        found = between(0.5 * (lower + upper))
        mass = np.exp(found - found.max()) * np.prod(upper - lower, axis=1)
        return Triangular.of(lower, upper, mass)
