r"""The normal law of a field whose precision is banded but for a border and a constraint on a sum.

.. math:: \Lambda = B B^\top + u u^\top = K K^\top, \quad K = B (I + w w^\top)^{1/2}, \quad
          w = B^{-1} u.

With s = wᵀw, (I + w wᵀ)^(−½) = I − f w wᵀ, f = (1 − (1 + s)^(−½)) / s. Rue & Held (2005), Gaussian
Markov Random Fields, chapter 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_ext.maths.bordered import BorderedRoot
from pymc_ext.maths.bordered_many import BorderedRoots
from pymc_ext.maths.types import Array

NO_SUM = 1e-8  # of s, below which f is ½, its limit


@dataclass(frozen=True)
class PrecisionRoot:
    """A root of Λ, and of draws K⁻ᵀ z; vectors are rows, (N, n).

    Parameters
    ----------
    root
        B.
    common
        u, (n,); zeros where nothing is constrained.
    """

    root: BorderedRoot
    common: Array

    @cached_property
    def w(self) -> Array:
        """B⁻¹ u, (n,)."""
        return self.root.solve(self.common[None])[0] if self.common.any() else self.common

    @cached_property
    def s(self) -> float:
        """wᵀ w."""
        return float(self.w @ self.w)

    @cached_property
    def f(self) -> float:
        """(1 − (1 + s)^(−½)) / s."""
        return float(_f(np.array(self.s)))

    @property
    def log_det(self) -> float:
        """log det K."""
        return self.root.log_det + 0.5 * float(np.log1p(self.s))

    def whitened(self, x: Array) -> Array:
        """K⁻¹ x."""
        return self._shortened(self.root.solve(x))

    def draws(self, z: Array) -> Array:
        """K⁻ᵀ z, whose covariance is Λ⁻¹ where that of z is I."""
        return self.root.transposed_solve(self._shortened(z))

    def normals(self, x: Array) -> Array:
        """Kᵀ x: the z of :meth:`draws`."""
        y = self.root.transposed_times(x)
        # (I + w wᵀ)^½ = I + w wᵀ f √(1 + s)
        return y + ((self.f * np.sqrt(1 + self.s)) * (y @ self.w))[:, None] * self.w

    def covariance_times(self, x: Array) -> Array:
        """Λ⁻¹ x."""
        return self.draws(self.whitened(x))

    def precision_times(self, x: Array) -> Array:
        """Λ x."""
        out = self.root.times(self.root.transposed_times(x))
        return out + (x @ self.common)[:, None] * self.common

    def _shortened(self, x: Array) -> Array:
        return x - (self.f * (x @ self.w))[:, None] * self.w


@dataclass(frozen=True)
class PrecisionRoots:
    """A root of Λ for each of N rows, whose vectors are rows of their own, (N, n).

    Parameters
    ----------
    roots
        B of each.
    common
        u of all, (n,); zeros where nothing is constrained.
    """

    roots: BorderedRoots
    common: Array

    @cached_property
    def constrained(self) -> bool:
        """Whether u is not zero."""
        return bool(self.common.any())

    @cached_property
    def w(self) -> Array:
        """B⁻¹ u, (N, n)."""
        return self.roots.solve(np.tile(self.common, (len(self.roots.entries), 1)))

    @cached_property
    def s(self) -> Array:
        """wᵀ w, (N,)."""
        return np.einsum("nj,nj->n", self.w, self.w)

    @cached_property
    def f(self) -> Array:
        """(1 − (1 + s)^(−½)) / s, (N,)."""
        return _f(self.s)

    @property
    def slope_of_f(self) -> Array:
        """∂f/∂s, (N,)."""
        known = self.s > NO_SUM
        s = np.where(known, self.s, 1.0)
        return np.where(known, (0.5 * (1 + s) ** -1.5 - self.f) / s, -0.375)

    @property
    def log_det(self) -> Array:
        """log det K, (N,)."""
        log_det = self.roots.log_det
        return log_det + 0.5 * np.log1p(self.s) if self.constrained else log_det

    def draws(self, z: Array) -> Array:
        """K⁻ᵀ z, whose covariance is Λ⁻¹ where that of z is I."""
        if self.constrained:
            z = z - (self.f * np.einsum("nj,nj->n", z, self.w))[:, None] * self.w
        return self.roots.transposed_solve(z)

    def normals(self, x: Array) -> Array:
        """Kᵀ x: the z of :meth:`draws`."""
        y = self.roots.transposed_times(x)
        if not self.constrained:
            return y
        along = self.f * np.sqrt(1 + self.s) * np.einsum("nj,nj->n", y, self.w)
        return y + along[:, None] * self.w


def _f(s: Array) -> Array:
    """(1 − (1 + s)^(−½)) / s, of any shape."""
    known = s > NO_SUM
    s = np.where(known, s, 1.0)
    return np.where(known, (1 - (1 + s) ** -0.5) / s, 0.5)
