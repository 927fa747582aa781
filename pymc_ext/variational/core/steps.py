"""Noisy gradient steps: their settings, and the guarded optimiser behind them, in numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pymc_ext.maths.flow_kernels import adam
from pymc_ext.maths.types import Array
from pymc_ext.options import RefusesKeywords, require_count, require_type
from pymc_ext.variational.core.algorithm import Algorithm, Q

Normals = Callable[[int], Array]  # number of steps -> z (steps, S, K)
Update = Callable[[Array, Array], None]  # changes the vector in place, given the gradient
OPTIMIZERS = ("adam", "rmsprop")
GRADIENTS = ("auto", "path", "total")


class NonFiniteError(FloatingPointError):
    """Many steps in a row had a non-finite loss or gradient."""


@dataclass(frozen=True)
class StepOptions(RefusesKeywords):
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
        Gradients longer than it are shortened to it. None: to three times the running mean of
        their norms, for a few draws far out, where an exponential explodes, would otherwise fill
        Adam's second moment and stop it for a thousand steps.
    update
        Takes the place of the optimiser, its schedule and its average.
    normals
        Takes the place of fresh normals.
    gradient
        Estimator of the bound's gradient: ``"total"``, that of the reparametrised draws as it is;
        ``"path"``, without its score term, whose mean is zero (Roeder et al. 2017,
        arXiv:1703.09194), so that the noise vanishes as q → p, at fresh draws only; ``"auto"``: the
        better one that the algorithm has for such draws.
    """

    draws: int = 10
    group: int = 1
    learning_rate: float = 0.005
    optimizer: str = "adam"
    max_norm: float | None = None
    update: Update | None = None
    normals: Normals | None = None
    gradient: str = "auto"

    def __post_init__(self) -> None:
        for label in ("draws", "group"):
            require_count(label, getattr(self, label))
        if self.draws % self.group:
            raise ValueError(
                f"draws must be a multiple of group, got draws={self.draws} and group={self.group}:"
                f" take draws={-(-self.draws // self.group) * self.group}"
            )
        longest = self.max_norm
        if longest is not None and not (
            isinstance(longest, int | float | np.number) and 0 < longest < np.inf
        ):
            raise ValueError(f"max_norm must be None or a number > 0, got {longest!r}")
        rate = self.learning_rate
        if not (isinstance(rate, int | float | np.number) and 0 < rate < np.inf):
            raise ValueError(f"learning_rate must be > 0, got {rate!r}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {OPTIMIZERS}, got {self.optimizer!r}")
        if self.gradient not in GRADIENTS:
            raise ValueError(f"gradient must be one of {GRADIENTS}, got {self.gradient!r}")
        if self.gradient == "path" and self.normals is not None:
            raise ValueError(
                "gradient='path' needs fresh draws: on fixed ones it is not the gradient of their "
                "bound; leave it at 'auto', or leave out more_replacements"
            )

    @property
    def by_path(self) -> bool:
        """Whether an algorithm that has path gradients takes them."""
        return self.gradient == "path" or (self.gradient == "auto" and self.normals is None)

    def refuse_path(self, why: str) -> None:
        """ValueError where path gradients are asked for by name; ``why`` this has none."""
        if self.gradient == "path":
            raise ValueError(f"gradient='path' {why}")


class GuardedSteps:
    """Steps of one optimiser on one vector; what is not finite is left out, an average is kept.

    Parameters
    ----------
    vector
        Parameters at the start, (P,); :attr:`vector` is moved in place.
    mask
        1 where a parameter may move, (P,).
    options
        Optimiser, or the user's own update, and the longest gradient.
    """

    def __init__(self, vector: Array, mask: Array, options: StepOptions) -> None:
        self.vector, self.mask, self.options = vector, mask, options
        self.average = self.vector.copy()
        self._first, self._second = np.zeros_like(self.vector), np.zeros_like(self.vector)
        self._state = np.zeros(2)  # Adam's steps, running limit of the gradient's norm

    def take(self, loss: float, gradient: Array, rate: float, weight: float) -> None:
        """One step; ``gradient`` (P,) is used up, ``weight`` is a new iterate's in the average."""
        options = self.options
        if options.update is not None:
            options.update(self.vector, gradient * self.mask)
            return
        if not np.isfinite(loss):
            gradient[0] = np.nan
        adam(
            self.vector, self.average, self._first, self._second, gradient, self.mask,
            rate, weight, self._state, options.optimizer == "adam", float(options.max_norm or 0.0),
        )  # fmt: skip


@dataclass(frozen=True)
class SteppingAlgorithm(Algorithm[Q]):
    """An algorithm of noisy steps, on noisy densities too.

    A run that goes on from a state keeps its optimiser's memory where :attr:`step` is the same,
    and begins it anew where it is another.

    Parameters
    ----------
    step
        What one step is made of.
    """

    takes_noise: ClassVar[bool] = True
    step: StepOptions = field(default_factory=StepOptions, kw_only=True)

    def __post_init__(self) -> None:
        require_type("step", self.step, StepOptions)
