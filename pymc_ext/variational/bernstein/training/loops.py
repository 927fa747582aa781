"""Optimiser steps on fresh draws: scores of any density, pulled back through q."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.core.steps import GuardedSteps, StepOptions

BLOCK = 100  # most steps taken between two looks at the learning rate


class Loop(Protocol):
    """Takes steps; ``vector`` (P + H,) holds q's parameters and the density's extra ones."""

    draws: int
    flow: BernsteinFlow

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

    def fork(self, density: CountedDensity) -> Loop:
        """An independent copy, flow and all, that goes on from here on ``density``."""


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
        vector = np.concatenate([flow.x, density.extra]) if density.extra_size else flow.x
        mask = np.concatenate([flow.mask, np.ones(density.extra_size)])
        self._steps = GuardedSteps(vector, mask, options)

    @property
    def vector(self) -> Array:
        return np.concatenate([self.flow.x, self.density.extra])

    @vector.setter
    def vector(self, value: Array) -> None:
        self._steps.vector[...] = value
        self._hand_out()

    def fork(self, density: CountedDensity) -> DensityLoop:
        # a user's own optimiser, in the options, keeps its own memory
        return deepcopy(self, {id(self.density): density, id(self.options): self.options})

    def _hand_out(self) -> None:
        """Give flow and density their parts of the vector, where they do not share its memory."""
        vector = self._steps.vector
        if vector is not self.flow.x:
            self.flow.set(vector[: self.size])
            self.density.extra = vector[self.size :]

    @property
    def average(self) -> Array:
        return self._steps.average

    @average.setter
    def average(self, value: Array) -> None:
        self._steps.average[...] = value

    def run(self, steps: int, rate: float, weight: float) -> Array:
        if self._steps.vector is not self.flow.x:
            self._steps.vector[...] = self.vector
        with np.errstate(all="ignore"):  # a step that is not finite is left out
            return np.array([self._step(z, rate, weight) for z in self._normals(steps)])

    def _normals(self, steps: int) -> Array:
        if self.options.normals is not None:
            return self.options.normals(steps)
        return self.rng.standard_normal((steps, self.draws, self.flow.latent_dimension))

    def _step(self, z: Array, rate: float, weight: float) -> float:
        loss, gradient = self.loss_and_gradient(z)
        self._steps.take(loss, gradient, rate, weight)
        self._hand_out()
        return loss

    def loss_and_gradient(self, z: Array) -> tuple[float, Array]:
        r"""−bound on the draws of normals z (S, K), and an estimate of its gradient (P + H,).

        With the normalised weights w of each group (w = 1 for the ELBO) and G groups, the total
        gradient is :math:`-\frac1G \sum w \, \nabla_\phi (\log\tilde p - \log q)(T_\phi(z))`. The
        path gradient leaves out what has mean zero,

        .. math:: -\frac1G \sum w^2 (\nabla_\theta\log\tilde p - \nabla_\theta\log q)^\top
            \, \partial T_\phi(z) / \partial\phi,

        whose variance vanishes as q → p̃: Roeder, Wu & Duvenaud (2017), arXiv:1703.09194; for
        groups Tucker, Lawson, Gu & Maddison (2019), arXiv:1810.04152.
        """
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
        residual, by_log_det = tape.target_score(scores), -w
        if self.options.by_path:
            residual = np.where(w[:, None] > 0, residual - self.flow.score(tape), 0.0)
            w, by_log_det = w * w * (S / K), np.zeros(S)
        gradient = self.flow.parameter_gradient(tape, -w[:, None] * residual, by_log_det)
        return loss, np.concatenate([gradient, -by_extra]) if len(by_extra) else gradient
