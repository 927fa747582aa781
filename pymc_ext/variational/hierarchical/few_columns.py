"""Products with matrices of which few columns are not zero, at the cost of these alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array

Places = slice | NDArray[np.integer]


class FewColumns:
    """A (D, k) matrix of which few columns are not zero: products take only these."""

    def __init__(self, matrix: Array) -> None:
        columns = np.flatnonzero(matrix.any(axis=0))
        k = matrix.shape[1]
        self.columns: Places = columns if 2 * len(columns) < k else slice(k)
        self.part = matrix[:, self.columns]

    def times(self, y: Array, rows: Places = slice(None), squared: bool = False) -> Array:
        """A y, or A (y² − 1), of some rows of A, by rows of y (N, D); zeros may be (N, 1)."""
        if not self.part.size:
            return np.zeros((len(y), 1))
        y = y[:, self.columns]
        return (y * y - 1 if squared else y) @ self.part[rows].T

    def add_transposed(
        self, out: Array, h: Array, rows: Places = slice(None), along: Array | None = None
    ) -> None:
        """Add Aᵀ h, by rows (N, D) and times 2 y where it is given, to ``out``; h of some rows."""
        if not self.part.size:
            return
        product = h @ self.part[rows]
        out[:, self.columns] += product if along is None else product * (2 * along[:, self.columns])


def sliced(places: NDArray[np.integer]) -> Places:
    """Places without a gap, in order, as a slice, which takes no copy."""
    if not len(places):
        return places
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places
