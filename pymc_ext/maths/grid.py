r"""Values at the places of a grid in a few coordinates, and between them.

.. math:: f(y) = \sum_{i_1, \dots, i_g} w_{i_1}(y_1) \cdots w_{i_g}(y_g)\, f_{i_1 \dots i_g},

with the weights of cubics along each axis (:mod:`pymc_ext.maths.cubics`). Off the known part of the
grid a place has the values of the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from scipy.sparse import csr_array

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.cubics import cubic_weights
from pymc_ext.maths.quantiles import Triangular
from pymc_ext.maths.types import Array

# Cells between two places along each axis, of one to four axes, on each of which a law is constant:
# fewer of more, as there are their product; and weights made together, 24 MB.
INSIDE, TOGETHER = (8, 6, 4, 3), 2**21


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
    def _nearest(self) -> NDArray[np.integer]:
        """The row of each place of the box, of the nearest known one where that is not known."""
        at = distance_transform_edt(self._row < 0, return_distances=False, return_indices=True)
        return np.asarray(self._row[tuple(at)])

    def at(self, y: Array) -> tuple[Array, Array]:
        """Weights (N, T) at y (N, g), and their derivatives in y, (N, T, g)."""
        weights, *slopes = (rows.toarray() for rows in self._rows(y, range(-1, y.shape[1])))
        return weights, np.stack(slopes, axis=2)

    def _rows(self, y: Array, by: Iterable[int]) -> list[csr_array]:
        """Weights (N, T) at y (N, g), or where ``by`` is no −1 their derivatives along an axis."""
        N, g = y.shape
        along = [cubic_weights(axis, y[:, k]) for k, axis in enumerate(self.axes)]
        corners = np.array(list(product(range(4), repeat=g)))
        at = tuple(along[k][0][:, corners[:, k]] for k in range(g))
        column, ends = self._nearest[at].ravel(), len(corners) * np.arange(N + 1)
        found = []
        for axis in by:
            each = [along[k][2 if k == axis else 1][:, corners[:, k]] for k in range(g)]
            values = np.prod(each, axis=0).ravel()
            found.append(csr_array((values, column, ends), shape=(N, self.terms)))
        return found

    def between(self, values: Array, y: Array) -> Array:
        """Of values (T, …) at the known places, at y (N, g)."""
        rows = max(1, TOGETHER // 4 ** y.shape[1])
        parts = [y[first : first + rows] for first in range(0, max(len(y), 1), rows)]
        return np.concatenate([self._rows(part, [-1])[0] @ values for part in parts])

    def edges_along(self, inside: int) -> list[Array]:
        """Where cells begin and end along each axis, so many between two places."""
        share = np.arange(inside) / inside
        return [
            np.append((a[:-1, None] + np.diff(a)[:, None] * share).ravel(), a[-1])
            for a in self.axes
        ]

    def known_cells(self, inside: int) -> NDArray[np.bool_]:
        """Of the box of cells, which lie between places all of which are known."""
        known = self._row >= 0
        for k, count in enumerate(self.counts):
            known = np.take(known, range(count - 1), k) & np.take(known, range(1, count), k)
        for k in range(known.ndim):
            known = np.repeat(known, inside, axis=k)
        return known

    def cells(self, inside: int) -> tuple[Array, Array]:
        """Edges of known cells, (C, g) below and above."""
        edges, at = self.edges_along(inside), np.nonzero(self.known_cells(inside))
        lower = [own[i] for own, i in zip(edges, at, strict=True)]
        upper = [own[i + 1] for own, i in zip(edges, at, strict=True)]
        return np.stack(lower, axis=1), np.stack(upper, axis=1)

    def triangular(self, log_p: Array) -> Triangular:
        """The map of normals to y whose law has such log densities (T,) at the known places."""
        lower, upper = self.cells(INSIDE[len(self.counts) - 1])
        found = self.between(log_p - log_p.max(), 0.5 * (lower + upper))
        mass = np.exp(found - found.max()) * np.prod(upper - lower, axis=1)
        return Triangular.of(lower, upper, mass)
