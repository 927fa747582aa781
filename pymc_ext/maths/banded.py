"""Cholesky factors of symmetric banded matrices: n coordinates of which each knows its b nearest.

A factor takes n b² operations, a product or a solution with it n b (Golub & Van Loan 2013, Matrix
Computations, section 4.3.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky_banded
from scipy.linalg.lapack import dtbtrs

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array


@dataclass(frozen=True, eq=False)
class BandedRoot(ByValue):
    """B, lower triangular, with b diagonals below the main one.

    Vectors are rows, (N, n), as draws are; every function returns as many.

    Parameters
    ----------
    band
        (b + 1, n): ``band[k, j]`` is B[j + k, j], as LAPACK has lower bands.

    Examples
    --------
    >>> walk = np.array([[2.0, 2.0, 2.0], [-1.0, -1.0, 0.0]])
    >>> root = BandedRoot.of(walk)
    >>> root.transposed_solve(root.solve(np.array([[0.0, 0.0, 1.0]]))).round(2)
    array([[0.25, 0.5 , 0.75]])
    """

    band: Array

    @classmethod
    def of(cls, band: Array) -> BandedRoot:
        """The factor B with B Bᵀ = A, of A by its diagonals, (b + 1, n).

        Raises
        ------
        numpy.linalg.LinAlgError
            A is not positive definite.
        """
        if not (np.isfinite(band).all() and (band[0] > 0).all()):
            raise np.linalg.LinAlgError("an entry is not finite, or a diagonal one not positive")
        scale = np.sqrt(band[0])  # to a unit diagonal: precisions differ by orders of magnitude
        B = cholesky_banded(_scaled(band / scale, 1 / scale), lower=True, check_finite=False)
        return cls(_scaled(B, scale))

    @property
    def dimension(self) -> int:
        """n."""
        return self.band.shape[1]

    @cached_property
    def log_det(self) -> float:
        """log det B."""
        return float(np.log(self.band[0]).sum())

    def times(self, x: Array) -> Array:
        """B x, row by row."""
        n, out = self.dimension, self.band[0] * x
        for k in range(1, len(self.band)):
            out[:, k:] += self.band[k, : n - k] * x[:, : n - k]
        return out

    def transposed_times(self, x: Array) -> Array:
        """Bᵀ x, row by row."""
        n, out = self.dimension, self.band[0] * x
        for k in range(1, len(self.band)):
            out[:, : n - k] += self.band[k, : n - k] * x[:, k:]
        return out

    def solve(self, x: Array) -> Array:
        """B⁻¹ x, row by row."""
        return self._solved(x, "N")

    def transposed_solve(self, x: Array) -> Array:
        """B⁻ᵀ x, row by row."""
        return self._solved(x, "T")

    def _solved(self, x: Array, trans: str) -> Array:
        return dtbtrs(self.band, x.T, uplo="L", trans=trans)[0].T if x.size else x


def _scaled(band: Array, rows: Array) -> Array:
    """With every row of the matrix multiplied by its own factor, (n,)."""
    n = band.shape[1]
    return np.stack([
        np.concatenate([diagonal[: n - k] * rows[k:], diagonal[n - k :]])
        for k, diagonal in enumerate(band)
    ])  # fmt: skip
