"""Weights of values at places with which cubics go through these, from place to place.

The slope at a place is that of the line through its two neighbours (of an end that of the line to
the next), so that values between two places depend on four of them; beyond the ends the curve goes
straight on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array


def cubic_weights(places: Array, t: Array) -> tuple[NDArray[np.integer], Array, Array]:
    """Of each value t (N,) four places, their weights, and the derivatives of these, (N, 4) each.

    Parameters
    ----------
    places
        In rising order, two at least, (P,).
    t
        Anywhere.

    Examples
    --------
    >>> squares = np.array([-1.0, 0, 1, 2]) ** 2
    >>> at, weights, slopes = cubic_weights(np.array([-1.0, 0, 1, 2]), np.array([0.5, 3.0]))
    >>> (weights * squares[at]).sum(axis=1), (slopes * squares[at]).sum(axis=1)
    (array([0.25, 7.  ]), array([1., 3.]))
    """
    last = len(places) - 1
    inside = np.clip(t, places[0], places[-1])
    left = np.clip(np.searchsorted(places, inside, side="right") - 1, 0, last - 1)
    right, before, after = left + 1, np.maximum(left - 1, 0), np.minimum(left + 2, last)
    h = places[right] - places[left]
    u = (inside - places[left]) / h
    # of the slopes at both ends: by how much of a value over the distance that they are over
    at_left, at_right = h / (places[right] - places[before]), h / (places[after] - places[left])

    def weights(of_left: Array, of_right: Array, up: Array, down: Array) -> Array:
        """Of Hermite's cubic: of the values at both ends, and of their slopes times h."""
        up, down = up * at_left, down * at_right
        return np.stack([-up, of_left - down, of_right + up, down], axis=1)

    v = 1 - u
    value = weights((1 + 2 * u) * v**2, u**2 * (3 - 2 * u), u * v**2, -(u**2) * v)
    slope = weights(-6 * u * v, 6 * u * v, v * (1 - 3 * u), u * (3 * u - 2))
    slope /= h[:, None]
    places_of = np.stack([before, left, right, after], axis=1)
    return places_of, value + (t - inside)[:, None] * slope, slope
