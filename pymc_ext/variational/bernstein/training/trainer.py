"""One training phase of a flow: schedule, plateau test, average of the last iterates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.training.loops import BLOCK, Loop
from pymc_ext.variational.bernstein.training.schedule import (
    DECAY,
    FEWEST,
    GRAIN,
    MOST_CHECKS,
    STEADY,
    WARM_UP,
    Plateau,
    average_weight,
    cosine,
)
from pymc_ext.variational.core.course import LEAST_GAIN
from pymc_ext.variational.core.steps import NonFiniteError


def all_done(n: int) -> str:
    """Why a training ended that was to go on."""
    return f"all {n} steps done before the ELBO levelled off: raise n"


@dataclass
class Trainer:
    """One training phase: full rate until the ELBO is level, then a cosine decay and an average.

    Parameters
    ----------
    loop
        Runs blocks of steps, see :mod:`.loops`.
    learning_rate
        Of the full-rate phase; None where the user's own optimiser takes every step (no schedule
        then, no average).
    estimate
        log p̃ − log q at draws of q never trained on, at the present parameters; None where log p̃
        is noisy, the training losses serve then.
    after_steps
        Called with the losses of each block, or of each step where ``stride`` is 1.
    log_ratios
        As ``estimate``, to say how many draws have no density where no loss is finite; None where
        that is not known.
    of_batches
        Whether each loss is of other rows: their noise hides what the ELBO still gains, and all
        steps are taken.
    """

    loop: Loop
    learning_rate: float | None
    estimate: Callable[[], Array] | None
    after_steps: Callable[[Array], None] = lambda losses: None
    stride: int | None = None
    of_batches: bool = False
    log_ratios: Callable[[], Array] | None = None
    losses: list[float] = field(default_factory=list)

    def run(self, n: int, to_plateau: bool = True) -> tuple[bool, str]:
        """At most ``n`` steps; whether the ELBO levelled off, and why the phase ended."""
        plateau, steady = Plateau(), (int(np.ceil(STEADY * n)) if to_plateau else 0)
        every = max(steady // MOST_CHECKS, FEWEST)
        level, done = False, 0
        while done < steady and not level:
            done += self._advance(min(every, steady - done), lambda i: 1.0, done)
            level = plateau.add(self._check(every)) and not self.of_batches
        tail = min(n - done, int(np.ceil(DECAY * done))) if level else n - done
        first = done
        self.loop.average = self.loop.vector
        while done < first + tail:
            done += self._advance(
                min(every if to_plateau else tail, first + tail - done),
                lambda i: cosine((i - first) / tail),
                done,
                first,
            )
        self.finish()
        if level or not to_plateau:
            return True, f"the ELBO levelled off after {first} steps; {done} in all"
        if self.of_batches:
            return False, f"all {n} steps done; losses of batches are too noisy to tell more"
        return self._by_gain(plateau.estimates, n, n - first)

    def _by_gain(self, estimates: Sequence[Array], n: int, tail: int) -> tuple[bool, str]:
        """Whether the last ``tail`` of all ``n`` steps gained too little for more to pay, by the
        rule of blocks on a fitted base (:mod:`.depth`), and how much; estimates are those before.
        """
        if self.estimate is None or not estimates:
            return False, all_done(n)
        with np.errstate(invalid="ignore"):  # of two that are −∞
            change = self.estimate() - estimates[-1]
        gain = float(np.mean(change))
        if not np.isfinite(gain):
            return False, all_done(n)
        error = float(np.std(change)) / np.sqrt(len(change))
        why = f"the last {tail} steps gained {gain:.2g} nats"
        if tail >= FEWEST and gain <= max(error, LEAST_GAIN):
            return True, f"{why}; {n} steps in all"
        return False, f"{why}; {all_done(n)}"

    def block(self, count: int) -> None:
        """``count`` steps: half at full rate, half of a decay, at the average of which they end."""
        begin = len(self.losses)
        first, tail = begin + count // 2, count - count // 2
        self.loop.average = self.loop.vector
        self._advance(count // 2, lambda i: 1.0, begin, begin, GRAIN)
        self.loop.average = self.loop.vector
        self._advance(tail, lambda i: cosine((i - first) / tail), first, first, GRAIN)
        self.finish()

    def _advance(
        self,
        count: int,
        rate: Callable[[int], float],
        begin: int,
        average_from: int = 0,
        grain: int = BLOCK,
    ) -> int:
        """``count`` steps after ``begin`` others, whose rate changes every ``grain``."""
        done = 0
        while done < count:
            steps = min(self.stride or grain, count - done)
            i = begin + done // grain * grain  # the same steps with callbacks as without
            full = (self.learning_rate or 0.0) * rate(i) * min(1.0, (i + 1) / WARM_UP)
            losses = self.loop.run(steps, full, average_weight(i - average_from))
            if steps > 1 and not np.isfinite(losses).any():
                raise NonFiniteError(
                    f"the loss was not finite in {steps} steps in a row (steps {begin + done} to "
                    f"{begin + done + steps}): {self._undefined()}"
                )
            self.losses.extend(losses)
            self.after_steps(losses)
            done += steps
        return done

    def _undefined(self) -> str:
        """At how many draws of q log p̃ has no value, and what to do."""
        ratios = np.empty(0) if self.log_ratios is None else self.log_ratios()
        inside = int(np.isfinite(ratios).sum())
        if inside:
            return (
                f"log p̃ is −∞ or NaN at {len(ratios) - inside:,} of {len(ratios):,} draws of q, no "
                f"step takes a gradient where one of its {self.loop.draws} draws is there: the "
                "posterior has hard edges on the unconstrained space; give bounds to the "
                "parameters that have them, or a start= or a base far from the edges"
            )
        return (
            "log p̃ is −∞ or NaN at every draw of q; give start= inside the support, a base "
            "(base='laplace'), or a smaller learning_rate"
        )

    def _check(self, every: int) -> Array:
        if self.estimate is None:
            return -np.asarray(self.losses[-every:])
        with self.averaged():
            return self.estimate()

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Context in which the parameters are the averaged ones."""
        present = self.loop.vector
        self.finish()
        yield
        self.loop.vector = present

    def finish(self) -> None:
        """Put the averaged parameters in place."""
        if self.learning_rate is not None:
            self.loop.vector = self.loop.average
