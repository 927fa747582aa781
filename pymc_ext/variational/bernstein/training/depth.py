"""How long a flow on a fitted base is trained: in blocks that double until another does not pay.

A base that is nearly right leaves nothing to gain, and no step is taken. Else blocks of steps are
judged by the same draws, which no step has seen, as those of the base's own training
(:mod:`pymc_ext.variational.core.course`, whose thresholds these are). A flow is wanted for its
density, which importance weights do not mend: it is no end that they would be cheaper, nor that a
block closes a small share of what is left. A logistic regression of 61 weights gains .03 of .57
nats in the first 500 steps, and .13 in 20,000; a Brownian motion of 32 places .06 of .43, and .25.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.training.trainer import Trainer, all_done
from pymc_ext.variational.core.course import LEAST_GAIN, Candidate
from pymc_ext.variational.core.steps import NonFiniteError

# Steps of the first block: the rate takes 100 to rise, and the second half is averaged. On 8 of
# posteriordb's posteriors it closes a third to nine tenths of what the base leaves, or shows that
# it cannot.
FIRST_BLOCK = 250
# Nats left to gain, ten times what pays at least, from which one block that gains too little is no
# end: of one_comp_mm_elim_abs the blocks of 250 or 500 steps gain .003, the next ones .02 or .03.
MUCH = 10 * LEAST_GAIN
# Coordinates up to which steps take the full rate. Their noise in log q grows as the rate times the
# root of the number of weights, which is as D²: at .005 a first block on the map of 88 coordinates
# (radon) lost .9 nats, at a ninth of that three blocks gained .013 of the .02 that were missing.
FULL_RATE = 10


def share_of_rate(dimension: int) -> float:
    """Of the learning rate, what steps from a base take that is nearly right already."""
    return min(1.0, FULL_RATE / dimension)


@dataclass
class Depth:
    """The training of a flow on its base.

    Parameters
    ----------
    trainer
        Takes the steps.
    density
        What is approximated, exactly known.
    z
        Normals behind the judging draws, mirrored pairs, (N, K).
    """

    trainer: Trainer
    density: CountedDensity
    z: Array

    def __post_init__(self) -> None:
        self.best: Candidate[BernsteinFlow] | None = None
        self.last: Candidate[BernsteinFlow] | None = None

    def candidate(self, x: Array) -> Candidate[BernsteinFlow]:
        """The flow with parameters x (P,), on the judging draws."""
        flow = deepcopy(self.trainer.loop.flow)
        flow.set(x)
        return Candidate.on(flow, self.density, self.z)

    def run(self, budget: int, starts: Iterable[Array]) -> tuple[bool, str]:
        """At most ``budget`` steps from where the loop is; whether no more would pay, and why.

        Steps in vain on a base that leaves much to gain are no end of that kind, nor is a loss that
        is not finite.

        The best flow is put in place, one of the vectors ``starts`` (P,) among them: the base, as
        the flow that changes nothing, and what an earlier training left.
        """
        base: Candidate[BernsteinFlow] | None = None
        for x in starts:
            self._offer(x)
            base = base or self.best
        assert self.best is not None and base is not None
        done, misses, ran_away = 0, 0, False
        why = f"the base leaves {self.best.gap:.2g} nats to gain"
        while self.best.gap > LEAST_GAIN:
            if done >= budget:
                self.settle()
                return False, f"{why}; {all_done(budget)}"
            count = min(done or FIRST_BLOCK, budget - done)
            try:
                self.trainer.block(count)
            except NonFiniteError as error:
                why, ran_away = str(error), True
                break
            done += count
            before, (gain, of_gain) = self.last, self._offer(self.trainer.loop.vector)
            paid = gain > max(of_gain, LEAST_GAIN)
            # the first block also has to make up for what an untrained flow lacks of its base
            another = done == count or self.best.gap > MUCH
            misses = 0 if paid else misses + 1
            why = f"the last {count} steps gained {gain:.2g} nats"
            if misses > another and not self._comes_back(before):
                break
        self.settle()
        gain, of_gain = self.best.gain_by_weights(base)
        in_vain = self.best.gap > MUCH and not gain > max(of_gain, LEAST_GAIN)
        return not (in_vain or ran_away), f"{why}; {done} steps in all"

    def _offer(self, x: Array) -> tuple[float, float]:
        """Judge the flow of x (P,), keep it where it is better by more than the error: both."""
        candidate = self.last = self.candidate(x)
        if self.best is None:
            self.best = candidate
            return 0.0, 0.0
        gain, error = candidate.gain_by_weights(self.best)
        if gain > error:
            self.best = candidate
        return gain, error

    def _comes_back(self, before: Candidate[BernsteinFlow] | None) -> bool:
        """Whether the last block raised the flow by so much that the next one, of twice as many
        steps, takes it past the best.

        Where the base has draws far out in a tail, first steps may lose much there: a saturating
        curve .29 nats and 5.8, of which the second block made up .21 and 2.1, and later ones
        more than all.
        """
        assert self.best is not None and self.last is not None and before is not None
        risen, _ = self.last.gain_by_weights(before)
        behind, _ = self.best.gain_by_weights(self.last)
        return risen > LEAST_GAIN and behind < 2 * risen

    def settle(self, stopped: bool = False) -> None:
        """Put the best flow in place, which may be what steps that were stopped have reached."""
        if stopped:
            self._offer(self.trainer.loop.vector)
        assert self.best is not None
        self.trainer.loop.vector = self.best.q.x
