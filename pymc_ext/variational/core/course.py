"""A fit in blocks of steps that double until another block no longer pays.

What is kept is the average of the iterates of the last block, judged on draws that no step has
seen: the same for every candidate, so that small gains are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.monitor import STOPPED, FitStopped, Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.weights import effective_draws

Q = TypeVar("Q", bound=Posterior, covariant=True)
# Nats of ELBO below which a gain never pays: 4,096 draws know the ELBO of a q with ESS/N .99 to it.
LEAST_GAIN = 0.002
# A doubling that closes less of what is missing to log Z than this share does not pay either: the
# next doubling would close less still, and weights or a sampler are cheaper by then.
LEAST_SHARE = 0.1
# Nats to log Z, known by weights, below which a fit has converged though its last block paid: all
# that others could gain is less, and of one mean a third of an sd.
NEARLY = 0.05
MUCH = 1.0  # nats: after such a gain nothing has converged, however small a share it is of the rest
# Relative ESS below which a block that does not pay may be a bad draw: one more is tried.
POOR = 0.5
# Effective draws that anyone asks of a fit, enough for 0.1 % quantiles. At a relative ESS e they
# take 100,000/e values of log p̃, so that a block of more scores than 100,000 (1/e − 1) cannot save
# what it costs.
DRAWS_WANTED = 100_000
# Steps of the longest block: NUTS in the coordinates of what has been found by then has 400
# effective draws for as many scores, and ends exact.
LONGEST_BLOCK = 80
LEAST_INSIDE = 0.9  # of the draws: q restricted to fewer is known too poorly to be compared
# Values by which candidates are compared: paired, they know a gain of .002 nats.
JUDGING_DRAWS = 500


@dataclass(frozen=True)
class Candidate(Generic[Q]):
    """A q with log p̃ − log q of the judging draws, (N,); −inf where p̃ has no density.

    A q with few draws beyond a hard edge has an ELBO of −∞, and is better than one that fits ill
    and has none there: candidates are compared by the ELBO of q restricted to where p̃ has a
    density, which is a law too, unless that is too small a part of q to know it by.
    """

    q: Q
    log_ratios: Array

    @classmethod
    def on(cls, q: Q, density: CountedDensity, z: Array) -> Candidate[Q]:  # type: ignore[misc]
        """q on the draws of normals z (N, K); where it overflows at any of them its ELBO is −∞."""
        with np.errstate(all="ignore"):
            theta, log_q = q.forward(z)
            log_ratios = density.log_density(theta) - log_q
        usable = np.isfinite(log_ratios) & np.isfinite(theta).all()
        return cls(q, np.where(usable, log_ratios, -np.inf))

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Draws where p̃ has a density, (N,)."""
        return np.isfinite(self.log_ratios)

    @cached_property
    def elbo(self) -> float:
        """ELBO of q restricted to where p̃ has a density, nats; −∞ where many draws have none."""
        if np.mean(self.inside) < LEAST_INSIDE:
            return -np.inf
        return float(np.mean(self.log_ratios[self.inside]) + np.log(np.mean(self.inside)))

    @cached_property
    def gap(self) -> float:
        """Importance-sampling estimate of log Z − ELBO, nats; infinite where the ELBO is −∞."""
        if not np.isfinite(self.elbo):
            return np.inf
        return float(logsumexp(self.log_ratios) - np.log(len(self.log_ratios)) - self.elbo)

    @cached_property
    def relative_ess(self) -> float:
        """(Σw)²/(N Σw²) of the importance weights."""
        return effective_draws(self.log_ratios) / max(len(self.log_ratios), 1)

    @property
    def is_nearly_right(self) -> bool:
        """Whether hardly anything is missing to log Z, and weights know that."""
        return self.relative_ess >= POOR and self.gap < NEARLY

    def gain_over(self, other: Candidate[Posterior]) -> tuple[float, float]:
        """ELBO above the other's on the same draws, and its standard error."""
        if not (np.isfinite(self.elbo) and np.isfinite(other.elbo)):
            finite = np.isfinite(self.elbo), np.isfinite(other.elbo)
            return {(True, False): np.inf, (False, True): -np.inf}.get(finite, 0.0), 0.0
        pairs = (self.inside & other.inside).reshape(2, -1).all(axis=0)
        ours, theirs = (c.log_ratios.reshape(2, -1)[:, pairs] for c in (self, other))
        means = np.mean(ours - theirs, axis=0)  # of mirrored pairs, which are what is independent
        error = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else np.inf
        return self.elbo - other.elbo, error

    def gain_by_weights(self, other: Candidate[Posterior]) -> tuple[float, float]:
        r"""The same, known more exactly where the weights of both know log Z.

        log Z − ELBO falls by as much as the ELBO rises, and its estimate
        :math:`\log \bar w - \overline{\log w}` varies with the squares of the log ratios, by
        w/w̄ − 1 − (log w − mean of log w) a draw, where the ELBO's varies with them. Where ESS/N of
        either is below `POOR`, or draws have no density, it is :meth:`gain_over`.
        """
        if min(self.relative_ess, other.relative_ess) < POOR or not (
            self.inside.all() and other.inside.all()
        ):
            return self.gain_over(other)
        change = (other.influence - self.influence).reshape(2, -1).mean(axis=0)
        error = float(change.std(ddof=1) / np.sqrt(len(change))) if len(change) > 1 else np.inf
        return other.gap - self.gap, error

    @property
    def influence(self) -> Array:
        """Of each draw on the estimate of log Z − ELBO, to first order, (N,)."""
        of_mean = self.log_ratios - logsumexp(self.log_ratios) + np.log(len(self.log_ratios))
        return np.expm1(of_mean) - (self.log_ratios - np.mean(self.log_ratios))

    def beats(self, other: Candidate[Posterior]) -> bool:
        """Whether the ELBO is higher by more than its error."""
        gain, error = self.gain_over(other)
        return gain > error


class Course(Generic[Q]):
    """A fit under way: steps left, the best q so far, and whoever watches.

    Parameters
    ----------
    density
        What is approximated.
    z
        Normals behind the judging draws, mirrored pairs, (N, D).
    steps
        At most so many.
    monitor
        Told of every step.
    longest_block
        Steps of the longest block.
    """

    def __init__(
        self,
        density: CountedDensity,
        z: Array,
        steps: int,
        monitor: Monitor,
        longest_block: int = LONGEST_BLOCK,
    ) -> None:
        self.density, self.z, self.steps_left, self.monitor = density, z, steps, monitor
        self.longest_block = longest_block
        self.best: Candidate[Q] | None = None

    def candidate(self, q: Q) -> Candidate[Q]:  # type: ignore[misc]  # q comes in and goes out
        """q on the judging draws."""
        return Candidate.on(q, self.density, self.z)

    def offer(self, q: Q) -> Candidate[Q]:  # type: ignore[misc]
        """Judge q, and keep it where its ELBO is not below the best one's."""
        return self.keep(self.candidate(q))

    def keep(self, candidate: Candidate[Q]) -> Candidate[Q]:
        """One that was judged, where its ELBO is not below the best one's."""
        if self.best is None or candidate.elbo >= self.best.elbo:
            self.best = candidate
        return candidate

    def settled(self, last: Candidate[Q]) -> Candidate[Q]:
        """What a fit hands back that ends at ``last``: that, or the q of the highest ELBO so far.

        The highest of many ELBOs is often the noisiest. Where both q's weights know log Z they are
        compared by log Z − ELBO of their own draws, of which that noise is no part.
        """
        best = self.best
        if best is None or best is last:
            return last
        if min(best.relative_ess, last.relative_ess) < POOR:
            return best if best.beats(last) else last
        return best if best.gap < last.gap else last

    def block_pays(self, candidate: Candidate[Posterior], steps: int, draws: int) -> bool:
        """Whether so many steps can save more evaluations than they cost, see `DRAWS_WANTED`."""
        saved = DRAWS_WANTED * (1 - candidate.relative_ess)
        return steps * draws * candidate.relative_ess <= saved

    def step(self, loss: float, q: Callable[[], Q]) -> None:
        """One step was taken, after which q is ``q()``. Raises FitStopped where it was the last."""
        self.steps_left -= 1
        try:
            self.monitor(loss, q)
        except StopIteration as stop:
            raise FitStopped(str(stop) or STOPPED) from None
        if self.steps_left <= 0:
            raise FitStopped("the iterations are used up")


@dataclass(frozen=True)
class Ended(Generic[Q]):
    """How blocks of steps ended: the best q judged, the last gain with its error, and why.

    ``paid`` where the last block did, so that another may: a larger family promised more, or the
    longest block was reached.
    """

    best: Candidate[Q]
    gain: float
    error: float
    why: str
    paid: bool = False

    @property
    def at_rest(self) -> bool:
        """Whether q has converged: the last block neither paid nor gained a nat or its error, or
        nothing is left to gain."""
        if self.paid and not self.best.is_nearly_right:
            return False
        return self.gain <= max(self.error, MUCH)


class Averaged(ABC, Generic[Q]):
    """Noisy steps on some arrays, whose running average makes a q.

    ``draws`` scores are asked for in one step.
    """

    draws: int

    def __init__(self) -> None:
        self.steps = self.since_restart = 0  # taken in all, and since step sizes were full
        self.averaging = True  # whether a step counts in the average
        self._sums: list[Array] | None = None
        self._count = 0

    @abstractmethod
    def advance(self) -> float:
        """Take one step; return the mean of −log p̃/q of its draws, nats."""

    @abstractmethod
    def parameters(self) -> tuple[Array, ...]:
        """The arrays as they are."""

    @abstractmethod
    def posterior(self, *parameters: Array) -> Q:
        """q of such arrays. Raises LinAlgError where they make none."""

    def forget_average(self) -> None:
        """Begin the average anew."""
        self._sums, self._count = None, 0

    def take(self, course: Course[Q], steps: int) -> None:
        """So many steps."""
        for _ in range(steps):
            loss = self.advance()
            self.steps += 1
            self.since_restart += 1
            if self.averaging:
                self._add(self.parameters())
            course.step(loss, lambda: self.posterior(*self.parameters()))

    def _add(self, now: tuple[Array, ...]) -> None:
        self._count += 1
        if self._sums is None:
            self._sums = [np.array(x, dtype=float) for x in now]
            return
        for total, x in zip(self._sums, now, strict=True):
            total += x

    def average(self) -> Q:
        """q at the average."""
        assert self._sums is not None
        return self.posterior(*(total / self._count for total in self._sums))


def repaired_by_weights(best: Candidate[Posterior]) -> str:
    """Why a fit ends at a q that is good enough."""
    return f"weights repair the rest for less (ESS {best.relative_ess:.2f} N)"


def block_of(steps: Averaged[Q], course: Course[Q], count: int) -> Candidate[Q]:
    """So many steps at falling rates, from full ones on, and q at the average of their second half.

    Full rates at first carry a fit further than rates that go on falling, which matters where q is
    poor; averages take back what noise they bring.
    """
    steps.since_restart = 0
    steps.forget_average()
    steps.averaging = False
    steps.take(course, count // 2)
    steps.averaging = True
    steps.take(course, count - count // 2)
    return course.offer(steps.average())


def in_doubling_blocks(
    steps: Averaged[Q],
    course: Course[Q],
    best: Candidate[Q],
    first: int,
    promised: Callable[[Candidate[Q]], float] | None = None,
) -> Ended[Q]:
    """Blocks of ``first`` steps, then as many again as were taken, while another one can pay.

    ``promised`` tells how many nats a larger family would gain, which then goes on from here.
    """
    misses = 0
    while True:
        count = steps.steps or first
        candidate = block_of(steps, course, count)
        gain, error = candidate.gain_over(best)
        least = max(LEAST_GAIN, LEAST_SHARE * best.gap)
        paid = gain > max(error, least)
        if gain > 0:
            best = candidate
        if promised is not None and promised(best) > max(gain, least):
            return Ended(best, gain, error, "a larger family promises more", paid)
        misses = 0 if paid else misses + 1
        said = f"the last {count} steps gained {gain:.2g} ± {error:.1g} nats"
        if misses > (best.relative_ess < POOR):
            return Ended(best, gain, error, said)
        if steps.steps > course.longest_block:
            return Ended(best, gain, error, f"{said}; a sampler ends the rest for less", paid)
        if not course.block_pays(best, steps.steps, steps.draws):
            return Ended(best, gain, error, repaired_by_weights(best))
