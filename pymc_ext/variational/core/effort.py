"""What a run costs: the one clock and the one count behind every :class:`FitResult`."""

from __future__ import annotations

import time
from typing import TypedDict

from pymc_ext.density.counted import CountedDensity


class Spent(TypedDict):
    """Fields of :class:`FitResult` that say what was spent."""

    seconds: float
    compile_seconds: float
    density_evaluations: int
    gradient_evaluations: int


class Effort:
    """From its making on: wall seconds without compilation, compilation, log densities, scores.

    Everything asked of ``density`` counts, in every phase: searches, bases, selection, polishing,
    the final draws. A Hessian by differences counts as the 4D scores that it takes.
    """

    def __init__(self, density: CountedDensity) -> None:
        self.density = density
        self._begin, self._compiled = time.perf_counter(), density.clock.seconds
        self._values, self._gradients = density.values, density.gradients

    def spent(self) -> Spent:
        """What was spent so far."""
        compiled = self.density.clock.seconds - self._compiled
        return {
            "seconds": max(time.perf_counter() - self._begin - compiled, 0.0),
            "compile_seconds": compiled,
            "density_evaluations": self.density.values - self._values,
            "gradient_evaluations": self.density.gradients - self._gradients,
        }
