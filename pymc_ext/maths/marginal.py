r"""A monotone map of one normal with a tail of its own on each side, and its closed inverse.

.. math:: y = \frac{S(\operatorname{asinh} v - \epsilon) - S(-\epsilon)}{S'(-\epsilon)}, \quad
    S(u) = \sinh(\delta_\pm u) / \delta_\pm

with δ₋ for u < 0 and δ₊ above: y(0) = 0 and y′(0) = 1 whatever the numbers, and two continuous
derivatives. δ = 1, ε = 0 is the identity; δ = 2 gives y an exponential tail on that side, δ < 1 one
lighter than the normal's. The symmetric case is Jones & Pewsey (2009), Sinh-arcsinh distributions,
Biometrika 96(4), doi:10.1093/biomet/asp053.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array

MOST_SKEW, TAILS = 2.0, (0.5, 2.5)  # of ε, and of δ: 2 is an exponential tail


@dataclass(frozen=True, eq=False)
class Marginal(ByValue):
    """One map for each of D coordinates.

    Parameters
    ----------
    skew
        ε, (D,).
    tails
        δ₋ and δ₊ > 0, (2, D).
    """

    skew: Array
    tails: Array

    @classmethod
    def identity(cls, dimension: int) -> Marginal:
        """y = v."""
        return cls(np.zeros(dimension), np.ones((2, dimension)))

    @cached_property
    def bent(self) -> NDArray[np.integer]:
        """Coordinates in which y is not v."""
        return np.flatnonzero((self.skew != 0) | (self.tails != 1).any(axis=0))

    @cached_property
    def of_bent(self) -> Marginal:
        """The maps of these."""
        return self.of(self.bent)

    def of(self, columns: NDArray[np.integer]) -> Marginal:
        """The maps of some coordinates."""
        return Marginal(self.skew[columns], self.tails[:, columns])

    def forward(self, v: Array) -> tuple[Array, Array]:
        """y and dy/dv, (N, D) each."""
        y, slope, _ = self.at(v)
        return y, slope

    def at(self, v: Array) -> tuple[Array, Array, Bend | None]:
        """y and dy/dv, (N, D) each, and what derivatives need of the bent coordinates."""
        if not len(self.bent):
            return v, np.ones_like(v), None
        y, slope = v.copy(), np.ones_like(v)
        bend = self.of_bent.bend(v[:, self.bent])
        y[:, self.bent], slope[:, self.bent] = bend.y, bend.slope
        return y, slope, bend

    def bend(self, v: Array) -> Bend:
        """All coordinates at v, whether they are bent or not."""
        u = np.arcsinh(v) - self.skew
        above = u >= 0
        delta = np.where(above, self.tails[1], self.tails[0])
        start, slope, _ = self.at_zero
        s = np.sinh(delta * u)
        c, root = np.sqrt(1 + s * s), np.sqrt(1 + v * v)
        return Bend(self, v, u, above, delta, s, c, root, (s / delta - start) / slope)

    def inverse(self, y: Array) -> Array:
        """v, (N, D)."""
        v = y.copy()
        if len(self.bent):
            v[:, self.bent] = self.of_bent._inverse(y[:, self.bent])
        return v

    def _inverse(self, y: Array) -> Array:
        start, slope, _ = self.at_zero
        s = y * slope + start  # S(u), of u's sign
        delta = self._tail(s)
        return np.sinh(np.arcsinh(delta * s) / delta + self.skew)

    def slope_score(self, v: Array) -> Array:
        """d log(dy/dv) / dv, (N, D)."""
        return self.bend(v).slope_score

    def by_parameters(self, v: Array) -> Array:
        """dy/dε, dy/dδ₋, dy/dδ₊ at fixed v, (3, N, D)."""
        return self.bend(v).by_parameters()

    def _tail(self, u: Array) -> Array:
        """δ on the side of ``u``."""
        return np.where(u < 0, self.tails[0], self.tails[1])

    @cached_property
    def at_zero(self) -> tuple[Array, Array, Array]:
        """S(u), S'(u) and S''(u) at u = −ε, (D,)."""
        delta = self._tail(-self.skew)
        sinh = np.sinh(-delta * self.skew)
        return sinh / delta, np.cosh(delta * self.skew), delta * sinh


@dataclass(frozen=True)
class Bend:
    """A marginal map at v, all of whose derivatives are made of the same few numbers; all (N, D).

    Parameters
    ----------
    marginal
        The map.
    v, u, above, delta
        Latents, u = asinh v − ε, where u ≥ 0, and δ on that side.
    sinh, cosh
        Of δ u.
    root
        √(1 + v²).
    y
        The map's value.
    """

    marginal: Marginal
    v: Array
    u: Array
    above: NDArray[np.bool_]
    delta: Array
    sinh: Array
    cosh: Array
    root: Array
    y: Array

    @cached_property
    def slope(self) -> Array:
        """dy/dv."""
        return self.cosh / (self.root * self.marginal.at_zero[1])

    @property
    def slope_score(self) -> Array:
        """d log(dy/dv) / dv."""
        return (self.delta * self.sinh / self.cosh - self.v / self.root) / self.root

    def by_parameters(self) -> Array:
        """dy/dε, dy/dδ₋, dy/dδ₊ at fixed v, (3, N, D)."""
        start, slope, curve = self.marginal.at_zero
        u0, y = -self.marginal.skew, self.y
        delta0 = self.marginal._tail(u0)
        by_skew = 1 + (y * curve - self.cosh) / slope
        # ∂S/∂δ here and at u0, and ∂S'/∂δ there
        here = (self.u * self.cosh - self.sinh / self.delta) / self.delta
        there = (u0 * slope - start) / delta0 + y * (u0 * start * delta0)
        zero_above = u0 >= 0
        sides = [
            (here * (self.above == side) - there * (zero_above == side)) / slope
            for side in (False, True)
        ]
        return np.stack([by_skew, *sides])
