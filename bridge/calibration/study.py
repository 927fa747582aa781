"""What calibration asks of a model: parameters, data given them, the posterior of any data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bridge.methods.problems import GivenProblem
from pymc_ext.maths.types import Array

__all__ = ["Prior", "Simulated", "Simulator", "Study", "Values", "required"]

Values = Mapping[str, NDArray]  # by name
Prior = Callable[[np.random.Generator], Values]
Simulator = Callable[[Values, np.random.Generator], Values]


@dataclass(frozen=True)
class Simulated:
    """Parameters, constrained, and data that they make, by name."""

    parameters: Values
    data: Values


class Study(Protocol):
    """A model without its data. It can be pickled, and what is unpickled compiles for itself."""

    @property
    def name(self) -> str:
        """For records."""

    @property
    def fingerprint(self) -> str:
        """The same for the same model, so that runs of two models are never mixed."""

    def simulate(
        self, count: int, prior: Prior | None, simulator: Simulator | None, seed: int
    ) -> list[Simulated]:
        """As many pairs; the first ones are the same for any count.

        Raises
        ------
        ValueError
            The model does not say how to make them.
        """

    def simulate_again(
        self, parameters: Sequence[Values], simulator: Simulator | None, seed: int
    ) -> list[Simulated]:
        """Data given each of these parameters, for posterior calibration."""

    def conditioned(self, data: Values) -> Study:
        """The same model given these data already, for posterior calibration."""

    def problem(self, data: Values) -> GivenProblem:
        """The posterior given data; the problem made before takes these too."""

    def log_likelihood(self, problem: GivenProblem, theta: Array, seed: int) -> Array | None:
        """log p(y|θ) at unconstrained points of a problem of this study, (N, D) -> (N,)."""


def required(values: object, names: Sequence[str], of: str) -> Values:
    """What a function of the user's gave, with all of these names.

    Raises
    ------
    ValueError
        It is no mapping, or names are missing.
    """
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{of} must be, or return, a mapping of names to values, got {type(values).__name__}"
        )
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(f"{of} must give all of {list(names)}, got none for {missing}")
    return {str(name): np.asarray(value) for name, value in values.items()}
