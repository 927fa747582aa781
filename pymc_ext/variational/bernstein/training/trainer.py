"""Stochastic training of a flow: guarded Adam with a schedule and an averaged last iterate.

The optimiser's step is one graph of updates; :mod:`.loops` runs it compiled by PyTensor, or
many steps at a time inside one loop compiled by JAX. Both take the same normal draws.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.replace import graph_replace
from pytensor.tensor import TensorVariable

from pymc_ext.variational.bernstein.training.loops import BLOCK

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
WARM_UP = 100  # steps over which the learning rate rises
CHECKS = 20  # ELBO checks in the longest possible first phase
FEWEST = 500  # steps between two ELBO checks, at least
PATIENCE = 4  # checks without a gain after which the ELBO counts as level
STEADY = 0.7  # largest share of the steps at full learning rate, if the ELBO does not level off
DECAY = 3 / 7  # length of the decay relative to that of the first phase
FINAL_RATE = 0.01  # learning rate at the end, relative
WINDOW = 2000  # longest memory of the averaged iterate, in steps
LONGEST, MEMORY = 3.0, 0.99  # of a gradient, in running means of the norm, and their memory
TINY = 1e-30
OPTIMIZERS = ("adam", "rmsprop")


def importance_weighted_bound(log_ratio: TensorVariable, group: int) -> TensorVariable:
    """E log (1/K) Σ p̃/q over groups of K draws; K = 1 is the ELBO (Burda et al. 2016)."""
    if group == 1:
        return log_ratio.mean()
    return (pt.logsumexp(log_ratio.reshape((-1, group)), axis=1) - np.log(group)).mean()


class GuardedOptimizer:
    """A step that leaves out a loss or gradient that is not finite, and keeps an average.

    All parameters are one vector inside the step: :meth:`load` and :meth:`store` carry values
    between it and the parameters themselves.

    Parameters
    ----------
    name
        ``"adam"`` or ``"rmsprop"``.
    max_norm
        Gradients longer than this are shortened to it. None: to `LONGEST` times the running mean
        of their norms, for a few draws far out, where an exponential explodes, would otherwise fill
        Adam's second moment and stop it for a thousand steps.
    """

    def __init__(self, name: str = "adam", max_norm: float | None = None) -> None:
        self.name, self.max_norm = name, max_norm
        self.rate = pytensor.shared(pm.pytensorf.floatX(0.0), "rate")
        self.weight = pytensor.shared(pm.pytensorf.floatX(1.0), "weight")
        self.longest = pytensor.shared(pm.pytensorf.floatX(0.0), "longest")

    def __call__(
        self, loss: TensorVariable, params: Sequence[Any]
    ) -> tuple[TensorVariable, dict[Any, Any]]:
        """The loss as a function of the vector, and the updates of one step."""
        self.params = list(params)
        values = [np.asarray(p.get_value()) for p in self.params]
        self.shapes = [value.shape for value in values]
        self.ends = np.cumsum([value.size for value in values])
        self.vector, self.average = self._state("vector"), self._state("average")
        self.load()
        self.restart_average()
        pieces = [self.vector[a:b].reshape(shape) for a, b, shape in self._spans()]
        replacements = dict(zip(self.params, pieces, strict=True))
        of_vector: Any = graph_replace(loss, replacements, strict=False)
        gradients: Any = pt.grad(of_vector, pieces, disconnected_inputs="ignore")
        gradient = pt.concatenate([g.ravel() for g in gradients]).astype(self.vector.dtype)
        return of_vector, self._updates(of_vector, gradient)

    def _updates(self, loss: TensorVariable, gradient: TensorVariable) -> dict[Any, Any]:
        norm: Any = pt.sqrt((gradient**2).sum())
        good = pt.lt(norm, np.inf) & pt.lt(pt.abs(loss), np.inf)  # false for NaN too
        updates: dict[Any, Any] = {}
        limit: Any = self.max_norm
        if limit is None:
            limit = pt.switch(self.longest > 0, self.longest, LONGEST * norm)  # 0 before the first
            longest = limit + (1 - MEMORY) * (LONGEST * pt.minimum(norm, limit) - limit)
            updates[self.longest] = pt.switch(good, longest, self.longest)
        scale: Any = pt.minimum(1.0, limit / pt.maximum(norm, TINY))
        g = pt.switch(good, gradient * scale, 0.0)
        adam = self.name == "adam"
        b1, b2 = (0.9, 0.999) if adam else (0.0, 0.9)
        p, v = self.vector, self._state("square")
        v_new = b2 * v + (1 - b2) * g**2
        updates[v] = pt.switch(good, v_new, v)
        move, size = self.rate * g, pt.sqrt(v_new)
        if adam:
            m, steps = self._state("momentum"), pytensor.shared(pm.pytensorf.floatX(0.0), "steps")
            t = steps + 1
            m_new = b1 * m + (1 - b1) * g
            move, size = self.rate / (1 - b1**t) * m_new, size / pt.sqrt(1 - b2**t)
            updates |= {m: pt.switch(good, m_new, m), steps: pt.switch(good, t, steps)}
        p_new = pt.switch(good, p - move / (size + 1e-8), p)
        updates |= {p: p_new, self.average: self.average + self.weight * (p_new - self.average)}
        return {
            key: key.type.filter_variable(value.astype(key.type.dtype), allow_convert=True)
            for key, value in updates.items()
        }

    def _state(self, name: str) -> Any:
        zeros = np.zeros(self.ends[-1], dtype=pytensor.config.floatX)
        return pytensor.shared(zeros, name, shape=zeros.shape)

    def _spans(self) -> list[tuple[int, int, tuple[int, ...]]]:
        begins = [0, *self.ends[:-1]]
        return [
            (int(a), int(b), shape)
            for a, b, shape in zip(begins, self.ends, self.shapes, strict=True)
        ]

    def load(self) -> None:
        """Parameters into the vector."""
        values = [np.ravel(p.get_value()) for p in self.params]
        self.vector.set_value(np.concatenate(values).astype(self.vector.dtype))

    def store(self, averaged: bool = False) -> None:
        """The vector, or its average, into the parameters."""
        values = (self.average if averaged else self.vector).get_value(borrow=True)
        for p, (a, b, shape) in zip(self.params, self._spans(), strict=True):
            p.set_value(values[a:b].reshape(shape).astype(p.dtype))

    def restart_average(self) -> None:
        """Begin the average anew, at the present vector."""
        self.average.set_value(self.vector.get_value())


def average_weight(steps: int) -> float:
    """Weight of a new iterate in an average that started ``steps`` steps ago."""
    return 1 / min(steps + 1, WINDOW)


class Plateau:
    """Tells when a rising sequence of noisy means has levelled off.

    Each estimate is an array of the same length, the mean of which counts; entry i of two estimates
    may share its randomness, which makes their difference more exact.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self.patience = patience
        self.estimates: list[Array] = []

    def add(self, values: Array) -> bool:
        """Record one estimate; True once the last ``patience`` ones bring no significant gain."""
        self.estimates.append(np.asarray(values, dtype=float))
        if len(self.estimates) <= self.patience or not np.isfinite(values).all():
            return False
        old, new = self.estimates[: -self.patience], self.estimates[-self.patience :]
        gain = np.mean(new, axis=0) - max(old, key=np.mean)
        if not np.isfinite(gain).all():
            return False
        return bool(np.mean(gain) < np.std(gain) / np.sqrt(len(gain)))


class NonFiniteError(FloatingPointError):
    """Every step of a block had a non-finite loss or gradient."""


@dataclass
class Trainer:
    """One training phase: full rate until the ELBO is level, then a cosine decay and an average.

    Parameters
    ----------
    loop
        Runs blocks of steps, see :mod:`.loops`.
    optimizer
        Ours, or None where the user's own takes every step (no schedule then, no average).
    learning_rate
        Of the full-rate phase.
    estimate
        log p̃ − log q at draws of q never trained on, at the present parameters; None where log p̃
        is noisy, the training losses serve then.
    after_steps
        Called with the losses of each block, or of each step where ``stride`` is 1.
    """

    loop: Any
    optimizer: GuardedOptimizer | None
    learning_rate: float
    estimate: Callable[[], Array] | None
    after_steps: Callable[[Array], None] = lambda losses: None
    stride: int | None = None
    losses: list[float] = field(default_factory=list)
    evaluations: int = 0

    def run(self, n: int, to_plateau: bool = True) -> tuple[bool, str]:
        """At most ``n`` steps; whether the ELBO levelled off, and why the phase ended."""
        plateau, steady = Plateau(), (int(np.ceil(STEADY * n)) if to_plateau else 0)
        every = max(steady // CHECKS, FEWEST)
        level, done = False, 0
        while done < steady and not level:
            done += self._advance(min(every, steady - done), lambda i: 1.0, done)
            level = plateau.add(self._check(every))
        tail = min(n - done, int(np.ceil(DECAY * done))) if level else n - done
        first = done
        if self.optimizer is not None:
            self.optimizer.restart_average()
        while done < first + tail:
            done += self._advance(
                min(every if to_plateau else tail, first + tail - done),
                lambda i: _cosine((i - first) / tail),
                done,
                first,
            )
        self.finish()
        if level or not to_plateau:
            return True, f"the ELBO levelled off after {first} steps; {done} in all"
        return False, f"all {n} steps done before the ELBO levelled off: raise n"

    def _advance(
        self, count: int, rate: Callable[[int], float], begin: int, average_from: int = 0
    ) -> int:
        done = 0
        while done < count:
            steps = min(self.stride or BLOCK, count - done)
            if self.optimizer is not None:
                i = begin + done // BLOCK * BLOCK  # the same steps with callbacks as without
                warm = min(1.0, (i + 1) / WARM_UP)
                self.optimizer.rate.set_value(
                    pm.pytensorf.floatX(self.learning_rate * rate(i) * warm)
                )
                self.optimizer.weight.set_value(
                    pm.pytensorf.floatX(average_weight(i - average_from))
                )
                self.optimizer.load()
            losses = self.loop.run(steps)
            if self.optimizer is not None:
                self.optimizer.store()
            if steps > 1 and not np.isfinite(losses).any():
                raise NonFiniteError(
                    f"the loss was not finite in {steps} steps in a row (steps {begin + done} to "
                    f"{begin + done + steps}): log p̃ is −∞ or NaN at every draw of q; give start= "
                    "inside the support, a base (base='laplace'), or a smaller learning_rate"
                )
            self.losses.extend(losses)
            self.evaluations += steps * self.loop.draws
            self.after_steps(losses)
            done += steps
        return done

    def _check(self, every: int) -> Array:
        if self.estimate is None:
            return -np.asarray(self.losses[-every:])
        with self.averaged():
            return self.estimate()

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Context in which the parameters are the averaged ones."""
        self.finish()
        yield
        if self.optimizer is not None:
            self.optimizer.store()

    def finish(self) -> None:
        """Put the averaged parameters in place."""
        if self.optimizer is not None:
            self.optimizer.store(averaged=True)


def _cosine(share: float) -> float:
    return FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + np.cos(np.pi * min(share, 1.0)))
