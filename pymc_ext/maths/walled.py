"""A loss for a line search: where it is not finite there is a wall to back off from."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np

from pymc_ext.maths.types import Array

Loss = Callable[[Array], tuple[float, Array]]  # x (P,) -> value, gradient (P,)
WALL = 1e100  # before any value is known: higher than any loss, and still finite, as SciPy needs


def walled(loss: Loss, impossible: type[Exception] | tuple[type[Exception], ...] = ()) -> Loss:
    """``loss`` with a wall where it is not finite, or raises ``impossible``.

    The wall is as far above the last value seen as the slope at the lowest promised to go below
    that, and rises twice as steeply from there: a line search that interpolates goes back to about
    a fifth of its step. From a wall of 1e100 it goes back to 1e-95 of it, where the loss no longer
    changes, and takes that for a minimum. A wall no higher than what lies before it draws a search
    on: next to a minimum, where slopes promise nothing, a loss that rises towards its edge does.

    >>> value, slope = walled(lambda x: (np.inf, x))(np.ones(2))
    >>> value, slope
    (1e+100, array([0., 0.]))
    >>> both = walled(lambda x: (float(x[0] ** 2) if x[0] > -2 else np.inf, 2 * x))
    >>> both(np.array([1.0])), both(np.array([-3.0]))
    ((1.0, array([2.])), (9.0, array([-4.])))
    """
    lowest: tuple[float, Array, Array] | None = None
    last = np.nan

    def with_wall(x: Array) -> tuple[float, Array]:
        nonlocal lowest, last
        try:
            with np.errstate(all="ignore"):
                value, gradient = loss(x)
        except impossible:
            return _wall(x, lowest, last)
        if not (isfinite(value) and np.isfinite(gradient).all()):
            return _wall(x, lowest, last)
        last = value
        if lowest is None or value < lowest[0]:
            lowest = value, x.copy(), gradient.copy()
        return value, gradient

    return with_wall


def _wall(x: Array, lowest: tuple[float, Array, Array] | None, last: float) -> tuple[float, Array]:
    """The wall at x, from the lowest value seen, where that was, its gradient, and the last one."""
    if lowest is not None:
        value, place, gradient = lowest
        away = x - place
        with np.errstate(all="ignore"):
            height = abs(float(gradient @ away)) + (last - value)
            slope = 2 * height * away / (away @ away)
        if value < value + height < WALL and np.isfinite(slope).all():
            return value + height, slope
    return WALL, np.zeros_like(x)
