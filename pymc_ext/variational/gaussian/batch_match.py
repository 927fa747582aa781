r"""A robust Gaussian from scores alone, for any density.

Three parts: paths of an optimiser, the best of whose Gaussians starts (:mod:`.path`); batch and
match inside a trust region (:mod:`.trust_region_matching`); natural gradients of the ELBO
(:mod:`.natural_gradient`), for batch and match minimises a score divergence, whose minimum is not
the ELBO's where p is not Gaussian. Each ends by a test of its own, so that an easy posterior takes
some hundred scores and a hard one some thousand. Beyond some hundred dimensions the Gaussian is of
low rank plus diagonal, see :mod:`.batch_match_low_rank`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.interrupts import through_one
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count
from pymc_ext.variational.core.algorithm import Algorithm, Fitted, refuse_hyperparameters
from pymc_ext.variational.core.course import (
    JUDGING_DRAWS,
    LONGEST_BLOCK,
    Course,
    Ended,
    in_doubling_blocks,
)
from pymc_ext.variational.core.defensive import defended
from pymc_ext.variational.core.monitor import (
    FitStopped,
    Monitor,
    nothing_yet,
    unfinished,
)
from pymc_ext.variational.core.notes import notes_on
from pymc_ext.variational.core.posterior import Posterior, fresh_draws
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.threads import one_thread
from pymc_ext.variational.gaussian.batch_match_low_rank import find_low_rank, resolved_rank
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.low_rank_gradient import LowRankGradient
from pymc_ext.variational.gaussian.natural_gradient import Batch, NaturalGradient
from pymc_ext.variational.gaussian.numbers import antithetic, cholesky
from pymc_ext.variational.gaussian.path import Path, all_paths, best_of
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.gaussian.score_matching import match_step
from pymc_ext.variational.gaussian.trust_region_matching import TrustRegionMatching
from pymc_ext.variational.ill_posed.endless import refuse_endless
from pymc_ext.variational.ill_posed.runaway import refuse_runaway

PATHS = 4  # from the start and three dispersed points: two basins of hmm_drive_0 were found by 4
FIRST_BLOCK = 10  # steps of the ELBO's part that are averaged first
ADVICE = "no Gaussian fits it; use HierarchicalVI, a flow, or NUTS in q's coordinates"
MORE_RANK = "no Gaussian of so few factors fits it; give a larger rank, or use HierarchicalVI"
NO_PATH_SD = 0.1  # of the start where no path shows a curvature, as in flat funnels


@dataclass(frozen=True)
class Found:
    """A Gaussian found, with what was seen on the way.

    Parameters
    ----------
    ended
        Best q, last gain, and why the ELBO's part ended.
    paths
        All paths followed.
    batch
        Draws and scores near q that its last steps took.
    """

    ended: Ended[Gaussian]
    paths: tuple[Path, ...]
    batch: Batch


def find_gaussian(
    density: CountedDensity,
    start: Array,
    seed: int | None,
    course: Course[Gaussian],
    *,
    paths: int = PATHS,
    finish: bool = True,
    promised: Callable[[Batch], float] | None = None,
) -> Found:
    """The three parts, from ``start`` (D,).

    ``promised`` tells from a batch how many nats a larger family would gain: the last part ends
    where they are more than its last steps gained.
    """
    rng = stream(seed, Purpose.STARTS)
    found = all_paths(density, start, rng, paths, lambda q: course.offer(_dense(q)))
    rng = stream(seed, Purpose.TRAIN)
    if found:
        course.offer(q := _dense(best_of(found).q))
    else:
        q = Gaussian(start, NO_PATH_SD * np.eye(len(start)))
    q = TrustRegionMatching(density, q, rng, match_step).run(course)
    candidate = course.offer(q)
    steps = NaturalGradient(density, q, rng)
    if not finish:
        ended = Ended(candidate, 0.0, 0.0, "batches no longer raise the ELBO")
        return Found(ended, found, steps.batch(q))
    ended = in_doubling_blocks(
        steps,
        course,
        candidate,
        FIRST_BLOCK,
        None if promised is None else lambda best: promised(steps.batch(best.q)),
    )
    return Found(ended, found, steps.batch(ended.best.q))


def _dense(q: LowRankGaussian) -> Gaussian:
    return Gaussian(q.mean, cholesky(q.cov))


def new_course(
    density: CountedDensity,
    seed: int | None,
    budget: int,
    monitor: Monitor,
    longest_block: int = LONGEST_BLOCK,
) -> Course:
    """A fit about to begin."""
    z = antithetic(stream(seed, Purpose.CHECKS), JUDGING_DRAWS, density.dimension)
    return Course(density, z, budget, monitor, longest_block)


@dataclass(frozen=True)
class BatchMatch(Algorithm[Gaussian | LowRankGaussian]):
    """Algorithm of :class:`pymc_ext.BatchMatchVI`, for any density.

    Parameters
    ----------
    paths
        Paths of the first part.
    finish
        ``"elbo"``; None ends with batch and match.
    rank
        Columns of Λ in Σ = Λ Λᵀ + diag ψ. None: a dense Σ up to 300 dimensions, 10 to 32 beyond.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> density = CallableDensity(lambda x: -2 * x[:, 0] ** 2, lambda x: -4 * x, dimension=1)
    >>> BatchMatch().fit(density, random_seed=1).q.std.round(6)
    array([0.5])
    """

    name = "batch-match"
    paths: int = PATHS
    finish: str | None = "elbo"
    rank: int | None = None

    def __post_init__(self) -> None:
        if self.finish not in ("elbo", None):
            raise ValueError(f"finish must be 'elbo' or None, got {self.finish!r}")
        require_count("paths", self.paths)
        if self.rank is not None and (
            isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 1
        ):
            raise ValueError(
                f"rank must be None or an integer >= 1, got {self.rank!r}; a Gaussian without "
                "correlations is DiagonalVI's"
            )

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Gaussian | LowRankGaussian]:
        refuse_hyperparameters(density, self.name)
        course = new_course(density, seed, budget, monitor)
        rank = resolved_rank(self.rank, density.dimension)
        try:
            with nullcontext() if rank is None else one_thread():
                ended = self._ended(density, start, seed, course, rank, state)
            q, converged, why = course.settled(ended.best).q, ended.at_rest, ended.why
        except (FitStopped, KeyboardInterrupt) as stop:
            if course.best is None:
                raise nothing_yet(stop) from None
            q, converged = course.best.q, False
            why = unfinished(stop)

        def judged() -> tuple[FreshDraws, Posterior | None, FreshDraws | None]:
            refuse_runaway(q, density, seed)
            fresh = fresh_draws(q, density, stream(seed, Purpose.FRESH))
            refuse_endless(density, q, fresh, start)
            return fresh, *defended(q, density, fresh, seed)

        fresh, proposal, fresh_proposal = through_one(judged)
        result = FitResult(
            method=self.name,
            converged=converged,
            stop_reason=why,
            iterations=len(monitor.losses),
            fresh=fresh,
            fresh_proposal=fresh_proposal,
            notes=notes_on(fresh, ADVICE if self.rank is None else MORE_RANK, fresh_proposal),
        )
        return Fitted(q, result, state=q, proposal=proposal)

    def _ended(
        self,
        density: CountedDensity,
        start: Array,
        seed: int | None,
        course: Course,
        rank: int | None,
        state: object | None,
    ) -> Ended[Gaussian | LowRankGaussian]:
        """The best q, from ``start`` or from where an earlier run ended."""
        if isinstance(state, Gaussian | LowRankGaussian):
            steps = steps_from(density, state, stream(seed, Purpose.TRAIN))
            return in_doubling_blocks(steps, course, course.offer(state), FIRST_BLOCK)
        finish = self.finish is not None
        if rank is None:
            return find_gaussian(
                density, start, seed, course, paths=self.paths, finish=finish
            ).ended
        return find_low_rank(
            density, start, seed, course, paths=self.paths, rank=rank, finish=finish
        )


def steps_from(
    density: CountedDensity, q: Gaussian | LowRankGaussian, rng: np.random.Generator
) -> NaturalGradient | LowRankGradient:
    """Steps of the ELBO that go on from q."""
    if isinstance(q, Gaussian):
        return NaturalGradient(density, q, rng)
    return LowRankGradient(density, q, rng)
