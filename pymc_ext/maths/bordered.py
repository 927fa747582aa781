"""Cholesky factors of banded matrices with a border: the last few rows and columns are full.

A field's own coordinates have few neighbours each, its means and slopes have all of it. In this
order a factor fills nothing in but its last rows (Rue & Held 2005, Gaussian Markov Random Fields,
section 2.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtrs

from pymc_ext.maths.banded import BandedRoot
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array


@dataclass(frozen=True, eq=False)
class BorderedRoot(ByValue):
    """B, lower triangular: b diagonals below the main one, and m rows at the end that are full.

    Vectors are rows, (N, n), as draws are; every function returns as many.

    Parameters
    ----------
    entries
        (b + 1 + m, n). ``entries[k, j]`` is B[j + k, j] for k ≤ b, as LAPACK has lower bands, zero
        below the diagonal of the last m columns; then the last m rows of B, zero from their
        diagonal on.
    border
        m.

    Examples
    --------
    >>> matrix = np.array([[2.0, 2.0, 3.0], [-1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])  # of 3, m = 1
    >>> root = BorderedRoot.of(matrix, 1)
    >>> root.transposed_solve(root.solve(np.array([[0.0, 0.0, 1.0]]))).round(2)
    array([[-1., -1.,  1.]])
    """

    entries: Array
    border: int = 0

    @classmethod
    def of(cls, entries: Array, border: int = 0) -> BorderedRoot:
        """The factor B with B Bᵀ = A, of A by its entries, laid out as those of B.

        Raises
        ------
        numpy.linalg.LinAlgError
            A is not positive definite.
        """
        n, width = entries.shape[1] - border, len(entries) - border
        core = BandedRoot.of(entries[:width, :n])
        rows = core.solve(entries[width:, :n])
        own = np.tril(entries[width:, n:], -1) + np.diag(entries[0, n:])
        if not np.isfinite(rows).all() or not np.isfinite(own).all():
            raise np.linalg.LinAlgError("an entry is not finite")
        # LAPACK reads the lower half alone
        corner = np.linalg.cholesky(own - rows @ rows.T)
        out = np.zeros_like(entries)
        out[:width, :n], out[0, n:] = core.band, np.diag(corner)
        out[width:, :n], out[width:, n:] = rows, np.tril(corner, -1)
        return cls(out, border)

    @property
    def dimension(self) -> int:
        """n."""
        return self.entries.shape[1]

    @property
    def diagonal(self) -> Array:
        """Of B, (n,)."""
        return self.entries[0]

    @cached_property
    def log_det(self) -> float:
        """log det B."""
        return float(np.log(self.diagonal).sum())

    @property
    def _first(self) -> int:
        """n − m, where the border begins."""
        return self.dimension - self.border

    @property
    def _width(self) -> int:
        """b + 1."""
        return len(self.entries) - self.border

    @cached_property
    def _core(self) -> BandedRoot:
        """B but for its last m rows and columns."""
        return BandedRoot(self.entries[: self._width, : self._first])

    @cached_property
    def _rows(self) -> Array:
        """Its last m rows, left of the last m columns, (m, n − m)."""
        return self.entries[self._width :, : self._first]

    @cached_property
    def _corner(self) -> Array:
        """Its last m rows and columns, (m, m)."""
        last = self.entries[:, self._first :]
        return last[self._width :] + np.diag(last[0])

    def times(self, x: Array) -> Array:
        """B x, row by row."""
        first, last = self._parted(x)
        border = first @ self._rows.T + last @ self._corner.T
        return np.concatenate([self._core.times(first), border], axis=1)

    def transposed_times(self, x: Array) -> Array:
        """Bᵀ x, row by row."""
        first, last = self._parted(x)
        core = self._core.transposed_times(first) + last @ self._rows
        return np.concatenate([core, last @ self._corner], axis=1)

    def solve(self, x: Array) -> Array:
        """B⁻¹ x, row by row."""
        first, last = self._parted(x)
        first = self._core.solve(first)
        last = self._solve_corner(last - first @ self._rows.T, "N")
        return np.concatenate([first, last], axis=1)

    def transposed_solve(self, x: Array) -> Array:
        """B⁻ᵀ x, row by row."""
        first, last = self._parted(x)
        last = self._solve_corner(last, "T")
        first = self._core.transposed_solve(first - last @ self._rows)
        return np.concatenate([first, last], axis=1)

    def _parted(self, x: Array) -> tuple[Array, Array]:
        return x[:, : self._first], x[:, self._first :]

    def _solve_corner(self, x: Array, trans: str) -> Array:
        if not x.size:  # LAPACK has no empty matrices
            return x
        return np.asarray(dtrtrs(self._corner, x.T, lower=1, trans=int(trans == "T"))[0].T)
