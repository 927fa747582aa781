"""What a target is, and the checks that all of them make of points and draws.

``theta`` is always a matrix of unconstrained points, one row a draw, shape ``(N, D)``.
``log_density`` is log p(data, theta), every constant and the log-Jacobian of the constraining
transforms included, so that its integral over R^D is the evidence of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from pymc_ext.density import Density

__all__ = ["Draws", "Target", "as_points", "select"]

Draws = Mapping[str, np.ndarray]


class Target(Protocol):
    """An unnormalised log density on R^D together with the names of what it is a density of."""

    @property
    def name(self) -> str:
        """Name of the posterior, for tables."""

    @property
    def dimension(self) -> int:
        """D, the number of unconstrained coordinates."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the constrained parameters, without the quantities derived from them."""

    @property
    def density(self) -> Density:
        """What algorithms work on: log p̃ and its score, with the names of the coordinates."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Log p̃ at unconstrained points: (N, D) -> (N,)."""

    def log_density_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log p̃ and its gradient: (N, D) -> (N,), (N, D)."""

    def constrain(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters and derived quantities by name: (N, D) -> (N, *shape) each."""

    def unconstrain(self, draws: Draws) -> np.ndarray:
        """Inverse of `constrain` from the parameters alone: (N, *shape) each -> (N, D)."""


def as_points(theta: np.ndarray, dimension: int) -> np.ndarray:
    """Points as a contiguous array of floats, (N, dimension)."""
    theta = np.ascontiguousarray(theta, dtype=float)
    if theta.ndim != 2 or theta.shape[1] != dimension:
        raise ValueError(f"theta must have shape (N, {dimension}), got {theta.shape}")
    return theta


def select(draws: Draws, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The draws of these names as arrays of floats."""
    missing = [name for name in names if name not in draws]
    if missing:
        raise ValueError(f"draws lack the parameters {missing}: they hold {sorted(draws)}")
    return {name: np.asarray(draws[name], dtype=float) for name in names}
