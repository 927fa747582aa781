"""Several chains at once, block by block, with all that they have drawn since their warm-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density, TransportMap
from pymc_ext.density.protocol import labels_of, spoken_names
from pymc_ext.maths.types import Array
from pymc_ext.sampling.diagnostics import Diagnostics
from pymc_ext.sampling.protocol import Source
from pymc_ext.sampling.quantities import scalars

# Transitions at the end of a warm-up whose trajectories are as long as those after it: a choice,
# few enough that steps are settled there.
LAST = 10
Constrain = Callable[[Array], Mapping[str, NDArray]]  # θ (N, D) -> values by name, (N, *shape)
Fold = Callable[[Array], Array]  # θ (N, D) -> images of the same density, (N, D)


class Chains:
    """Chains in one set of coordinates, and their draws.

    Parameters
    ----------
    source
        What draws.
    density
        log p̃ of θ.
    transport
        θ = T(v) where the chains are in v.
    constrain
        What else must have its ESS: values of θ by name.
    fold
        Puts draws into one of the orders of labels that log p̃ does not tell apart; they are kept
        and judged so.
    """

    def __init__(
        self,
        source: Source,
        density: Density,
        transport: TransportMap | None = None,
        constrain: Constrain | None = None,
        fold: Fold | None = None,
    ) -> None:
        self.source, self.density, self.transport = source, density, transport
        self.constrain, self.fold = constrain, fold
        self.warm_up_infinite = self.warm_up_gradients = 0
        self.steps = 1.0  # steps: mean of the last transitions
        D, M = int(density.dimension), source.count
        self.points, self.theta = np.empty((M, 0, D)), np.empty((M, 0, D))
        self.lp = np.empty((M, 0))
        self.statistics: dict[str, NDArray] = {}
        self.names = spoken_names(density)
        self._derived: dict[str, Array] = {}
        self._judged: Diagnostics | None = None
        self._watched: frozenset[str] | None = None

    @property
    def count(self) -> int:
        """Of chains."""
        return self.source.count

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended them."""
        return self.source.interrupted

    @property
    def gradients(self) -> int:
        """Of all chains, with warm-up."""
        return self.source.gradients

    @property
    def infinite(self) -> int:
        """Points where log p̃ is +∞ that were tried after the warm-up, whose first steps may go
        where numbers overflow."""
        return self.source.infinite - self.warm_up_infinite

    @property
    def draws(self) -> int:
        """Of each chain, after warm-up."""
        return self.points.shape[1]

    def warm_up(self, budget: float) -> None:
        """Let every chain adapt; where that takes more gradients than ``budget`` it ends early."""
        made = self.source.warm_up(budget)
        self.warm_up_gradients, self.warm_up_infinite = self.gradients, self.source.infinite
        steps = made.statistics["n_steps"][:, -LAST:]
        self.steps = max(float(steps.mean()), 1.0) if steps.size else 1.0

    def extend(self, draws: int) -> None:
        """``draws`` more of each; where Ctrl-C ends them, as many as every chain has made."""
        block = self.source.draw(draws)
        new = block.points
        if not new.shape[1]:
            return
        flat = new.reshape(-1, new.shape[-1])
        theta = flat if self.transport is None else self.transport.forward(flat)[0]
        theta = theta if self.fold is None else self.fold(theta)
        lp = self.density.log_density(theta)
        derived = {} if self.constrain is None else scalars(self.constrain(theta), new.shape[:2])
        self._judged = None
        self.points = np.concatenate([self.points, new], axis=1)
        self.theta = np.concatenate([self.theta, theta.reshape(new.shape)], axis=1)
        self.lp = np.concatenate([self.lp, lp.reshape(new.shape[:2])], axis=1)
        self._append(self.statistics, block.statistics)
        self._append(self._derived, derived)
        self.steps = max(float(block.statistics["n_steps"].mean()), 1.0)

    @staticmethod
    def _append(kept: dict[str, NDArray], new: Mapping[str, NDArray]) -> None:
        for name, values in new.items():
            kept[name] = np.concatenate([kept[name], values], axis=1) if name in kept else values

    def diagnostics(self) -> Diagnostics:
        """Of all draws so far."""
        if self._judged is None:
            self._judged = self._diagnostics()
        return self._judged

    def progress(self, ess: float) -> Diagnostics:
        """Of all draws so far: of every quantity, or of those that were the worst of the last
        judgement of all, while these alone have not enough."""
        if self._judged is None and self._watched is not None:
            found = self._diagnostics(self._watched)
            if not found.enough(ess):
                return found
        found = self.diagnostics()
        self._watched = found.worst
        return found

    def _diagnostics(self, only: frozenset[str] | None = None) -> Diagnostics:
        return Diagnostics.of_draws(
            self.theta, self.lp, self.names, self._derived, self.statistics, only,
            labels_of(self.density),
        )  # fmt: skip

    def close(self) -> None:
        """No further draws are wanted."""
        self.source.close()
