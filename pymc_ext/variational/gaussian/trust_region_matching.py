"""Batch and match inside a trust region: from a rough Gaussian to a good one, without divergence.

The plain method (see :mod:`.score_matching`) takes its weight λ = 10 B/(t + 1) from a schedule, and
on hard posteriors a single batch far out makes a covariance it never comes back from. Here λ is
halved until KL(q_new ‖ q) is within a radius that grows with every step kept and shrinks, back at
the last q kept, where the ELBO fell by more than its error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.course import LEAST_GAIN, Course
from pymc_ext.variational.ill_posed.runaway import RESCALE, RunawayError


class MatchedNormal(Protocol):
    """A Gaussian q, dense or of low rank."""

    @property
    def mean(self) -> Array:
        """(D,)."""

    @property
    def dimension(self) -> int:
        """D."""

    @property
    def latent_dimension(self) -> int:
        """D."""

    @property
    def std(self) -> Array:
        """(D,)."""

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws and log q, (N, D) -> (N, D), (N,)."""

    def narrowed(self: N, factor: float) -> N:
        """With sds divided by ``factor``."""


N = TypeVar("N", bound=MatchedNormal)
# q, draws, their scores, λ -> the match and its KL from q
Step = Callable[[N, Array, Array, float], tuple[N, float]]
SMALL = 40  # dimensions up to which a batch has 20 draws, beyond 40 (trial on 69 posteriors)
WEIGHT = 10.0  # of the match, times the batch over the step's number; served from D = 1 to 185
HALVINGS = 30  # of the weight: λ is then 1e-9 of its start, and no step at all
WIDENING, LONGEST = 1.5, 4.0  # of the radius after a kept step, and at most, in nats a dimension
NARROWING = 4.0  # of the radius after a step back, and of Σ where hardly a draw has a density
MOST_RETREATS = 30  # sds are then 1e-9 of the start's: what has no density there has none
# sds over those of the start, which a path or the user chose: of two coordinates or more, as where
# a combination alone is known, no scales are so wrong. One alone may be, an intercept in raw units
# say; beyond 1e12 a double has no digits left for what stays as it was.
RUNAWAY, RUNAWAY_ALONE = 1e6, 1e12
ERRORS = 3.0  # standard errors by which an ELBO must have fallen to step back
WINDOW = 5  # batches whose mean ELBO is compared with that of the five before


@dataclass(frozen=True)
class Estimate:
    """ELBO of a batch with its standard error, nats."""

    elbo: float
    error: float


def batch_size(dimension: int) -> int:
    """B."""
    return 20 if dimension <= SMALL else 40


class TrustRegionMatching(Generic[N]):
    """The part: its q moves with every :meth:`batch`, until the ELBO no longer rises."""

    def __init__(
        self, density: CountedDensity, q: N, rng: np.random.Generator, step: Step[N]
    ) -> None:
        self.density, self.q, self.rng, self.step = density, q, rng, step
        self.radius, self.free = max(1.0, q.dimension / 4), 0
        self.kept: tuple[N, Estimate] | None = None
        self.estimates: list[Estimate] = []
        self.retreats, self.first_std = 0, q.std

    def run(self, course: Course[N], most: int | None = None) -> N:
        """Batches until they no longer pay, at most so many."""
        while not self.rests() and (most is None or len(self.estimates) < most):
            loss = self.batch()
            self._refuse_runaway()
            course.step(loss, lambda: self.q)
        return self.q

    def rests(self) -> bool:
        """Whether the last five batches' ELBO is that of the five before, up to its error."""
        if len(self.estimates) < 2 * WINDOW:
            return False
        elbo, error = np.array([(e.elbo, e.error) for e in self.estimates[-2 * WINDOW :]]).T
        gain = elbo[WINDOW:].mean() - elbo[:WINDOW].mean()
        return bool(gain < max(np.sqrt(np.sum(error**2)) / WINDOW, LEAST_GAIN * WINDOW))

    def batch(self) -> float:
        """Draw, and step forward or back; the loss of the draws."""
        z = self.rng.standard_normal((batch_size(self.q.dimension), self.q.dimension))
        theta, log_q = self.q.forward(z)
        with np.errstate(all="ignore"):
            log_p, scores = self.density.log_density_gradient(theta)
        usable = np.isfinite(log_p) & np.isfinite(scores).all(axis=1)
        if usable.sum() < max(4, len(z) // 2):
            self._retreat()
            return np.inf
        log_ratios = (log_p - log_q)[usable]
        with np.errstate(over="ignore"):
            error = float(log_ratios.std() / np.sqrt(usable.sum()))
        if not np.isfinite(error):  # log p̃ falls to −1e154 and beyond, as of scales that collapse
            self._retreat()
            return np.inf
        here = Estimate(float(log_ratios.mean()), error)
        if not self._fell(here):
            self.retreats = 0
            self.estimates.append(here)
            self.kept = self.q, here
            self._advance(theta[usable], scores[usable])
        return -here.elbo

    def _refuse_runaway(self) -> None:
        wider = self.q.std / self.first_std
        wide = np.flatnonzero(wider > RUNAWAY)
        if len(wide) > 1 or (len(wide) and wider[wide[0]] > RUNAWAY_ALONE):
            names = [self.density.value_names[i] for i in wide]
            raise RunawayError(
                f"q kept widening along {names} (sd {self.q.std[wide[0]]:.2g} from "
                f"{self.first_std[wide[0]]:.2g}): the posterior is improper there, or known in a "
                "combination of these alone: give them proper priors, or leave one out; "
                f"{RESCALE}"
            )

    def _fell(self, here: Estimate) -> bool:
        """Step back where the ELBO fell, and expect a little less of the one kept next time."""
        if self.kept is None or self.radius < LEAST_GAIN:
            return False
        q, before = self.kept
        if here.elbo >= before.elbo - ERRORS * (here.error + before.error) - LEAST_GAIN:
            return False
        self.q, self.radius = q, self.radius / NARROWING
        self.kept = q, Estimate(before.elbo - 0.5 * before.error, before.error)
        return True

    def _retreat(self) -> None:
        self.retreats += 1
        if self.retreats > MOST_RETREATS:
            raise ValueError(
                f"log p̃ or its score is finite at fewer than half of the draws around "
                f"{self.q.mean}, however narrow q is: give a start inside the support, or bounds "
                "to the parameters that have them"
            )
        if self.kept is None:
            self.q = self.q.narrowed(np.sqrt(NARROWING))
        else:
            self.q, self.radius = self.kept[0], self.radius / NARROWING

    def _advance(self, theta: Array, scores: Array) -> None:
        full = weight = WEIGHT * len(theta) / (self.free + 1)
        for _ in range(HALVINGS):
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # then no step is inside
                    new, moved = self.step(self.q, theta, scores, weight)
                if moved <= self.radius:
                    break
            except np.linalg.LinAlgError:
                pass
            weight /= 2
        else:  # not even a tiny step is inside: the radius has become too small
            self.radius *= 2
            return
        self.q = new
        self.free += weight == full  # only steps that the radius did not bind move the schedule
        self.radius = min(self.radius * WIDENING, LONGEST * self.q.dimension)
