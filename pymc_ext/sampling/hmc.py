r"""Hamiltonian Monte Carlo of several chains in step, in an approximation's coordinates.

Where q is near the posterior, the posterior of v with θ = T(v) is near N(0, I), and there is little
for a sampler to find out: a trajectory of time π/2 from v with a fresh momentum ends at a point
independent of v, where NUTS has to double until it turns. All chains take the same number of steps,
so that log p̃, its score and T are asked for all of them in one call.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density, DensityInCoordinates, TransportMap
from pymc_ext.interrupts import Interrupts
from pymc_ext.maths.hamiltonian import State, trajectory
from pymc_ext.maths.types import Array
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.protocol import STATISTICS as OF_NUTS
from pymc_ext.sampling.transitions import Transitions

__all__ = ["HMC"]

# Trajectories take a quarter period of N(0, I), more or less by half: squares of an even share of
# lengths from .5 to 1.5 forget .8 of what they were, those from 0 to 2 half of it, and a fixed
# length never leaves a direction whose own period it is a multiple of.
QUARTER, SPREAD = np.pi / 2, 0.5
# Fractional parts of its multiples fill (0, 1) evenly, in any number.
GOLDEN = (np.sqrt(5) - 1) / 2
# Transitions of the warm-up, from weighted draws of q: the step size is found by some ten.
WARM_UP = 40
# Log step sizes move by this times the excess of the mean acceptance, and less with the square root
# of the transitions made; the mean of the second half is what is kept.
GAIN = 1.0
MOST_STEPS = 128  # of a trajectory
# Of a transition, each (M, n): a trajectory of a given length is no tree.
STATISTICS = tuple(name for name in OF_NUTS if name != "tree_depth")


class HMC:
    """Chains in step; see `pymc_ext.sampling.protocol.Source`.

    Parameters
    ----------
    density, transport
        log p̃ of θ, and T: θ = T(v).
    starts
        v of each chain, (M, D).
    seed
        Of all random numbers.
    options
        The acceptance rate that the step size is adapted to.
    interrupts
        Notes Ctrl-C.

    References
    ----------
    Neal (2011), MCMC using Hamiltonian dynamics, arXiv:1206.1901; lengths by a sequence that is
    even after Hoffman, Radul & Sountsov (2021), ChEES-HMC, PMLR 130:3907–3915.
    """

    name: Final = "hmc"

    def __init__(
        self,
        density: Density,
        transport: TransportMap,
        starts: Array,
        seed: int,
        options: Sampling,
        interrupts: Interrupts | None = None,
    ) -> None:
        self._density = DensityInCoordinates(density, transport)
        self._rng, self._interrupts = np.random.default_rng(seed), interrupts
        self._target_accept = options.target_accept
        self.count, self.gradients, self.infinite = len(starts), 0, 0
        self.interrupted = False
        self._log_step = -0.25 * np.log(starts.shape[1])  # steps go with D^(−1/4)
        self._log_steps = list[float]()  # of the warm-up
        self._made = 0
        self._state = State(starts, *self._evaluated(starts))

    def warm_up(self, budget: float) -> Transitions:
        """Find the step size."""
        made = self._transitions(WARM_UP, budget, adapts=True)
        if len(self._log_steps) == WARM_UP:
            self._log_step = float(np.mean(self._log_steps[WARM_UP // 2 :]))
        return made

    def draw(self, iterations: int) -> Transitions:
        """The next states."""
        return self._transitions(iterations)

    def close(self) -> None:
        """Nothing is held."""

    def _transitions(self, count: int, budget: float = np.inf, adapts: bool = False) -> Transitions:
        points, rows = list[Array](), list[dict[str, NDArray]]()
        try:
            while len(rows) < count and self.gradients <= budget:
                if self._interrupts is not None and self._interrupts.seen:
                    raise KeyboardInterrupt
                state, row = self._transition()
                points.append(state.point)
                rows.append(row)
                self._state = state
                self._made += 1
                if adapts:
                    excess = row["acceptance_rate"].mean() - self._target_accept
                    self._log_steps.append(self._log_step)
                    self._log_step += GAIN * excess / np.sqrt(self._made)
        except KeyboardInterrupt:
            self.interrupted = True
        shape = self.count, len(rows)
        made = np.stack(points, axis=1) if points else np.empty((*shape, self._density.dimension))
        return Transitions(made, {
            name: np.stack([row[name] for row in rows], axis=1) if rows else np.empty(shape)
            for name in STATISTICS
        })  # fmt: skip

    def _transition(self) -> tuple[State, dict[str, NDArray]]:
        """One of every chain; the new state and its statistics, (M,) each."""
        length = QUARTER * (1 + SPREAD * (2 * ((self._made + 1) * GOLDEN % 1) - 1))
        steps = min(int(np.ceil(length / np.exp(self._log_step))), MOST_STEPS)
        step = min(length / steps, np.exp(self._log_step))
        momentum = self._rng.standard_normal(self._state.point.shape)
        tried = trajectory(self._evaluated, self._state, momentum, step, steps)
        rate = np.exp(tried.log_rate)
        accepted = self._rng.uniform(size=self.count) < rate
        return self._state.or_where(accepted, tried.end), {
            "acceptance_rate": rate,
            "step_size": np.full(self.count, step),
            "n_steps": np.full(self.count, steps),
            "diverging": tried.diverging,
            "energy": np.where(accepted, tried.after, tried.before),
        }

    def _evaluated(self, v: Array) -> tuple[Array, Array]:
        """log p̃ of v and its score; −∞ and zeros where either is not finite."""
        self.gradients += len(v)
        with np.errstate(all="ignore"):
            lp, score = self._density.log_density_gradient(v)
        self.infinite += int(np.sum(lp == np.inf))
        usable = np.isfinite(lp) & np.isfinite(score).all(axis=1)
        return np.where(usable, lp, -np.inf), np.where(usable[:, None], score, 0.0)
