"""Roots L of a map's linear part behind one protocol, and the dense one.

That of arrow form is in :mod:`.arrow_root`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from pymc_ext.maths.types import Array

Places = NDArray[np.integer]
LONGEST = 0.5  # of one full step of an entry: sds within a factor of about √2


class Root(Protocol):
    """A lower triangular root; rows of draws and scores are (N, D)."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Its numbers."""

    def of_arrays(self, arrays: Sequence[Array]) -> Root:
        """One of the same form from such numbers."""

    @property
    def coupling(self) -> Array:
        """L's columns of the k coordinates that may govern others, (D, k)."""

    @property
    def diagonal(self) -> Array:
        """(D,)."""

    @property
    def std(self) -> Array:
        """Length of each row, (D,)."""

    def as_matrix(self) -> Array | sparse.sparray:
        """L itself, (D, D); sparse where most of it is zero."""

    def product(self, w: Array) -> Array:
        """L w."""

    def transposed_product(self, x: Array) -> Array:
        """Lᵀ x."""

    def solve(self, x: Array) -> Array:
        """L⁻¹ x."""

    def solve_within(self, rows: Places, x: Array) -> Array:
        """y with L[rows, rows] y = x, (R,) -> (R,)."""

    def without(self, rows: Places, column: int) -> Root:
        """With L[rows, column] = 0; ``column`` below k."""

    def changed(self, wider: Array, by_w: Array) -> Root:
        """L (diag ``wider`` + B), (D,) and (D, k), the strictly lower B of the first k columns."""

    def stepped(self, by_w: Array, w: Array, share: Array, rate: float) -> tuple[Root, Array]:
        """L (I + ρ S), S the capped sums of ``by_w``_i w_j over mean w_j², of whose first k columns
        L takes the ``share`` (D, k); and the first k rows of these columns of ρ S."""


@dataclass(frozen=True)
class DenseRoot:
    """L as a matrix (D, D); every coordinate may govern those after it: k = D."""

    matrix: Array

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.matrix,)

    def of_arrays(self, arrays: Sequence[Array]) -> DenseRoot:
        return DenseRoot(arrays[0])

    @property
    def coupling(self) -> Array:
        return self.matrix

    @property
    def diagonal(self) -> Array:
        return np.diag(self.matrix)

    @property
    def std(self) -> Array:
        return np.linalg.norm(self.matrix, axis=1)

    def as_matrix(self) -> Array:
        return self.matrix

    def product(self, w: Array) -> Array:
        return w @ self.matrix.T

    def transposed_product(self, x: Array) -> Array:
        return x @ self.matrix

    def solve(self, x: Array) -> Array:
        return solve_triangular(self.matrix, x.T, lower=True).T

    def solve_within(self, rows: Places, x: Array) -> Array:
        return solve_triangular(self.matrix[np.ix_(rows, rows)], x, lower=True)

    def without(self, rows: Places, column: int) -> DenseRoot:
        matrix = self.matrix.copy()
        matrix[rows, column] = 0.0
        return DenseRoot(matrix)

    def changed(self, wider: Array, by_w: Array) -> DenseRoot:
        matrix, columns = self.matrix * wider, np.flatnonzero(by_w.any(axis=0))
        if len(columns):
            matrix[:, columns] += self.matrix @ by_w[:, columns]
        return DenseRoot(matrix)

    def stepped(self, by_w: Array, w: Array, share: Array, rate: float) -> tuple[DenseRoot, Array]:
        step = rate * capped(by_w.T @ w / np.mean(w**2, axis=0) * share)
        return DenseRoot(self.matrix + self.matrix @ step), step


def capped(step: Array) -> Array:
    """No entry beyond `LONGEST`."""
    return np.clip(step, -LONGEST, LONGEST)
