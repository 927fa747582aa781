"""Weights of values at places with which cubics go through these, from place to place.

The slope at a place is that of the line through its two neighbours (of an end that of the line to
the next), so that values between two places depend on four of them; beyond the ends the curve goes
straight on.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.types import Array


def cubic_weights(places: Array, t: Array) -> tuple[Array, Array]:
    """At values t (N,), (N, P), and their derivatives in t.

    Parameters
    ----------
    places
        In rising order, two at least, (P,).
    t
        Anywhere.

    Examples
    --------
    >>> places = np.array([-1.0, 0, 1, 2])
    >>> weights, slopes = cubic_weights(places, np.array([0.5, 3.0]))
    >>> weights @ places**2, slopes @ places
    (array([0.25, 7.  ]), array([1., 1.]))
    """
    P, rows, slope_at = len(places), np.arange(len(t)), _slopes(places)
    inside = np.clip(t, places[0], places[-1])
    left = np.clip(np.searchsorted(places, inside, side="right") - 1, 0, P - 2)
    h = places[left + 1] - places[left]
    u = (inside - places[left]) / h
    value, slope = np.zeros((2, len(t), P))
    # of Hermite's cubic: weights of the value and of the slope at each end, and their derivatives
    ends = (
        (
            left,
            (1 + 2 * u) * (1 - u) ** 2,
            u * (1 - u) ** 2,
            6 * u * (u - 1),
            (1 - u) * (1 - 3 * u),
        ),
        (left + 1, u**2 * (3 - 2 * u), u**2 * (u - 1), 6 * u * (1 - u), u * (3 * u - 2)),
    )
    for at, of_value, of_slope, by_value, by_slope in ends:
        value[rows, at] += of_value
        slope[rows, at] += by_value / h
        value += (of_slope * h)[:, None] * slope_at[at]
        slope += by_slope[:, None] * slope_at[at]
    return value + (t - inside)[:, None] * slope, slope


def _slopes(places: Array) -> Array:
    """At each place by the values at all, (P, P)."""
    P = len(places)
    before, after = np.maximum(np.arange(P) - 1, 0), np.minimum(np.arange(P) + 1, P - 1)
    width, rows = places[after] - places[before], np.arange(P)
    slopes = np.zeros((P, P))
    slopes[rows, after] += 1 / width
    slopes[rows, before] -= 1 / width
    return slopes
