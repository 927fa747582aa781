"""Stochastic training of a flow: guarded Adam with a schedule and an averaged last iterate.

The optimiser's step is one graph of updates; :mod:`.flow_loops` runs it compiled by PyTensor, or
many steps at a time inside one loop compiled by JAX. Both take the same normal draws.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorVariable

from pymc_ext.variational.flow_loops import BLOCK

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
OPTIMIZERS = ("adam", "rmsprop")


def importance_weighted_bound(log_ratio: TensorVariable, group: int) -> TensorVariable:
    """E log (1/K) Σ p̃/q over groups of K draws; K = 1 is the ELBO (Burda et al. 2016)."""
    if group == 1:
        return log_ratio.mean()
    return (pt.logsumexp(log_ratio.reshape((-1, group)), axis=1) - np.log(group)).mean()


@dataclass
class GuardedOptimizer:
    """Updates that skip a step whose loss or gradient is not finite, and keep an average.

    Parameters
    ----------
    name
        ``"adam"`` or ``"rmsprop"``.
    max_norm
        Gradients longer than this are shortened to it; None leaves them.
    """

    name: str = "adam"
    max_norm: float | None = None
    rate: Any = field(default_factory=lambda: pytensor.shared(pm.floatX(0.0), "rate"))
    weight: Any = field(default_factory=lambda: pytensor.shared(pm.floatX(1.0), "weight"))
    averages: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, loss: TensorVariable, params: Sequence[Any]) -> dict[Any, Any]:
        gradients: Any = pt.grad(loss, list(params), disconnected_inputs="ignore")
        norm: Any = pt.sqrt(sum((g**2).sum() for g in gradients))
        good = pt.lt(norm, np.inf) & pt.lt(pt.abs(loss), np.inf)  # false for NaN too
        scale: Any = 1.0 if self.max_norm is None else pt.minimum(1.0, self.max_norm / norm)
        steps = pytensor.shared(pm.floatX(0.0), "steps")
        t = steps + 1
        b1, b2 = (0.9, 0.999) if self.name == "adam" else (0.0, 0.9)
        correct1, correct2 = (1 - b1**t, 1 - b2**t) if self.name == "adam" else (1.0, 1.0)
        updates: dict[Any, Any] = {steps: pt.switch(good, t, steps)}
        for p, gradient in zip(params, gradients, strict=True):
            g = pt.switch(good, gradient * scale, 0.0)
            m, v = self._state(p), self._state(p)
            average = self.averages.setdefault(p, pytensor.shared(p.get_value()))
            m_new, v_new = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
            move = self.rate * (m_new / correct1) / (pt.sqrt(v_new / correct2) + 1e-8)
            p_new = pt.switch(good, p - move, p)
            if b1:
                updates[m] = pt.switch(good, m_new, m)
            updates[v] = pt.switch(good, v_new, v)
            updates[p] = p_new
            updates[average] = average + self.weight * (p_new - average)
        return {key: _same_type(key, value) for key, value in updates.items()}

    @staticmethod
    def _state(p: Any) -> Any:
        return pytensor.shared(np.zeros_like(p.get_value()))


def _same_type(shared: Any, value: TensorVariable) -> TensorVariable:
    return shared.type.filter_variable(value.astype(shared.type.dtype), allow_convert=True)


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
        Runs blocks of steps, see :mod:`.flow_loops`.
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
        self._start_average()
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
                i = begin + done
                warm = min(1.0, (i + 1) / WARM_UP)
                self.optimizer.rate.set_value(pm.floatX(self.learning_rate * rate(i) * warm))
                self.optimizer.weight.set_value(pm.floatX(average_weight(i - average_from)))
            losses = self.loop.run(steps)
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

    def averaged(self) -> _Averaged:
        """Context in which the parameters are the averaged ones."""
        return _Averaged({} if self.optimizer is None else self.optimizer.averages, self.loop)

    def _start_average(self) -> None:
        if self.optimizer is not None:
            self.loop.copy({a: p for p, a in self.optimizer.averages.items()})

    def finish(self) -> None:
        """Put the averaged parameters in place."""
        if self.optimizer is not None:
            self.loop.copy(self.optimizer.averages)


class _Averaged:
    def __init__(self, averages: dict[Any, Any], loop: Any) -> None:
        self.averages, self.loop = averages, loop

    def __enter__(self) -> None:
        self.kept = {p: p.get_value() for p in self.averages}
        self.loop.copy(self.averages)

    def __exit__(self, *_: Any) -> None:
        for p, value in self.kept.items():
            p.set_value(value)


def _cosine(share: float) -> float:
    return FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + np.cos(np.pi * min(share, 1.0)))
