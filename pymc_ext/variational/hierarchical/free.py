"""What of a map a training may move."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.map import HierarchicalMap

Mask = NDArray[np.bool_]
Columns = NDArray[np.integer]


@dataclass(frozen=True)
class Free:
    """Which entries of a map may move.

    Parameters
    ----------
    scales, squares, gated, root
        Of C, Q, H, and of L's columns of what may govern, (D, k).
    marginal
        Coordinates whose marginal map moves, (D,).
    """

    scales: Mask
    squares: Mask
    gated: Mask
    root: Mask
    marginal: Mask

    @classmethod
    def none(cls, dimension: int, governors: int) -> Free:
        """Nothing but the Gaussian."""
        no = np.zeros((dimension, governors), dtype=bool)
        return cls(no, no, no, np.tri(*no.shape) > 0, np.zeros(dimension, dtype=bool))

    @classmethod
    def of(cls, q: HierarchicalMap) -> Free:
        """What is not zero in ``q``: to go on from it."""
        marginal = np.zeros(q.dimension, dtype=bool)
        marginal[q.marginal.bent] = True
        below = np.tri(*q.scales.shape) > 0
        root = ((q.root.coupling != 0) | (q.scales == 0)) & below
        return cls(q.scales != 0, q.squares != 0, q.gated != 0, root, marginal)

    def __or__(self, other: Free) -> Free:
        """What is free in either."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Free(*(a | b for a, b in pairs))

    @cached_property
    def linked(self) -> Mask:
        """Coordinates whose scale has a governor, (D,)."""
        return np.any(self.scales, axis=1)

    @cached_property
    def governing(self) -> Mask:
        """Of the coordinates that may, which govern a scale, (k,)."""
        return np.any(self.scales, axis=0)

    @cached_property
    def share_of_root(self) -> Array:
        """Of each entry of a symmetric change, what L takes: half of the diagonal, (D, k).

        None of a governor's own, which is stretched with all that it governs, nor where a mean goes
        through the gate as well, which are solved for together.
        """
        share = np.tril(self.root & ~self.gated).astype(float)
        np.fill_diagonal(share, 0.5 * np.diag(share) * ~self.governing)
        return share

    @cached_property
    def columns_of_scales(self) -> tuple[Columns, Columns]:
        """Governors (G,), and the place among them of each row's, (R, P)."""
        governors = self.governors[1]
        columns, place = np.unique(governors, return_inverse=True)
        return columns, place.reshape(governors.shape)

    @cached_property
    def columns_of_squares(self) -> Columns:
        """Of Q, in which any entry is free."""
        return np.flatnonzero(self.squares.any(axis=0))

    @cached_property
    def columns_of_gated(self) -> Columns:
        """Of H."""
        return np.flatnonzero(self.gated.any(axis=0))

    @cached_property
    def means(self) -> tuple[Columns, Columns, Mask]:
        """Columns of H (G,); of each linked row the places of its own among one and these, padded
        (R, P); which are real (R, P)."""
        rows, columns = self.governors[0], self.columns_of_gated
        own = np.ones((len(rows), len(columns) + 1), dtype=bool)
        own[:, 1:] = self.gated[np.ix_(rows, columns)]
        count = own.sum(axis=1)
        place = np.argsort(~own, axis=1, kind="stable")[:, : count.max(initial=1)]
        return columns, place, np.arange(place.shape[1]) < count[:, None]

    @cached_property
    def governors(self) -> tuple[NDArray[np.integer], NDArray[np.integer], Mask]:
        """Linked rows (R,), the governors of each, padded (R, P), and which are real (R, P)."""
        rows = np.flatnonzero(self.linked)
        count = self.scales[rows].sum(axis=1)
        padded = np.argsort(~self.scales[rows], axis=1, kind="stable")[:, : count.max(initial=0)]
        return rows, padded, np.arange(padded.shape[1]) < count[:, None]
