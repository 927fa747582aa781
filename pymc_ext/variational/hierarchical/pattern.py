"""Cholesky factors of many symmetric matrices that have their zeros in the same places.

The effects of a group know others only through what all groups share: given a good order their
factor has as many entries as they have neighbours (George & Liu 1981, "Computer Solution of Large
Sparse Positive Definite Systems"), so that draws of hundreds of effects cost no more than their
number. Entries lie together by place, matrices along the last axis: loops go over columns, and each
step is taken for all matrices at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array

Indices = NDArray[np.integer]
LEAST_PIVOT = 1e-8  # of a diagonal entry, where sums of interpolated matrices are not positive
MOSTLY = 0.25  # entries by k²: from half of a triangle on LAPACK, one by one, is faster


@dataclass(frozen=True, eq=False)
class Pattern(ByValue):
    """Entries on and below the diagonal of k × k matrices and of their factors, E of them.

    Entries go column by column, from the diagonal on. Matrices are (E, N), vectors (k, N).

    Parameters
    ----------
    below
        Of each column the rows below the diagonal, in their order: what its factor has.
    """

    below: tuple[Indices, ...]

    @classmethod
    def full(cls, size: int) -> Pattern:
        """Of a matrix without zeros."""
        return cls(tuple(np.arange(j + 1, size) for j in range(size)))

    @classmethod
    def of(cls, pattern: NDArray[np.bool_]) -> Pattern:
        """With what factors fill in; symmetric (k, k), in its own order."""
        size = len(pattern)
        rows = [set(np.flatnonzero(pattern[j + 1 :, j]) + j + 1) for j in range(size)]
        for own in rows:
            if own:
                first = min(own)
                rows[first] |= own - {first}
        return cls(tuple(np.array(sorted(own), dtype=int) for own in rows))

    def __len__(self) -> int:
        return len(self.below)

    @cached_property
    def diagonal(self) -> Indices:
        """Where the diagonal's entries are, (k,)."""
        counts = [1 + len(rows) for rows in self.below]
        return np.cumsum([0, *counts[:-1]])

    @cached_property
    def rows(self) -> Indices:
        """Of entries, (E,)."""
        return np.concatenate([np.append(j, rows) for j, rows in enumerate(self.below)])

    @cached_property
    def columns(self) -> Indices:
        """Of entries, (E,)."""
        return np.repeat(np.arange(len(self)), [1 + len(rows) for rows in self.below])

    @cached_property
    def _pairs(self) -> tuple[tuple[Indices, Indices, Indices], ...]:
        """Of each column the pairs of entries below the diagonal, and where their products go."""
        where = {(i, j): e for e, (i, j) in enumerate(zip(self.rows, self.columns, strict=True))}
        found = []
        for j, rows in enumerate(self.below):
            right, left = np.triu_indices(len(rows))
            first = self.diagonal[j] + 1
            target = [where[pair] for pair in zip(rows[left], rows[right], strict=True)]
            found.append((np.array(target, dtype=int), first + left, first + right))
        return tuple(found)

    def _by_column(self) -> Iterator[tuple[int, int, slice, Indices]]:
        """Of each column its number, its diagonal, its entries below and their rows."""
        for j, (at, rows) in enumerate(zip(self.diagonal, self.below, strict=True)):
            yield j, int(at), slice(int(at) + 1, int(at) + 1 + len(rows)), rows

    def entries(self, matrix: Array) -> Array:
        """Of a matrix (k, k) that has no others, (E,)."""
        return np.asarray(matrix[self.rows, self.columns])

    def dense(self, entries: Array) -> Array:
        """The symmetric matrix (k, k) of entries (E,)."""
        matrix = np.zeros((len(self), len(self)))
        matrix[self.rows, self.columns] = matrix[self.columns, self.rows] = entries
        return matrix

    def root(self, matrices: Array) -> Array:
        """R with R Rᵀ = A, lower triangular; where a pivot would not be positive, of an A that has
        more on its diagonal: so much that no other pivot loses more than its own entry by it."""
        if len(self.rows) > MOSTLY * len(self) ** 2:
            try:
                return self._root_of_full(matrices)
            except np.linalg.LinAlgError:
                pass  # not positive: column by column
        R, scale = matrices.copy(), np.abs(matrices[self.diagonal])
        for (j, at, below, rows), pairs in zip(self._by_column(), self._pairs, strict=True):
            wrong = R[at] < LEAST_PIVOT * scale[j]
            if wrong.any():
                most = (R[below] ** 2 / scale[rows]).max(axis=0, initial=0.0)
                R[at] = np.where(wrong, np.maximum(scale[j], most), R[at])
            R[at] = np.sqrt(R[at])
            R[below] /= R[at]
            target, left, right = pairs
            R[target] -= R[left] * R[right]
        return R

    def _root_of_full(self, matrices: Array) -> Array:
        A = np.zeros((matrices.shape[1], len(self), len(self)))
        A[:, self.rows, self.columns] = matrices.T  # what is above is not looked at
        return np.linalg.cholesky(A)[:, self.rows, self.columns].T

    def squared(self, root: Array) -> Array:
        """R Rᵀ."""
        A = np.zeros_like(root)
        for (_, at, below, _), pairs in zip(self._by_column(), self._pairs, strict=True):
            A[at] += root[at] ** 2
            A[below] += root[at] * root[below]
            target, left, right = pairs
            A[target] += root[left] * root[right]
        return A

    def times(self, root: Array, v: Array) -> Array:
        """R v."""
        x = root[self.diagonal] * v
        for j, _, below, rows in self._by_column():
            x[rows] += root[below] * v[j]
        return x

    def transposed_times(self, root: Array, x: Array) -> Array:
        """Rᵀ x."""
        v = root[self.diagonal] * x
        for j, _, below, rows in self._by_column():
            v[j] += np.einsum("in,in->n", root[below], x[rows])
        return v

    def solve(self, root: Array, x: Array) -> Array:
        """R⁻¹ x."""
        v = x.copy()
        for j, at, below, rows in self._by_column():
            v[j] /= root[at]
            v[rows] -= root[below] * v[j]
        return v

    def transposed_solve(self, root: Array, v: Array) -> Array:
        """R⁻ᵀ v."""
        x = v.copy()
        for j, at, below, rows in reversed(list(self._by_column())):
            x[j] = (x[j] - np.einsum("in,in->n", root[below], x[rows])) / root[at]
        return x


def least_fill(pattern: NDArray[np.bool_]) -> Indices:
    """An order (k,) of a symmetric pattern (k, k) in which factors fill in little: next comes what
    has the fewest neighbours, the first of these."""
    size = len(pattern)
    near = [set(np.flatnonzero(row)) - {j} for j, row in enumerate(pattern)]
    left, order = list(range(size)), []
    while left:
        j = min(left, key=lambda i: len(near[i]))
        left.remove(j)
        order.append(j)
        for i in near[j]:
            near[i] |= near[j]
            near[i] -= {i, j}
    return np.array(order, dtype=int)
