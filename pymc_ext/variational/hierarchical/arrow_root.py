"""The root of models of globals and many locals.

Rows of locals hold the k globals and the few locals of their own group, so that it has D (k + 1)
numbers and products of that cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.score_matching import symmetric_root
from pymc_ext.variational.hierarchical.roots import capped

Places = NDArray[np.integer]


@dataclass(frozen=True)
class ArrowRoot:
    """Globals first, then groups of locals by their size.

    Parameters
    ----------
    left
        Columns of the globals, (D, k); the first k rows are lower triangular.
    blocks
        For each size of groups, their lower triangular roots, (groups, size, size), in the order of
        the places after the globals.
    """

    left: Array
    blocks: tuple[Array, ...]

    @classmethod
    def of_factors(
        cls, factor: Array, variance: Array, k: int, sizes: Sequence[tuple[int, int]]
    ) -> ArrowRoot:
        """Of Λ Λᵀ + diag ψ, but for correlations between groups given the globals.

        ``factor`` (D, rank) and ``variance`` (D,) in the order of places; ``sizes`` holds pairs of
        a group's size and how many there are.
        """
        top = cholesky(factor[:k] @ factor[:k].T + np.diag(variance[:k]))
        below = solve_triangular(top, factor[:k] @ factor[k:].T, lower=True).T
        blocks, first = [], k
        for size, groups in sizes:
            rows = slice(first, first + size * groups)
            loadings = factor[rows].reshape(groups, size, -1)
            given = below[rows.start - k : rows.stop - k].reshape(groups, size, k)
            cov = loadings @ loadings.swapaxes(1, 2) - given @ given.swapaxes(1, 2)
            own = np.eye(size) * variance[rows].reshape(groups, size, 1)
            blocks.append(np.linalg.cholesky(cov + own))
            first = rows.stop
        return cls(np.vstack([top, below]), tuple(blocks))

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.left, *self.blocks

    def of_arrays(self, arrays: Sequence[Array]) -> ArrowRoot:
        return ArrowRoot(arrays[0], tuple(arrays[1:]))

    @property
    def k(self) -> int:
        """Globals."""
        return self.left.shape[1]

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Size and number of the groups, by block."""
        return tuple((block.shape[1], len(block)) for block in self.blocks)

    @property
    def coupling(self) -> Array:
        return self.left

    @cached_property
    def diagonal(self) -> Array:
        own = [np.diagonal(block, axis1=1, axis2=2).ravel() for block in self.blocks]
        return np.concatenate([np.diag(self.left), *own])

    @cached_property
    def std(self) -> Array:
        squares = np.sum(self.left**2, axis=1)
        squares[self.k :] += np.concatenate([np.sum(b**2, axis=2).ravel() for b in self.blocks])
        return np.sqrt(squares)

    def as_matrix(self) -> sparse.sparray:
        entries = [(*np.indices(self.left.shape).reshape(2, -1), self.left.ravel())]
        first = self.k
        for block, (size, groups) in zip(self.blocks, self.sizes, strict=True):
            starts = first + size * np.arange(groups)[:, None, None]
            within = np.indices((size, size))[:, None]
            entries.append((*((starts + own).ravel() for own in within), block.ravel()))
            first += size * groups
        rows, columns, values = (np.concatenate(own) for own in zip(*entries, strict=True))
        return sparse.coo_array((values, (rows, columns)), shape=(len(self.left),) * 2)

    def product(self, w: Array) -> Array:
        out = w[:, : self.k] @ self.left.T
        for block, own, part in self._parts(w, out):
            part += _times(block, own)
        return out

    def transposed_product(self, x: Array) -> Array:
        out = np.empty_like(x)
        out[:, : self.k] = x @ self.left
        for block, own, part in self._parts(x, out):
            part[...] = _times(block.swapaxes(1, 2), own)
        return out

    def solve(self, x: Array) -> Array:
        out = x.copy()
        out[:, : self.k] = solve_triangular(self.left[: self.k], x[:, : self.k].T, lower=True).T
        out[:, self.k :] -= out[:, : self.k] @ self.left[self.k :].T
        for block, _, part in self._parts(x, out):
            _solve_in_place(block, part)
        return out

    def solve_within(self, rows: Places, x: Array) -> Array:
        # L outside ``rows`` replaced by the identity, where the right side is zero
        kept = np.zeros(len(self.left), dtype=bool)
        kept[rows] = True
        left = self.left * (kept[:, None] & kept[: self.k])
        left[np.arange(self.k), np.arange(self.k)] += ~kept[: self.k]
        blocks: list[Array] = []
        first = self.k
        for size, groups in self.sizes:
            own = kept[first : first + size * groups].reshape(groups, size)
            block = self.blocks[len(blocks)] * (own[:, :, None] & own[:, None, :])
            blocks.append(block + np.eye(size) * ~own[:, :, None])
            first += size * groups
        right = np.zeros((1, len(left)))
        right[0, rows] = x
        return ArrowRoot(left, tuple(blocks)).solve(right)[0, rows]

    def without(self, rows: Places, column: int) -> ArrowRoot:
        left = self.left.copy()
        left[rows, column] = 0.0
        return ArrowRoot(left, self.blocks)

    def changed(self, wider: Array, by_w: Array) -> ArrowRoot:
        own = wider[self.k :]
        blocks, first = list[Array](), 0
        for block, (size, groups) in zip(self.blocks, self.sizes, strict=True):
            blocks.append(block * own[first : first + size * groups].reshape(groups, 1, size))
            first += size * groups
        return ArrowRoot(self.left * wider[: self.k] + self._by_globals(by_w), tuple(blocks))

    def stepped(self, by_w: Array, w: Array, share: Array, rate: float) -> tuple[ArrowRoot, Array]:
        k = self.k
        squares = np.mean(w**2, axis=0)
        step = rate * capped(by_w.T @ w[:, :k] / squares[:k] * share)
        blocks: list[Array] = []
        for block, by_own, own in self._parts(by_w, w):
            moment = by_own.transpose(1, 2, 0) @ own.swapaxes(0, 1)
            moment /= np.mean(own**2, axis=0)[:, None, :]
            blocks.append(block + block @ (rate * _lower(moment)))
        return ArrowRoot(self.left + self._by_globals(step), tuple(blocks)), step[:k]

    def _by_globals(self, change: Array) -> Array:
        """L B of a change B of the globals' columns, (D, k)."""
        out = self.left @ change[: self.k]
        for block, into, rows in self._rows(out, change):
            into += block @ rows
        return out

    def reordered(self, places: Places) -> ArrowRoot:
        """The root of the same covariance with the globals in another order, (k,)."""
        top, k = self.left[: self.k], self.k
        new = cholesky((top @ top.T)[np.ix_(places, places)])
        below = solve_triangular(new, (self.left[k:] @ top.T)[:, places].T, lower=True).T
        return ArrowRoot(np.vstack([new, below]), self.blocks)

    def _parts(self, x: Array, y: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Each block with its columns of x and y, (N, groups, size); views."""
        first = self.k
        for block, (size, groups) in zip(self.blocks, self.sizes, strict=True):
            columns = slice(first, first + size * groups)
            shape = (-1, groups, size)
            yield block, x[:, columns].reshape(shape), y[:, columns].reshape(shape)
            first = columns.stop

    def _rows(self, x: Array, y: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Each block with its rows of x and y, (groups, size, k); views."""
        first = self.k
        for block, (size, groups) in zip(self.blocks, self.sizes, strict=True):
            rows = slice(first, first + size * groups)
            shape = (groups, size, -1)
            yield block, x[rows].reshape(shape), y[rows].reshape(shape)
            first = rows.stop


def globals_root(left: Array) -> Array:
    """Orthogonal (k, k) that turns the globals' Cholesky coordinates into those of the symmetric
    root: z_symmetric = z_cholesky @ it."""
    top = left[: left.shape[1]]
    sd = np.linalg.norm(top, axis=1)
    scaled = top / sd[:, None]
    return np.linalg.solve(symmetric_root(scaled @ scaled.T), scaled).T


def _lower(moments: Array) -> Array:
    """Strictly lower part and half the diagonal, capped."""
    rows, columns = moments.shape[-2:]
    weights = np.tri(rows, columns, -1) + 0.5 * np.eye(rows, columns)
    return capped(moments * weights)


def _times(block: Array, x: Array) -> Array:
    """Block by block, (groups, s, s) and (N, groups, s)."""
    if block.shape[1] == 1:
        return x * block[:, 0]
    return (x.swapaxes(0, 1) @ block.swapaxes(1, 2)).swapaxes(0, 1)


def _solve_in_place(block: Array, x: Array) -> None:
    """Forward substitution, block by block."""
    for i in range(block.shape[1]):
        x[:, :, i] -= np.einsum("gj,ngj->ng", block[:, i, :i], x[:, :, :i])
        x[:, :, i] /= block[:, i, i]
