"""A loss for a line search: where it is not finite there is a wall to back off from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Loss = Callable[[Array], tuple[float, Array]]  # x (P,) -> value, gradient (P,)
WALL = 1e100  # higher than any loss, and still finite, which SciPy's line searches need


def walled(loss: Loss, impossible: type[Exception] | tuple[type[Exception], ...] = ()) -> Loss:
    """``loss`` with a flat wall where it is not finite, or raises ``impossible``.

    >>> value, slope = walled(lambda x: (np.inf, x))(np.ones(2))
    >>> value, slope
    (1e+100, array([0., 0.]))
    """

    def with_wall(x: Array) -> tuple[float, Array]:
        try:
            with np.errstate(all="ignore"):
                value, gradient = loss(x)
        except impossible:
            return WALL, np.zeros_like(x)
        if np.isfinite(value) and np.isfinite(gradient).all():
            return value, gradient
        return WALL, np.zeros_like(x)

    return with_wall
