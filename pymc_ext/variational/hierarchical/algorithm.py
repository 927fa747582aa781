r"""The hierarchical map, for any density: a robust Gaussian, links from its scores, training.

Dense up to some 300 dimensions. Beyond, the map has the nested Laplace law of
:mod:`pymc_ext.variational.fields` where coordinates depend on their neighbours and some globals, as
in time series and on maps. Else the Gaussian is of low rank and the map of arrow form, see
:mod:`.arrow`, where the scores show globals on which all others depend and these not on one
another; elsewhere q is the low-rank Gaussian, and a note says so.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import value_names
from pymc_ext.interrupts import through_one
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count
from pymc_ext.variational.core.algorithm import Algorithm, Fitted, refuse_hyperparameters
from pymc_ext.variational.core.course import (
    LONGEST_BLOCK,
    Averaged,
    Candidate,
    Course,
    Ended,
    in_doubling_blocks,
    repaired_by_weights,
)
from pymc_ext.variational.core.defensive import DefensiveMixture, defended
from pymc_ext.variational.core.monitor import (
    FitStopped,
    Monitor,
    nothing_yet,
    unfinished,
)
from pymc_ext.variational.core.notes import notes_on
from pymc_ext.variational.core.posterior import INTERRUPTED_DRAWS, fresh_draws
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.threads import one_thread
from pymc_ext.variational.fields.found import field_map
from pymc_ext.variational.fields.map import FieldMap
from pymc_ext.variational.fields.neighbours import find_neighbours
from pymc_ext.variational.gaussian.batch_match import (
    PATHS,
    find_gaussian,
    new_course,
    steps_from,
)
from pymc_ext.variational.gaussian.batch_match_low_rank import DENSE, first_low_rank, resolved_rank
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.low_rank_gradient import LowRankGradient
from pymc_ext.variational.gaussian.natural_gradient import NaturalGradient, step_draws
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.hierarchical.arrow import arrow_found
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.growth import FIRST_BLOCK, ROUNDS, Growth
from pymc_ext.variational.hierarchical.law import LawAlong
from pymc_ext.variational.hierarchical.links import Links
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.orders import new_growth, promised_gain
from pymc_ext.variational.hierarchical.reach import Reached, early_law, reaching
from pymc_ext.variational.hierarchical.result import HierarchicalResult
from pymc_ext.variational.hierarchical.slices import lacking
from pymc_ext.variational.hierarchical.structure import find_structure
from pymc_ext.variational.hierarchical.training import Training
from pymc_ext.variational.ill_posed.endless import refuse_endless
from pymc_ext.variational.ill_posed.runaway import refuse_runaway

MapOrGaussian = Gaussian | LowRankGaussian | HierarchicalMap | FieldMap
OF_FIELD = "Laplace's method, nested: {} coordinates that depend on few others, given {}"
# ESS/N of a field's law from which no dense map is tried beside it, as it holds the bulk. A dense
# map takes some ten thousand scores, and has answered where a field of .36 did not.
SERVES = 0.5
FEWEST_OF_FIELD = 30  # dimensions from which fields are looked for: a dense map is as cheap below
NO_ARROW = "no few coordinates leave the others independent: the Gaussian alone was fitted"
OF_TAIL = "draws of q miss {}; weights of its proposal have it: approx.weighted_draws, bridge.fit"
OF_OPEN_TAIL = (
    "draws of q miss {}; with a flat prior there the posterior is improper: give a proper one"
)
LAW_SERVES = "weights of a law along its governors serve"
GROUPS_SERVE = "Laplace's method, nested: weights of a law of groups given their globals serve"
ADVICE = "its conditional laws are not a hierarchy's; use a flow, or NUTS in q's coordinates"


@dataclass(frozen=True)
class Hierarchical(Algorithm[MapOrGaussian]):
    """Algorithm of :class:`pymc_ext.HierarchicalVI`, for any density.

    Parameters
    ----------
    paths
        Paths of the Gaussian's first part.
    longest_block
        Steps of the longest block of a training. For the coordinates of a sampler, which repairs
        the rest, 20 are enough.
    rounds
        How often freedoms that the last training's residuals show are added.
    necks
        Whether to look for tails of governors that q lacks, which weights then reach. A sampler's
        coordinates need no weights.
    early
        Whether weights are all that is wanted. Then groups that are independent given few globals,
        and short series, have the nested Laplace law of :mod:`pymc_ext.variational.fields` too, and
        no map where its weights serve. Else training ends after its first block where weights of
        draws of a law along the governors serve: q is a rougher map then, for half the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_ext.density import CallableDensity
    >>> def log_density(t):  # a funnel: log τ ~ N(0, 1), x | τ ~ N(0, τ²)
    ...     return -0.5 * t[:, 0] ** 2 - t[:, 0] - 0.5 * (t[:, 1] * np.exp(-t[:, 0])) ** 2
    >>> def score(t):
    ...     square = (t[:, 1] * np.exp(-t[:, 0])) ** 2
    ...     return np.stack([square - 1 - t[:, 0], -t[:, 1] * np.exp(-2 * t[:, 0])], axis=1)
    >>> density = CallableDensity(log_density, score, dimension=2, names=["log_tau", "x"])
    >>> print(Hierarchical().fit(density, random_seed=1).result.links)
    log_tau governs x: slope 1.00 ± 0.02
    """

    name = "hierarchical"
    paths: int = PATHS
    longest_block: int = LONGEST_BLOCK
    rounds: int = ROUNDS
    necks: bool = True
    early: bool = False

    def __post_init__(self) -> None:
        for label in ("paths", "longest_block", "rounds"):
            require_count(label, getattr(self, label))

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[MapOrGaussian]:
        refuse_hyperparameters(density, self.name)
        course = new_course(density, seed, budget, monitor, self.longest_block)
        links, law, serves, interrupted = Links(), None, False, False
        dense = density.dimension <= DENSE
        try:
            # a q that runs away overflows: the ELBO tells
            ignored = np.errstate(over="ignore", invalid="ignore")
            with nullcontext() if dense else one_thread(), ignored:
                ended, links, law = self._trained(density, start, seed, course, state)
                serves = ended.why == LAW_SERVES
                q, converged, why = course.settled(ended.best).q, ended.at_rest, ended.why
        except (FitStopped, KeyboardInterrupt) as stop:
            if course.best is None:
                raise nothing_yet(stop) from None
            q, converged = course.best.q, False
            why, interrupted = unfinished(stop), isinstance(stop, KeyboardInterrupt)
        if dense and isinstance(q, HierarchicalMap) and q.is_gaussian:
            q = q.as_gaussian()
        given = None
        if isinstance(q, FieldMap):  # whatever else was fitted beside it
            links, law = Links(), None
            names = value_names(density)
            given = tuple(names[i] for i in q.order[: q.globals])
        if interrupted:  # somebody waits: the next Ctrl-C is raised
            proposal, of_proposal = None, None
            fresh = fresh_draws(q, density, stream(seed, Purpose.FRESH), INTERRUPTED_DRAWS)
        else:
            fresh, proposal, of_proposal = through_one(lambda: _judged(q, density, seed, start))
        reached = Reached(None, proposal, of_proposal)
        if isinstance(q, HierarchicalMap) and self.necks and not interrupted:
            try:
                reached = reaching(q, density, fresh, proposal, of_proposal, seed, law, serves)
            except KeyboardInterrupt as stop:
                converged, why = False, unfinished(stop)
        result = HierarchicalResult(
            method=self.name,
            converged=converged,
            stop_reason=why,
            iterations=len(monitor.losses),
            fresh=fresh,
            fresh_proposal=reached.fresh,
            notes=notes_on(fresh, ADVICE, reached.fresh)
            + ((NO_ARROW,) if why.startswith(NO_ARROW) else ())
            + note_on(reached),
            links=links,
            law=reached.law,
            missed=reached.missed,
            field_given=given,
        )
        return Fitted(q, result, state=q, proposal=reached.proposal)

    def _trained(
        self,
        density: CountedDensity,
        start: Array,
        seed: int | None,
        course: Course,
        state: object | None,
    ) -> tuple[Ended[MapOrGaussian], Links, LawAlong | None]:
        """How training ended, the links of what was kept, and a law found early."""
        if isinstance(state, Gaussian | LowRankGaussian | HierarchicalMap):
            steps = resumed(density, state, stream(seed, Purpose.TRAIN))
            ended = in_doubling_blocks(steps, course, course.offer(state), FIRST_BLOCK)
            return ended, Links(), None
        if isinstance(state, FieldMap):  # Laplace's method goes no further: it begins there
            start = state.forward(np.zeros((1, state.dimension)))[0][0]
        dense = density.dimension <= DENSE
        field = self._field(density, start, seed, course)
        if field is not None:
            alone = field.why == GROUPS_SERVE or not dense
            if alone or field.best.relative_ess >= SERVES:
                return field, Links(), None
        if dense:
            return self._dense(density, start, seed, course)
        return *self._arrow(density, start, seed, course), None

    def _field(
        self, density: CountedDensity, start: Array, seed: int | None, course: Course
    ) -> Ended[MapOrGaussian] | None:
        """The nested Laplace law, where neighbours are few and p̃ has a density on its draws."""
        if density.dimension < FEWEST_OF_FIELD and not self.early:
            return None
        rng = stream(seed, Purpose.FIELD)
        near = find_neighbours(density, start, rng)
        if near is None or (near.in_groups and not self.early):
            return None
        q = field_map(density, near, start, rng)
        if q is None:
            return None
        candidate: Candidate[MapOrGaussian] = course.candidate(q)
        if not np.isfinite(candidate.elbo):
            return None
        why = OF_FIELD.format(q.dimension - q.globals, q.globals)
        if near.in_groups:  # kept where it serves alone: a map has the law of necks besides
            if not candidate.relative_ess >= SERVES:
                return None
            why = GROUPS_SERVE
        return Ended(course.keep(candidate), 0.0, 0.0, why, paid=False)

    def _dense(
        self, density: CountedDensity, start: Array, seed: int | None, course: Course
    ) -> tuple[Ended[MapOrGaussian], Links, LawAlong | None]:
        """A Gaussian, then what links promise."""
        promised = partial(promised_gain, density)
        found = find_gaussian(density, start, seed, course, paths=self.paths, promised=promised)
        gaussian = found.ended.best
        if not course.block_pays(gaussian, FIRST_BLOCK, step_draws(density.dimension)):
            return (
                replace(found.ended, why=repaired_by_weights(gaussian), paid=False),
                Links(),
                None,
            )
        growth = new_growth(density, course, found, seed)
        if growth is None:
            return found.ended, Links(), None
        law = None
        if self.early:
            first = growth.begin()
            law, serves = early_law(density, first.q, stream(seed, Purpose.NECKS))
            if serves:
                links = Links.of(first.q, growth.moments, density.unconstrained_names)
                return Ended(first, 0.0, 0.0, LAW_SERVES), links, law
        steps = NaturalGradient(density, gaussian.q, stream(seed, Purpose.TRAIN))
        return *self._grown(growth, found.ended, steps, course), law

    def _arrow(
        self, density: CountedDensity, start: Array, seed: int | None, course: Course
    ) -> tuple[Ended[MapOrGaussian], Links]:
        """The same beyond 300 dimensions."""
        rank = resolved_rank(None, density.dimension)
        assert rank is not None
        reached, steps = first_low_rank(density, start, seed, course, paths=self.paths, rank=rank)
        rng = stream(seed, Purpose.INITIAL)
        structure = find_structure(density, reached.q, rng)
        if structure is None:
            ended = in_doubling_blocks(steps, course, reached, FIRST_BLOCK)
            return replace(ended, why=f"{NO_ARROW}; {ended.why}"), Links()
        ended, training = arrow_found(density, course, reached.q, structure, rng)
        growth = Growth(density, course, rng, ended.best.q, training.moments.moments())
        return self._grown(growth, ended, training, course)

    def _grown(
        self,
        growth: Growth,
        gaussian: Ended[MapOrGaussian],
        steps: Averaged[MapOrGaussian],
        course: Course,
    ) -> tuple[Ended[MapOrGaussian], Links]:
        """Links where they pay, else the ``steps`` that made the Gaussian go on."""
        why = growth.run(self.rounds)
        if growth.best.q.is_gaussian:
            if gaussian.paid:  # links promised too much
                gaussian = in_doubling_blocks(steps, course, gaussian.best, FIRST_BLOCK)
                why = gaussian.why
            return replace(gaussian, why=why), Links()
        links = Links.of(growth.best.q, growth.moments, growth.density.unconstrained_names)
        return Ended(growth.best, 0.0, 0.0, why, growth.paid), links


def _judged(
    q: MapOrGaussian, density: CountedDensity, seed: int | None, start: Array
) -> tuple[FreshDraws, DefensiveMixture | None, FreshDraws | None]:
    """q by its fresh draws; a proposal beside it and how that is judged, where there is one."""
    refuse_runaway(q, density, seed)
    fresh = fresh_draws(q, density, stream(seed, Purpose.FRESH))
    refuse_endless(density, q, fresh, start)
    known = None
    if isinstance(q, HierarchicalMap):
        known = lacking(density, q, stream(seed, Purpose.DEFENCE))
    return fresh, *defended(q, density, fresh, seed, known)


def note_on(reached: Reached) -> tuple[str, ...]:
    """What to say of a tail that draws miss."""
    if reached.missed is None:
        return ()
    is_open = reached.law is not None and bool(reached.law.open_ends)
    return ((OF_OPEN_TAIL if is_open else OF_TAIL).format(reached.missed),)


def resumed(
    density: CountedDensity,
    q: Gaussian | LowRankGaussian | HierarchicalMap,
    rng: np.random.Generator,
) -> NaturalGradient | LowRankGradient | Training:
    """Steps that go on from q, with what it has free."""
    if isinstance(q, Gaussian | LowRankGaussian):
        return steps_from(density, q, rng)
    return Training(density, q, Free.of(q), rng)
