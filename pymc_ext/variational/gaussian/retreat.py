"""Steps back to where the ELBO was highest, for steps that one batch may point far off."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.core.course import LEAST_GAIN
from pymc_ext.variational.gaussian.numbers import OUTLIER, median

S = TypeVar("S")
ERRORS = 3.0  # standard errors by which the ELBO of a batch must have fallen
SLOWER, FASTER = 0.5, 1.2  # of the rate at a step back, and after each that is none


class Retreat(Generic[S]):
    """The best state so far, and the share of a full rate at which to go on from it.

    Parameters
    ----------
    state
        Where the steps begin.
    """

    def __init__(self, state: S) -> None:
        self.best, self.elbo, self.error = state, -np.inf, 0.0
        self.damping = self._next = 1.0

    def fell(self, state: S, log_ratios: Array) -> bool:
        """Whether a batch from ``state``, (N,) values of log p̃ − log q, tells to go back to `best`.

        Else ``state`` is kept where it is the best. Values far from the median count as ten median
        distances: a single one of −1e43 would have an error that hides all that others show.
        """
        middle = median(log_ratios)
        off = log_ratios - middle
        farthest = OUTLIER * median(np.abs(off))
        near = np.clip(off, -farthest, farthest)
        elbo = middle + float(np.mean(near))
        error = float(np.std(near) / np.sqrt(len(near)))
        if elbo < self.elbo - ERRORS * (error + self.error) - LEAST_GAIN:
            self._next *= SLOWER
            self.elbo -= 0.5 * self.error  # or one lucky batch would hold
            return True
        if elbo > self.elbo:
            self.best, self.elbo, self.error = state, elbo, error
        self.damping, self._next = self._next, min(1.0, self._next * FASTER)
        return False
