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

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Marginal:
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

    def of(self, columns: NDArray[np.integer]) -> Marginal:
        """The maps of some coordinates."""
        return Marginal(self.skew[columns], self.tails[:, columns])

    def forward(self, v: Array) -> tuple[Array, Array]:
        """y and dy/dv, (N, D) each."""
        y, slope = v.copy(), np.ones_like(v)
        if len(self.bent):
            y[:, self.bent], slope[:, self.bent] = self.of(self.bent)._forward(v[:, self.bent])
        return y, slope

    def _forward(self, v: Array) -> tuple[Array, Array]:
        u = np.arcsinh(v) - self.skew
        delta = self._tail(u)
        start, slope = self._at_zero()
        s = np.sinh(delta * u)
        return (s / delta - start) / slope, np.sqrt((1 + s**2) / (1 + v**2)) / slope

    def inverse(self, y: Array) -> Array:
        """v, (N, D)."""
        v = y.copy()
        if len(self.bent):
            v[:, self.bent] = self.of(self.bent)._inverse(y[:, self.bent])
        return v

    def _inverse(self, y: Array) -> Array:
        start, slope = self._at_zero()
        s = y * slope + start  # S(u), of u's sign
        delta = self._tail(s)
        return np.sinh(np.arcsinh(delta * s) / delta + self.skew)

    def slope_score(self, v: Array) -> Array:
        """d log(dy/dv) / dv, (N, D)."""
        score = np.zeros_like(v)
        if len(self.bent):
            score[:, self.bent] = self.of(self.bent)._slope_score(v[:, self.bent])
        return score

    def _slope_score(self, v: Array) -> Array:
        u = np.arcsinh(v) - self.skew
        delta = self._tail(u)
        return delta * np.tanh(delta * u) / np.sqrt(1 + v**2) - v / (1 + v**2)

    def by_parameters(self, v: Array) -> Array:
        """dy/dε, dy/dδ₋, dy/dδ₊ at fixed v, (3, N, D)."""
        u = np.arcsinh(v) - self.skew
        delta = self._tail(u)
        start, slope = self._at_zero()
        y = (np.sinh(delta * u) / delta - start) / slope
        u0 = -self.skew
        delta0 = self._tail(u0)
        curve0 = delta0 * np.sinh(delta0 * u0)  # S''(u0)
        by_skew = (slope - np.cosh(delta * u) + y * curve0) / slope

        def by_delta(u: Array, delta: Array) -> Array:  # of S
            return (u * np.cosh(delta * u) - np.sinh(delta * u) / delta) / delta

        here, there = by_delta(u, delta), by_delta(u0, delta0)
        slope_by_delta = u0 * np.sinh(delta0 * u0)  # of S'(u0)
        sides = []
        for below in (True, False):
            own, zero = (u < 0) == below, (u0 < 0) == below
            sides.append((own * here - zero * (there + y * slope_by_delta)) / slope)
        return np.stack([by_skew, *sides])

    def _tail(self, u: Array) -> Array:
        """δ on the side of ``u``."""
        return np.where(u < 0, self.tails[0], self.tails[1])

    def _at_zero(self) -> tuple[Array, Array]:
        """S(−ε) and S'(−ε), (D,)."""
        delta = self._tail(-self.skew)
        return -np.sinh(delta * self.skew) / delta, np.cosh(delta * self.skew)
