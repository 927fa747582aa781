"""A density that counts what is asked of it, and the clock of its compilation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import cast

import numpy as np

from pymc_ext.density.protocol import (
    Density,
    DensityWithExtras,
    Labels,
    bounded_names,
    coordinate_names,
    labels_of,
    value_names,
)
from pymc_ext.maths.types import Array

# Numbers in the points of one call, 2 MB: a density of rows may hold some arrays of their size.
MOST_NUMBERS = 2**18


class Clock:
    """Seconds spent compiling, apart from those of the fit."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = False

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """What happens inside is compilation; may be nested."""
        if self._running:
            yield
            return
        self._running, begin = True, time.perf_counter()
        try:
            yield
        finally:
            self._running = False
            self.seconds += time.perf_counter() - begin


def noise_of(density: Density) -> str:
    """Half a sentence: why log p̃ is noisy, with the variables that batches go into."""
    names = getattr(density, "batches", None)
    if not names:
        return "log p̃ is only a noisy estimate with pm.Minibatch data"
    return f"the rows of {names} are a pm.Minibatch, so that log p̃ is only a noisy estimate"


class CountedDensity:
    """``density`` with the number of log densities and of scores asked of it, rows each.

    Parameters that a density has beside θ (hyperparameters, a network's weights trained with q)
    are one flat vector :attr:`extra`, with gradients from :meth:`weighted_gradients`.
    """

    def __init__(self, density: Density) -> None:
        self.density = density
        self.clock: Clock = getattr(density, "clock", None) or Clock()
        self.values = self.gradients = 0
        self._extras_fixed = False

    @property
    def noisy(self) -> bool:
        """Whether each call gives another estimate of log p̃ (``pm.Minibatch``)."""
        return bool(getattr(self.density, "noisy", False))

    def require_exact(self) -> None:
        """Raise ValueError where log p̃ is noisy; it names the variables of a PyMC model."""
        if self.noisy:
            raise ValueError(
                f"{noise_of(self.density)}: build the model on all data to evaluate it, or fit "
                "px.BernsteinVI or px.MonteCarloVI, which take batches"
            )

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.density.dimension)

    @property
    def unconstrained_names(self) -> list[str]:
        """Names of the coordinates."""
        return coordinate_names(self.density)

    @property
    def value_names(self) -> list[str]:
        """Names of the coordinates beside their values."""
        return value_names(self.density)

    @property
    def labels(self) -> Labels:
        """How elements of its arrays are named."""
        return labels_of(self.density)

    @property
    def bounded_names(self) -> list[str]:
        """Coordinates of bounded variables."""
        return bounded_names(self.density)

    def log_density(self, theta: Array) -> Array:
        """log p̃, (N, D) -> (N,)."""
        self.values += len(theta)
        parts = self._in_parts(theta)
        if len(parts) == 1:
            return self.density.log_density(theta)
        return np.concatenate([self.density.log_density(part) for part in parts])

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """log p̃ and score, (N, D) -> (N,), (N, D)."""
        self.count(len(theta))
        parts = self._in_parts(theta)
        if len(parts) == 1:
            return self.density.log_density_gradient(theta)
        both = [self.density.log_density_gradient(part) for part in parts]
        log_p, scores = (np.concatenate(column) for column in zip(*both, strict=True))
        return log_p, scores

    def count(self, points: int) -> None:
        """Count values and scores at so many points, where an algorithm has its own way to both."""
        self.values += points
        self.gradients += points

    def _in_parts(self, theta: Array) -> list[Array]:
        """Rows of `MOST_NUMBERS` at most, in parts of nearly one size."""
        if theta.size <= MOST_NUMBERS:  # a search asks for one point at a time, thousands of times
            return [theta]
        return np.array_split(theta, max(1, -(-theta.size // MOST_NUMBERS)))

    # ---- parameters beside θ ---------------------------------------------------------------

    @property
    def _with_extras(self) -> DensityWithExtras:
        return cast("DensityWithExtras", self.density)

    @property
    def extra_size(self) -> int:
        """H, the number of parameters beside θ that are free."""
        return 0 if self._extras_fixed else int(getattr(self.density, "extra_size", 0))

    @contextlib.contextmanager
    def extras_fixed(self) -> Iterator[None]:
        """Context in which the parameters beside θ stay as they are."""
        before, self._extras_fixed = self._extras_fixed, True
        try:
            yield
        finally:
            self._extras_fixed = before

    @property
    def extra(self) -> Array:
        """Their values, (H,)."""
        return self._with_extras.extra if self.extra_size else np.empty(0)

    @extra.setter
    def extra(self, value: Array) -> None:
        if self.extra_size:
            self._with_extras.extra = value

    def weighted_gradients(self, theta: Array, weights: Array) -> tuple[Array, Array, Array]:
        """log p̃ (N,), scores (N, D), ∂ Σ_n w_n log p̃_n / ∂ extra (H,) at θ (N, D) for w (N,)."""
        if not self.extra_size:
            return *self.log_density_gradient(theta), np.empty(0)
        self.count(len(theta))
        return self._with_extras.weighted_gradients(theta, weights)
