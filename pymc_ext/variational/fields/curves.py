r"""Curves through values at some places along each of a few axes, and products of two axes.

.. math:: f(y) = f(o) + \sum_k \bigl(c_k(y_k) - f(o)\bigr)
    + \sum_{j<k} \sum_{a, b} d_{jkab}\, a(y_j - o_j)\, b(y_k - o_k), \quad a, b \in \{t, h\},

with the cubics c_k of :mod:`pymc_ext.maths.cubics` from place to place. Odd
t(y) = c tanh(y / c) and even h(y) = √(1 + t(y)²) − 1 are zero on the axes, so that the four d of a
pair make f what it is at a place in each quadrant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.cubics import cubic_weights
from pymc_ext.maths.types import Array

FARTHEST = 3.0  # c: sds beyond which a product hardly grows


@dataclass(frozen=True, eq=False)
class Curves(ByValue):
    """Weights with which f(y) is a sum of known rows: at o, along the axes, and of pairs.

    Parameters
    ----------
    origin
        o, (g,), where the axes meet.
    places
        Of all axes, one after the other, each in rising order, (P,).
    counts
        How many each axis has, at least two, (g,).
    pairs
        Axes whose products have rows d, (Q, 2).

    Examples
    --------
    >>> none = np.empty((0, 2), dtype=int)
    >>> curves = Curves(np.zeros(1), np.array([-1.0, 0, 1]), np.array([3]), none)
    >>> rows = np.array([0.0, 1, 0, 1])  # f(o), then y² at the places
    >>> curves.at(np.array([[1.0], [3.0]])).times(rows)
    array([1., 3.])
    """

    origin: Array
    places: Array
    counts: NDArray[np.integer]
    pairs: NDArray[np.integer]

    @property
    def terms(self) -> int:
        """T = 1 + P + 4 Q."""
        return 1 + len(self.places) + 4 * len(self.pairs)

    @cached_property
    def _axes(self) -> list[Array]:
        """Places along each axis."""
        return np.split(self.places, np.cumsum(self.counts)[:-1]) if len(self.counts) else []

    def at(self, y: Array) -> Weights:
        """At y (N, g)."""
        N, g = y.shape
        weights, slopes = np.zeros((N, self.terms)), np.zeros((N, self.terms, g))
        weights[:, 0] = 1 - g
        first = 1
        for k, places in enumerate(self._axes):
            at, own, rates = cubic_weights(places, y[:, k])
            for corner in range(4):  # two of which may be the same place
                rows = np.arange(N), first + at[:, corner]
                weights[rows] += own[:, corner]
                slopes[(*rows, k)] += rates[:, corner]
            first += len(places)
        both = _odd_and_even(y - self.origin)
        for i, j in self.pairs:
            for a, a_slope in both:
                for b, b_slope in both:
                    weights[:, first] = a[:, i] * b[:, j]
                    slopes[:, first, i] = a_slope[:, i] * b[:, j]
                    slopes[:, first, j] = a[:, i] * b_slope[:, j]
                    first += 1
        return Weights(weights, slopes)


@dataclass(frozen=True)
class Weights:
    """Of T rows at N places.

    Parameters
    ----------
    weights
        (N, T).
    slopes
        Their derivatives in y, (N, T, g).
    """

    weights: Array
    slopes: Array

    def times(self, rows: Array) -> Array:
        """Of rows (T, …), (N, …)."""
        used = np.flatnonzero(self.weights.any(axis=0))
        return np.tensordot(self.weights[:, used], rows[used], 1)

    def pulled_back(self, rows: Array, by: Array) -> Array:
        """∂/∂y (N, g) of a function, from its derivatives ``by`` (N, …) in :meth:`times`."""
        used = np.flatnonzero(self.slopes.any(axis=(0, 2)))
        inner = list(range(1, by.ndim))
        by_term = np.tensordot(by, rows[used], (inner, inner))
        return np.einsum("nt,ntg->ng", by_term, self.slopes[:, used])


def bounded(y: Array) -> tuple[Array, Array]:
    """t(y) and its slope, of any shape."""
    hyperbolic = np.tanh(y / FARTHEST)
    return FARTHEST * hyperbolic, 1 - hyperbolic**2


def _odd_and_even(y: Array) -> list[tuple[Array, Array]]:
    """t and h with their slopes, of any shape."""
    t, rate = bounded(y)
    root = np.sqrt(1 + t**2)
    return [(t, rate), (root - 1, t / root * rate)]
