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
from scipy.ndimage import distance_transform_edt

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.quantiles import Triangular
from pymc_ext.maths.types import Array

# Cells between two places along each axis, of one to four axes, on each of which a law is constant:
# fewer of more, as there are their product.
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
    >>> grid.between(np.array([0.0, 2.0, 4.0]), np.array([[0.5]]))
    array([1.])
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

    def at(self, y: Array) -> OnGrid:
        """At y (N, g)."""
        return OnGrid(self.box, np.ascontiguousarray(y, dtype=float))

    def between(self, values: Array, y: Array) -> Array:
        """Of values (T, …) at the known places, at y (N, g)."""
        return self.at(y).times(values)

    @cached_property
    def box(self) -> tuple[NDArray[np.generic], ...]:
        """As `pymc_ext.maths.grid_kernels` takes it."""
        starts = np.concatenate([[0], np.cumsum(self.counts)])
        return self.places, starts, self._nearest.ravel()

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


@dataclass(frozen=True)
class OnGrid:
    """Values at N places, from those at T known ones.

    Parameters
    ----------
    box
        The grid as :mod:`pymc_ext.maths.grid_kernels` takes it.
    y
        (N, g).
    """

    box: tuple[NDArray[np.generic], ...]
    y: Array

    def times(self, rows: Array) -> Array:
        """Of rows (T, …), (N, …)."""
        from pymc_ext.maths.grid_kernels import between  # numba: half a second

        return np.asarray(between(*self.box, _rows(rows), self.y)).reshape(-1, *rows.shape[1:])

    def pulled_back(self, rows: Array, by: Array) -> Array:
        """∂/∂y (N, g) of a function, from its derivatives ``by`` (N, …) in :meth:`times`."""
        from pymc_ext.maths.grid_kernels import slopes_between

        return np.asarray(slopes_between(*self.box, _rows(rows), _rows(by), self.y))


def _rows(values: Array) -> Array:
    """As rows of numbers, (T, …) -> (T, R)."""
    return np.ascontiguousarray(values, dtype=float).reshape(len(values), -1)
