"""Optimiser steps on fresh draws: scores of any density, pulled back through q."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pymc_ext.density import CountedDensity
from pymc_ext.maths import flow_kernels as kernels
from pymc_ext.variational.bernstein.flow import BernsteinFlow

Array = NDArray[np.floating]
Normals = Callable[[int], Array]  # number of steps -> z (steps, S, K)
Update = Callable[[Array, Array], None]  # changes the vector in place, given the gradient
BLOCK = 100  # most steps taken between two looks at the learning rate
OPTIMIZERS = ("adam", "rmsprop")


@dataclass(frozen=True)
class StepOptions:
    """What one optimiser step is made of.

    Parameters
    ----------
    draws
        S, draws in each step.
    group
        Draws in one group of the importance-weighted bound; 1 is the ELBO.
    learning_rate
        Full rate.
    optimizer
        ``"adam"`` or ``"rmsprop"``.
    max_norm
        Gradients longer than this are shortened to it. None: to three times the running mean of
        their norms, for a few draws far out, where an exponential explodes, would otherwise fill
        Adam's second moment and stop it for a thousand steps.
    update
        Takes the place of the optimiser, its schedule and its average.
    normals
        Takes the place of fresh normals.
    """

    draws: int = 10
    group: int = 1
    learning_rate: float = 0.005
    optimizer: str = "adam"
    max_norm: float | None = None
    update: Update | None = None
    normals: Normals | None = None


class Loop(Protocol):
    """Takes steps; ``vector`` (P + H,) holds q's parameters and the density's extra ones."""

    draws: int

    @property
    def vector(self) -> Array:
        """Present parameters."""

    @vector.setter
    def vector(self, value: Array) -> None: ...

    @property
    def average(self) -> Array:
        """Average of the last iterates."""

    @average.setter
    def average(self, value: Array) -> None: ...

    def run(self, steps: int, rate: float, weight: float) -> Array:
        """Losses of ``steps`` steps, at most `BLOCK`; ``weight`` is that of a new iterate."""


LoopMaker = Callable[[BernsteinFlow, CountedDensity, StepOptions, np.random.Generator], Loop]


class DensityLoop:
    """Steps in numbers: draw, ask for scores, pull back, step."""

    def __init__(
        self,
        flow: BernsteinFlow,
        density: CountedDensity,
        options: StepOptions,
        rng: np.random.Generator,
    ) -> None:
        self.flow, self.density, self.options, self.rng = flow, density, options, rng
        self.draws, self.size = options.draws, len(flow.x)
        # without extra parameters the optimiser works on the flow's own memory
        self._vector = np.concatenate([flow.x, density.extra]) if density.extra_size else flow.x
        self._mask = np.concatenate([flow.mask, np.ones(density.extra_size)])
        self._average = self._vector.copy()
        self._first, self._second = np.zeros_like(self._vector), np.zeros_like(self._vector)
        self._state = np.zeros(2)  # Adam's steps, running limit of the gradient's norm

    @property
    def vector(self) -> Array:
        return np.concatenate([self.flow.x, self.density.extra])

    @vector.setter
    def vector(self, value: Array) -> None:
        self._vector[...] = value
        self._hand_out()

    def _hand_out(self) -> None:
        """Give flow and density their parts of the vector."""
        if self._vector is not self.flow.x:
            self.flow.set(self._vector[: self.size])
            self.density.extra = self._vector[self.size :]

    @property
    def average(self) -> Array:
        return self._average

    @average.setter
    def average(self, value: Array) -> None:
        self._average[...] = value

    def run(self, steps: int, rate: float, weight: float) -> Array:
        if self._vector is not self.flow.x:
            self._vector[...] = self.vector
        with np.errstate(all="ignore"):  # a step that is not finite is left out
            return np.array([self._step(z, rate, weight) for z in self._normals(steps)])

    def _normals(self, steps: int) -> Array:
        if self.options.normals is not None:
            return self.options.normals(steps)
        return self.rng.standard_normal((steps, self.draws, self.flow.latent_dimension))

    def _step(self, z: Array, rate: float, weight: float) -> float:
        loss, gradient = self.loss_and_gradient(z)
        options, vector = self.options, self._vector
        if options.update is not None:
            options.update(vector, gradient * self._mask)
        else:
            if not np.isfinite(loss):
                gradient[0] = np.nan
            longest = float(options.max_norm or 0.0)
            kernels.adam(
                vector, self._average, self._first, self._second, gradient, self._mask,
                rate, weight, self._state, options.optimizer == "adam", longest,
            )  # fmt: skip
        self._hand_out()
        return loss

    def loss_and_gradient(self, z: Array) -> tuple[float, Array]:
        """−bound on the draws of normals z (S, K), and its gradient (P + H,)."""
        tape = self.flow.trace(z)
        S, K = len(z), self.options.group
        w = np.full(S, 1 / S)
        if K == 1:
            log_p, scores, by_extra = self.density.weighted_gradients(tape.theta, w)
            loss = float(np.mean(tape.log_q - log_p))
        else:
            log_p, scores = self.density.log_density_gradient(tape.theta)
            log_ratio = (log_p - tape.log_q).reshape(-1, K)
            total = logsumexp(log_ratio, axis=1)
            w = np.exp(log_ratio - total[:, None]).ravel() * K / S
            loss = -float(np.mean(total - np.log(K)))
            by_extra = np.empty(0)
            if self.density.extra_size:  # their weights are known only now
                by_extra = self.density.weighted_gradients(tape.theta, w)[2]
            scores = np.where(w[:, None] > 0, scores, 0.0)
        gradient = self.flow.pullback(tape, -w[:, None] * scores, -w)
        return loss, np.concatenate([gradient, -by_extra]) if len(by_extra) else gradient
