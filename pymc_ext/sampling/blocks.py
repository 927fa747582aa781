"""Several chains at once, block by block, with all that they have drawn since their warm-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density, TransportMap
from pymc_ext.density.protocol import labels_of, spoken_names
from pymc_ext.interrupts import Interrupts
from pymc_ext.maths.types import Array
from pymc_ext.sampling.diagnostics import Diagnostics
from pymc_ext.sampling.protocol import STATISTICS, Chain, Transitions
from pymc_ext.sampling.quantities import scalars

Answer = TypeVar("Answer")
LOOK = 0.1  # seconds between looks at what a warm-up has spent: a choice, its cost is nothing
# Transitions at the end of a warm-up whose trajectories are as long as those after it: a choice,
# few enough that steps are settled there.
LAST = 10
Constrain = Callable[[Array], Mapping[str, NDArray]]  # θ (N, D) -> values by name, (N, *shape)
Fold = Callable[[Array], Array]  # θ (N, D) -> images of the same density, (N, D)


class Chains:
    """Chains in one set of coordinates, and their draws.

    Parameters
    ----------
    chains
        Each in a thread of its own.
    density
        log p̃ of θ.
    transport
        θ = T(v) where the chains are in v.
    constrain
        What else must have its ESS: values of θ by name.
    interrupts
        Notes Ctrl-C, which Python may have raised where nobody hears it, as in a ``__del__``.
    fold
        Puts draws into one of the orders of labels that log p̃ does not tell apart; they are kept
        and judged so.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        density: Density,
        transport: TransportMap | None = None,
        constrain: Constrain | None = None,
        interrupts: Interrupts | None = None,
        fold: Fold | None = None,
    ) -> None:
        self.chains, self.density, self.transport = list(chains), density, transport
        self.constrain, self.interrupts, self.fold = constrain, interrupts, fold
        self.interrupted = False
        self.warm_up_infinite = self.warm_up_gradients = 0
        self.steps = 1.0  # steps: mean of the last transitions
        D, M = int(density.dimension), len(self.chains)
        self.points, self.theta = np.empty((M, 0, D)), np.empty((M, 0, D))
        self.lp = np.empty((M, 0))
        self.statistics: dict[str, NDArray] = {}
        self.names = spoken_names(density)
        self._derived: dict[str, Array] = {}
        self._judged: Diagnostics | None = None
        self._watched: frozenset[str] | None = None

    @property
    def gradients(self) -> int:
        """Of all chains, with warm-up."""
        return sum(chain.gradients for chain in self.chains)

    @property
    def infinite(self) -> int:
        """Points where log p̃ is +∞ that were tried after the warm-up, whose first steps may go
        where numbers overflow."""
        return self._infinite - self.warm_up_infinite

    @property
    def _infinite(self) -> int:
        return sum(chain.infinite for chain in self.chains)

    @property
    def draws(self) -> int:
        """Of each chain, after warm-up."""
        return self.points.shape[1]

    def warm_up(self, budget: float) -> None:
        """Let every chain adapt; where that takes more gradients than ``budget`` it ends early."""
        made = self._together(lambda chain: chain.warm_up(), budget)
        self.warm_up_gradients, self.warm_up_infinite = self.gradients, self._infinite
        steps = np.concatenate([t.statistics["n_steps"][-LAST:] for t in made])
        self.steps = max(float(steps.mean()), 1.0) if len(steps) else 1.0

    def extend(self, draws: int) -> None:
        """``draws`` more of each; where Ctrl-C ends them, as many as every chain has made."""
        blocks: list[Transitions] = self._together(lambda chain: chain.draw(draws))
        made = min(len(block.points) for block in blocks)
        if not made:
            return
        new = np.stack([block.points[:made] for block in blocks])
        flat = new.reshape(-1, new.shape[-1])
        theta = flat if self.transport is None else self.transport.forward(flat)[0]
        theta = theta if self.fold is None else self.fold(theta)
        lp = self.density.log_density(theta)
        derived = {} if self.constrain is None else scalars(self.constrain(theta), new.shape[:2])
        self._judged = None
        self.points = np.concatenate([self.points, new], axis=1)
        self.theta = np.concatenate([self.theta, theta.reshape(new.shape)], axis=1)
        self.lp = np.concatenate([self.lp, lp.reshape(new.shape[:2])], axis=1)
        self._append(self.statistics, {
            name: np.stack([block.statistics[name][:made] for block in blocks])
            for name in STATISTICS
        })  # fmt: skip
        self._append(self._derived, derived)
        self.steps = max(float(self.statistics["n_steps"][:, -made:].mean()), 1.0)

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
        for chain in self.chains:
            chain.close()

    def _together(self, call: Callable[[Chain], Answer], budget: float = np.inf) -> list[Answer]:
        """``call`` of all chains at once.

        Ctrl-C stops them, and what they have made comes back. So does the budget of a warm-up:
        when it is seen depends on time, whether it is passed does not, and then nothing is drawn.
        """
        with ThreadPoolExecutor(len(self.chains)) as pool:
            futures = [pool.submit(call, chain) for chain in self.chains]
            try:
                self._wait(futures, budget)
                return [future.result() for future in futures]
            except KeyboardInterrupt:
                self.interrupted = True
                self._stop()
                return [future.result() for future in futures]
            except BaseException:
                self._stop()
                raise

    def _wait(self, futures: Sequence[Future[Answer]], budget: float) -> None:
        """Until all are done, one has failed, or the chains have spent their budget."""
        done: set[Future[Answer]] = set()
        while len(done) < len(futures) and not any(future.exception() for future in done):
            done = wait(futures, LOOK, FIRST_EXCEPTION).done
            if self.interrupts is not None and self.interrupts.seen:
                raise KeyboardInterrupt
            if self.gradients > budget:
                return self._stop()

    def _stop(self) -> None:
        for chain in self.chains:
            chain.stop()
