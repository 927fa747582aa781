"""Chains of a sampler, each in a thread of its own, that start and end together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

from pymc_ext.interrupts import Interrupts
from pymc_ext.sampling.protocol import STATISTICS, Chain
from pymc_ext.sampling.protocol import Transitions as OfOne
from pymc_ext.sampling.transitions import Transitions

Answer = TypeVar("Answer")
LOOK = 0.1  # seconds between looks at what a warm-up has spent: a choice, its cost is nothing


class Threads:
    """Several chains at once; see `pymc_ext.sampling.protocol.Source`.

    Parameters
    ----------
    chains
        Each runs in a thread of its own.
    interrupts
        Notes Ctrl-C, which Python may have raised where nobody hears it, as in a ``__del__``.
    share
        What is called with them after the warm-up.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        interrupts: Interrupts | None = None,
        share: Callable[[Sequence[Chain]], None] | None = None,
    ) -> None:
        self.chains, self.interrupts, self._share = list(chains), interrupts, share
        self.interrupted = False

    @property
    def count(self) -> int:
        """Of chains."""
        return len(self.chains)

    @property
    def gradients(self) -> int:
        """Of all chains, with warm-up."""
        return sum(chain.gradients for chain in self.chains)

    @property
    def infinite(self) -> int:
        """Points tried so far where log p̃ is +∞."""
        return sum(chain.infinite for chain in self.chains)

    def warm_up(self, budget: float) -> Transitions:
        """Let every chain adapt; where that takes more gradients than ``budget`` it ends early."""
        made = _stacked(self._together(lambda chain: chain.warm_up(), budget))
        if self._share is not None and not self.interrupted:
            self._share(self.chains)
        return made

    def draw(self, iterations: int) -> Transitions:
        """The next states; where Ctrl-C ends them, as many as every chain has made."""
        return _stacked(self._together(lambda chain: chain.draw(iterations)))

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


def _stacked(blocks: Sequence[OfOne]) -> Transitions:
    """Of all chains, as many of each as every one has made."""
    made = min(len(block.points) for block in blocks)
    return Transitions(
        np.stack([block.points[:made] for block in blocks]),
        {
            name: np.stack([block.statistics[name][:made] for block in blocks])
            for name in STATISTICS
        },
    )
