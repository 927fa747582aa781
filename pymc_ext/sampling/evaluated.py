"""log p̃ and its score at one point after the other, as a sampler in Python asks for them."""

from __future__ import annotations

import threading

import numpy as np

from pymc_ext.density import Density
from pymc_ext.maths.types import Array

# A compiled function may not be entered by two threads at once, and Python is not faster so.
ONE_AT_A_TIME = threading.Lock()


class Evaluated:
    """``density`` at points (D,), counted.

    Attributes
    ----------
    calls
        Gradients so far.
    infinite
        Points among them where log p̃ is +∞. A sampler turns round there as at a hard edge, and so
        would never see that p̃ is no density.
    """

    def __init__(self, density: Density) -> None:
        self.density = density
        self.calls = self.infinite = 0

    def __call__(self, point: Array) -> tuple[float, Array] | None:
        """log p̃ and its score (D,); None where one of them is not finite."""
        with ONE_AT_A_TIME, np.errstate(all="ignore"):
            self.calls += 1
            lp, score = self.density.log_density_gradient(point[None])
            self.infinite += int(lp[0] == np.inf)
        if not (np.isfinite(lp[0]) and np.isfinite(score[0]).all()):
            return None
        return float(lp[0]), np.ascontiguousarray(score[0], dtype=float)
