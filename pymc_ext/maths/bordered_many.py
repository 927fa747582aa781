"""Many bordered factors at once, a vector for each: see :mod:`.bordered`.

The bands of all are one band, whose blocks do not touch: LAPACK is called once for thousands of
small systems, where each call takes longer than its work.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_ext.maths.banded import BandedRoot
from pymc_ext.maths.bordered import BorderedRoot
from pymc_ext.maths.types import Array


@dataclass(frozen=True, eq=False)
class BorderedRoots:
    """N factors B, each as a :class:`.BorderedRoot`, and products of each with a vector of its own.

    Parameters
    ----------
    entries
        (N, b + 1 + m, n), of each as `BorderedRoot` has them.
    border
        m.

    Examples
    --------
    >>> two = BorderedRoots(np.array([[[2.0, 2.0], [1.0, 0.0]], [[4.0, 1.0], [0.0, 0.0]]]))
    >>> two.solve(np.array([[2.0, 3.0], [2.0, 3.0]]))
    array([[1. , 1. ],
           [0.5, 3. ]])
    """

    entries: Array
    border: int = 0

    @property
    def log_det(self) -> Array:
        """log det B, (N,)."""
        return np.asarray(np.log(self.entries[:, 0]).sum(axis=1))

    @property
    def _first(self) -> int:
        """n − m, where the border begins."""
        return self.entries.shape[2] - self.border

    @property
    def _width(self) -> int:
        """b + 1."""
        return self.entries.shape[1] - self.border

    @cached_property
    def _core(self) -> BandedRoot:
        """All but the borders, one after the other."""
        band = self.entries[:, : self._width, : self._first].transpose(1, 0, 2)
        return BandedRoot(band.reshape(self._width, -1))

    @cached_property
    def _rows(self) -> Array:
        """The last m rows, left of the last m columns, (N, m, n − m)."""
        return self.entries[:, self._width :, : self._first]

    @cached_property
    def _corner(self) -> Array:
        """The last m rows and columns, (N, m, m)."""
        last = self.entries[:, :, self._first :]
        return last[:, self._width :] + last[:, 0, :, None] * np.eye(self.border)

    @cached_property
    def _regular(self) -> bool:
        return bool((self.entries[:, 0] > 0).all() and np.isfinite(self.entries).all())

    def transposed_times(self, x: Array) -> Array:
        """Bᵀ x, (N, n)."""
        return self._for_all(x, self._transposed_times, BorderedRoot.transposed_times)

    def solve(self, x: Array) -> Array:
        """B⁻¹ x, (N, n)."""
        return self._for_all(x, self._solve, BorderedRoot.solve)

    def transposed_solve(self, x: Array) -> Array:
        """B⁻ᵀ x, (N, n)."""
        return self._for_all(x, self._transposed_solve, BorderedRoot.transposed_solve)

    def _for_all(
        self,
        x: Array,
        together: Callable[[Array], Array],
        alone: Callable[[BorderedRoot, Array], Array],
    ) -> Array:
        """One by one where numbers are beyond what there are: zero times infinity would go on from
        one block to the next, LAPACK solves nothing where one diagonal entry is zero, and pivots of
        a corner may be zero where its own diagonal is not."""
        if self._regular:
            with np.errstate(over="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError):
                out = together(x)
                if np.isfinite(out).all():
                    return out
        each = zip(self.entries, x, strict=True)
        return np.stack([alone(BorderedRoot(B, self.border), row[None])[0] for B, row in each])

    def _transposed_times(self, x: Array) -> Array:
        first, last = x[:, : self._first], x[:, self._first :]
        core = self._core.transposed_times(first.reshape(1, -1)).reshape(first.shape)
        core = core + np.einsum("nm,nmj->nj", last, self._rows)
        return np.concatenate([core, np.einsum("nm,nmk->nk", last, self._corner)], axis=1)

    def _solve(self, x: Array) -> Array:
        first, last = x[:, : self._first], x[:, self._first :]
        core = self._core.solve(first.reshape(1, -1)).reshape(first.shape)
        last = last - np.einsum("nmj,nj->nm", self._rows, core)
        last = np.linalg.solve(self._corner, last[..., None])[..., 0]
        return np.concatenate([core, last], axis=1)

    def _transposed_solve(self, x: Array) -> Array:
        first, last = x[:, : self._first], x[:, self._first :]
        last = np.linalg.solve(self._corner.swapaxes(1, 2), last[..., None])[..., 0]
        first = first - np.einsum("nm,nmj->nj", last, self._rows)
        core = self._core.transposed_solve(first.reshape(1, -1)).reshape(first.shape)
        return np.concatenate([core, last], axis=1)

    def outer(self, rows: Array, columns: Array) -> Array:
        """Entries rows[:, i] columns[:, j] of a product, (N, n) each, where B has any."""
        n, out = self._first, np.zeros_like(self.entries)
        out[:, 0] = rows * columns
        for k in range(1, self._width):
            out[:, k, : n - k] = rows[:, k:n] * columns[:, : n - k]
        for i in range(n, self.entries.shape[2]):
            out[:, i - self.entries.shape[2], :i] = rows[:, i, None] * columns[:, :i]
        return out
