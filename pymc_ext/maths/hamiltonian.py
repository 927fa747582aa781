r"""Trajectories of Hamiltonian dynamics, of many chains in step.

With momenta r ~ N(0, I) the energy :math:`H = \tfrac12 |r|^2 - \log p(x)` is what leapfrog steps
keep up to an error, by which the end of a trajectory is accepted or not.

Neal (2011), MCMC using Hamiltonian dynamics, arXiv:1206.1901.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array

ENERGY_LOST = 1000.0  # nats at which a trajectory has diverged, as in Stan


@dataclass(frozen=True)
class State:
    """Where chains are: points (M, D), their log density (M,) and its score (M, D)."""

    point: Array
    value: Array
    score: Array

    def or_where(self, chosen: NDArray[np.bool_], other: State) -> State:
        """Of the chains ``chosen`` (M,) the other state, of the rest this one."""
        return State(
            np.where(chosen[:, None], other.point, self.point),
            np.where(chosen, other.value, self.value),
            np.where(chosen[:, None], other.score, self.score),
        )


@dataclass(frozen=True)
class Trajectory:
    """One of every chain: its end, energies before and after it (M,), whether it diverged (M,)."""

    end: State
    before: Array
    after: Array
    diverging: NDArray[np.bool_]

    @property
    def log_rate(self) -> Array:
        """log of the probability that the end is accepted, (M,); −∞ where it diverged."""
        return np.where(self.diverging, -np.inf, np.minimum(self.before - self.after, 0.0))


def trajectory(
    log_density_gradient: Callable[[Array], tuple[Array, Array]],
    begin: State,
    momentum: Array,
    step: float,
    steps: int,
) -> Trajectory:
    """So many leapfrog steps from ``begin`` with ``momentum`` (M, D).

    >>> begin = State(np.ones((1, 1)), np.full(1, -0.5), -np.ones((1, 1)))
    >>> quarter = trajectory(
    ...     lambda x: (-0.5 * x[:, 0] ** 2, -x), begin, np.zeros((1, 1)), np.pi / 200, 100
    ... )
    >>> abs(quarter.end.point.item()) < 1e-3  # of N(0, 1), a quarter of its period
    True
    """
    point, value, score = begin.point, begin.value, begin.score
    before = after = 0.5 * np.sum(momentum**2, axis=1) - value
    diverging = np.zeros(len(point), dtype=bool)
    with np.errstate(all="ignore"):
        for _ in range(steps):
            momentum = momentum + 0.5 * step * score
            # by the kick alone: where it leads numbers overflow, which says nothing of p
            diverging |= ~(0.5 * np.sum(momentum**2, axis=1) - value - before < ENERGY_LOST)
            # those that have diverged wait where they began
            point = np.where(diverging[:, None], begin.point, point + step * momentum)
            value, score = log_density_gradient(point)
            momentum = momentum + 0.5 * step * score
            after = 0.5 * np.sum(momentum**2, axis=1) - value
            diverging |= ~(after - before < ENERGY_LOST)
    return Trajectory(State(point, value, score), before, after, diverging)
