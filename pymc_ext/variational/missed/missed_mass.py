r"""A search for mass that q misses: cheap paths from dispersed starts, before a fit is trusted.

k̂ of q's own draws cannot see a mode that q does not reach. Each path of :mod:`~..gaussian.path`
ends in a basin; where its best Gaussian r lies outside q, by draws of r and log q there, the ELBO
of r is a lower bound of the basin's log mass, so that

.. math:: E_r[\log\tilde p - \log r] - \log Z_q \le \log \frac{\text{mass of the basin}}{\text{mass
    that } q \text{ covers}}

up to Monte Carlo error, with log Z_q from q's importance weights. Where r is beyond a wall of p̃ in
part that bound is far too low, and the mean of p̃/r over draws of r outside q, less three of its
standard errors, may be a better one: of a single heavy draw nothing is left. The Gaussian of a path
may be many nats below its basin, some for each coordinate: where neither bound settles whether the
basin matters it is fitted on, by :mod:`~..gaussian.trust_region_matching`, and counts if it stays
outside q. A basin inside q counts as well where q is far below p there, as of a spike on top of a
wide mode: chains of one step size pass it.

All starts first climb together in q's coordinates, where q's own mode is a few steps away however
bent it is in θ. Of those that do not come to rest in q each descends in coordinates where q is
about N(0, I), and only where that does not end in q either is a path followed for its Gaussians.

Some paths start in random directions, others where p̃ is higher than its distance from q lets
expect, of many points in random directions and along coordinates (:mod:`.starts`): so modes far
narrower than q are met too, in few dimensions or where they differ from q in one coordinate. A mode
near which a share s of its distance's shell lies is missed with probability (1 − s)^{1000}. Mass in
no basin of its own is looked for by short chains (:mod:`.shoulders`). It sees
no mode that no path reaches: behind walls, or a narrow one elsewhere in more than some five
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from pymc_ext.density import CountedDensity, TransportMap
from pymc_ext.density.coordinates import InvertibleMap
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.course import DRAWS_WANTED, Course
from pymc_ext.variational.core.monitor import FitStopped, Monitor
from pymc_ext.variational.core.threads import one_thread
from pymc_ext.variational.gaussian.batch_match_low_rank import resolved_rank
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.low_rank_match import matched_low_rank, patched
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.path import Path, PathSettings, follow_path
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.gaussian.score_matching import match_step
from pymc_ext.variational.gaussian.trust_region_matching import (
    WINDOW,
    Estimate,
    TrustRegionMatching,
)
from pymc_ext.variational.missed.descents import at_home, into_basin, scales_of
from pymc_ext.variational.missed.kernels import Kernels
from pymc_ext.variational.missed.outside import (
    ERRORS,
    OUTSIDE_NATS,
    Misses,
    beyond,
    bound_by_weights,
    edge_of,
    is_inside,
    squared_distance,
)
from pymc_ext.variational.missed.shoulders import CHAINS, shoulder
from pymc_ext.variational.missed.starts import starts_of

SETTINGS = PathSettings(iterations=60, draws=20)  # a choice; of climbs not at rest by themselves
DRAWS = 100  # of a basin's Gaussian: they know its ELBO to a tenth of the log ratios' sd
NEGLIGIBLE = 0.01  # share of q's mass below which a basin nearby does not matter
# Share of q's mass times squared distance, in q's sds, from which a basin matters however light it
# is: with it the sd of that coordinate is 10 % larger.
INFLUENCE = 0.2
# The same of a shoulder, of which half or less is found: beside a Gaussian of three Gumbels .12 to
# .14 are, whose weights have sds that are right to 6 %. What is lighter, however far, is a heavy
# tail, of which the k̂ of each mean and sd tells: beside Student's t of five degrees .3 % are found,
# of a mixture's shoulders .3 to 2 %.
OF_A_SHOULDER, LEAST_ON_SHOULDER = 0.15, 0.004
# Nats a coordinate by which a path's Gaussian may be below its basin: sds wrong by a factor of 2.5.
# The mirrored mode of a factor model in 45 dimensions, as heavy as q, had a bound of −8.9.
ROUGH = 0.5
BATCHES = 40  # of a basin's Gaussian fitted on, at most, after which it stays undecided
# Draws of a basin that matters at which log p̃ is held against its score, the step to beside each as
# a share of its distance from the middle, and the nats by which they may differ: by rounding, as of
# lgamma(1e18), log p̃ is any number, and a path ends where that is the largest.
PROBES, ASIDE, ROUNDED = 20, 1e-3, 0.5
SHOWN = 1e-3  # of q's sds: places nearer to zero are said to be 0
SEARCHED = 2_000  # draws that a verdict's search is told: enough for q's mean, spread and edge


@dataclass(frozen=True)
class Basin:
    """A basin that q misses.

    Parameters
    ----------
    q
        The best Gaussian of a path that ended there, or one fitted on from it.
    log_ratio, error
        Lower bound of log(its mass / the mass that q covers), by the ELBO or by weights, whichever
        is the higher, and its standard error.
    distance
        Of its middle (of a shoulder, of its mass) from q's, in q's sds, of the coordinate in which
        it is the farthest.
    kernels
        About the points that short chains came to (:mod:`.shoulders`), of one that is no mode; None
        where a path ended there.
    unsettled
        Whether weights that serve without draws of it do not with them, which widen an sd: it
        matters, however little its bound is, of which mass that is half seen has next to nothing.
    """

    q: LowRankGaussian | Gaussian
    log_ratio: float
    error: float
    distance: float
    kernels: Kernels | None = None
    unsettled: bool = False

    @property
    def is_mode(self) -> bool:
        """Whether a path ended there."""
        return self.kernels is None

    @property
    def share(self) -> float:
        """Its mass by q's, at least."""
        return float(np.exp(min(self.log_ratio, 700.0)))  # exp of more is no number

    @property
    def log_limit(self) -> float:
        """log of what it may be worth: 1 % of q's mass, or less where it is so far away that this
        changes an sd by 10 %; never less than one of all draws that anyone asks for. A shoulder,
        which is next to q and seldom seen as a whole, may be worth what changes an sd by 7 %; one
        that weights do not settle nothing."""
        if self.unsettled:
            return -np.inf
        nearer = 2 * np.log(max(self.distance, 1.0))
        if not self.is_mode:
            return float(max(np.log(OF_A_SHOULDER) - nearer, np.log(LEAST_ON_SHOULDER)))
        influence = np.log(INFLUENCE) - nearer
        return float(min(np.log(NEGLIGIBLE), max(influence, -np.log(DRAWS_WANTED))))

    @property
    def matters(self) -> bool:
        """Whether it is worth more than that, or nobody knows what it is worth."""
        return self.unsettled or self.log_ratio > self.log_limit


OTHERS = 2  # modes that are named beside the heaviest
SEEN = 0.005  # standard error of a log mass that two digits of the mass show
# What to do where chains do not go between modes, so that nobody knows what each is worth.
ONE_MODE = "let an order, a sign or a tighter prior say which mode is meant, if only one is"


@dataclass(frozen=True)
class MissedMass:
    """What the paths found outside q.

    Parameters
    ----------
    basins
        All different ones, the heaviest first.
    paths, starts
        How many paths ended there, and of how many.
    gradients
        What the search cost.
    names, mean, std
        Of the coordinates, and q's, (D,).
    covered
        Whose mass a basin is compared with, in words.
    """

    basins: tuple[Basin, ...]
    paths: int
    starts: int
    gradients: int
    names: tuple[str, ...]
    mean: Array
    std: Array
    covered: str = "the approximation covers"

    @property
    def matters(self) -> bool:
        """Whether any does."""
        return any(basin.matters for basin in self.basins)

    @property
    def heaviest(self) -> Basin:
        """Of those that do; a basin that is heavier still may be too near to matter."""
        return next(basin for basin in self.basins if basin.matters)

    @property
    def has_modes(self) -> bool:
        """Whether one of these is a mode, to which something can be fitted."""
        return any(basin.is_mode for basin in self.basins if basin.matters)

    @property
    def shoulder(self) -> Basin | None:
        """What lies in no basin of its own, whether it matters or not, where no mode does."""
        if self.has_modes:
            return None
        return next((basin for basin in self.basins if not basin.is_mode), None)

    def unsettled(self) -> MissedMass:
        """With a shoulder that weights do not settle."""
        basins = (replace(basin, unsettled=not basin.is_mode) for basin in self.basins)
        return replace(self, basins=tuple(basins))

    @property
    def places(self) -> Array:
        """Middles of the basins that matter, the heaviest's first, unconstrained, (M, D)."""
        return np.array([basin.q.mean for basin in self.basins if basin.matters])

    def and_more(self, later: MissedMass) -> MissedMass:
        """With the basins that a later search found beside another approximation."""
        return replace(self, basins=_different([*self.basins, *later.basins]))

    @property
    def sentence(self) -> str:
        """What a user is told."""
        if not self.matters:
            return f"no mass that matters found outside q ({self.gradients} gradients)"
        return f"mass is missed: {self.mode}"

    @property
    def mode(self) -> str:
        """Those that matter, the heaviest with its place in three coordinates, in words."""
        heaviest, *others = (basin for basin in self.basins if basin.matters)
        share = heaviest.share
        if share * NEGLIGIBLE > 1:  # it is no further mode: q is where there is next to nothing
            return (
                f"most of the mass that paths found, around {self._place(heaviest)}, of which "
                f"{self.covered} at most {1 / share:.1g} times as much {self._seen_by(heaviest)}"
            )
        return f"{self.of(heaviest)}{self._of_others(others)}"

    def of(self, basin: Basin) -> str:
        """One of them, in words."""
        kind = "a mode" if basin.is_mode else "a shoulder"
        worth = f"worth at least {_with_error(basin)} times the mass that {self.covered}"
        if basin.share == 0:  # no bound is left beside its error
            worth = f"worth an unknown part of the mass that {self.covered}"
        return f"{kind} at {self._place(basin)}, {worth} {self._seen_by(basin)}"

    def _seen_by(self, basin: Basin) -> str:
        """What ended there, or went there."""
        if basin.is_mode:
            return f"({self.paths} paths of {self.starts} ended outside it)"
        return "(short chains from q's edge go there)"

    def _of_others(self, others: Sequence[Basin]) -> str:
        """The next ones by one coordinate each, the rest by their number."""
        named = [f"at {self._place(b, 1)}, {_with_error(b)} times" for b in others[:OTHERS]]
        rest = [f"{len(others) - OTHERS} more"] if len(others) > OTHERS else []
        return "".join(f"; {text}" for text in [*named, *rest])

    def _place(self, basin: Basin, coordinates: int = 3) -> str:
        """Of its middle those in which it is farthest from q's."""
        place = np.where(np.abs(basin.q.mean) < SHOWN * self.std, 0.0, basin.q.mean)
        most = np.argsort(-np.abs((place - self.mean) / self.std))[:coordinates]
        return ", ".join(f"{self.names[i]} = {place[i]:.3g}" for i in most)


def _with_error(basin: Basin) -> str:
    """Its bound of mass, by q's, with the standard error where two digits show one.

    >>> _with_error(Basin(Gaussian(np.zeros(1), np.eye(1)), np.log(0.43), 0.02, 5.0))
    '0.43 ± 0.009'
    """
    share = basin.share
    error = f" ± {share * basin.error:.1g}" if basin.error > SEEN else ""
    return f"{share:.2g}{error}"


def missed_mass(
    density: CountedDensity,
    theta: Array,
    log_p: Array,
    log_q: Array,
    log_density_of_q: Callable[[Array], Array],
    log_z: float,
    rng: np.random.Generator,
    around: Array | None = None,
    along: TransportMap | None = None,
    shoulders: tuple[Array, Array] | None = None,
) -> MissedMass:
    """Search from dispersed starts, from where p̃ stands out among many points, and from inside q.

    Parameters
    ----------
    density
        log p̃, unconstrained.
    theta, log_p, log_q
        Draws of q (N, D) with their log p̃ and normalised log q (N,).
    log_density_of_q
        log q of any points, (M, D) -> (M,).
    log_z
        log of the mass that q covers: importance-sampled from q's draws.
    rng
        Of starts and draws.
    around
        Draws (M, D) from whose mean starts are spread, by their covariance; those of q by default.
        Of a mixture best one component after the other: a basin beside a line of others is seldom
        met from their middle.
    along
        q as a map from N(0, I), or the component that is searched around; without one, or where it
        has no inverse, the Gaussian of the draws.
    shoulders
        Mean and sd (D,) by q's weights, in which the distance of mass counts that short chains look
        for in no basin of its own, where no basin matters; None: they do not.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> from pymc_ext.variational.gaussian.posteriors import Gaussian
    >>> def half(t, middle):
    ...     return -0.5 * ((t - middle) ** 2).sum(1)
    >>> def score(t):
    ...     right = 1 / (1 + np.exp(half(t, -5) - half(t, 5)))
    ...     return -(t + 5) + 10 * right[:, None]
    >>> density = CallableDensity(
    ...     lambda t: np.logaddexp(half(t, -5), half(t, 5)), score, dimension=1
    ... )
    >>> q, rng = Gaussian(np.array([5.0]), np.eye(1)), np.random.default_rng(1)
    >>> theta, log_q = q.forward(rng.standard_normal((1000, 1)))
    >>> log_z = 0.5 * np.log(2 * np.pi)
    >>> log_p = density.log_density(theta)
    >>> found = missed_mass(CountedDensity(density), theta, log_p, log_q, q.log_density, log_z, rng)
    >>> (basin,) = found.basins
    >>> bool(abs(basin.log_ratio) < 0.1), basin.q.mean.round()  # as much again, at −5
    (True, array([-5.]))
    """
    before = density.gradients
    middle = theta.mean(axis=0), theta.std(axis=0)
    misses = Misses(density, log_density_of_q, edge_of(log_q), log_z, *middle)
    spread = theta if around is None else around
    edge = _most_underrated(theta, log_p - log_q)
    highest = float(np.max(log_p, where=np.isfinite(log_p), initial=-np.inf))
    starts = np.array([*starts_of(density, spread, highest, rng), edge[0]])
    scales = scales_of(spread)
    climbed = cast(InvertibleMap, along) if hasattr(along, "inverse") else scales
    away = starts[~at_home(density, starts, climbed, misses)]
    found, again = _met(density, away, scales, misses, rng)
    if not any(basin.log_ratio > np.log(NEGLIGIBLE) for basin in found):
        fitted = (_fitted_on(density, basin, misses, rng) for basin in _different(found))
        found = [basin for basin in fitted if basin is not None]
    if shoulders and isinstance(scales, Gaussian) and not any(b.matters for b in found):
        weighed = replace(misses, mean=shoulders[0], std=shoulders[1])
        beside = shoulder(density, edge, scales, weighed, rng)
        if beside is not None:
            of_it = (beside.q, beside.log_mass, beside.error, beside.distance)
            found.append(Basin(*of_it, beside.kernels))
    spent = density.gradients - before
    names = tuple(density.value_names)
    return MissedMass(_different(found), len(found) + again, len(starts), spent, names, *middle)


def _met(
    density: CountedDensity,
    starts: Array,
    scales: Gaussian | DiagonalGaussian,
    misses: Misses,
    rng: np.random.Generator,
) -> tuple[list[Basin], int]:
    """Basins outside q that paths from starts (M, D) end in, and how many more ended in one."""
    found, followed = list[Basin](), list[Path]()
    again, ended_outside = list[int](), set[int]()
    floor = misses.log_z + np.log(NEGLIGIBLE)

    def is_news(end: Array) -> bool:
        if not misses(end[None]):
            return False
        same = next((i for i, path in enumerate(followed) if _same_end(path, end)), None)
        if same is not None:
            again.append(same)
        return same is None

    for start in starts:
        begin = into_basin(density, start, scales, is_news)
        path = None if begin is None else follow_path(density, begin, rng, SETTINGS, floor=floor)
        if path is None:
            continue
        followed.append(path)
        basin = _basin_of(density, path, scales, misses, rng)
        if basin is not None:
            found.append(basin)
            ended_outside.add(len(followed) - 1)
    return found, sum(i in ended_outside for i in again)


def _basin_of(
    density: CountedDensity,
    path: Path,
    scales: Gaussian | DiagonalGaussian,
    misses: Misses,
    rng: np.random.Generator,
) -> Basin | None:
    """The basin a path ended in, by its Gaussian; where that does not say that it matters, by the
    same or one as wide as q about the path's end, if one of them gives a higher bound: at a wall
    that Gaussian may lie beyond it, or be as narrow as the wall is steep. None where it is inside
    q."""
    best: Basin | None = None
    tried: list[LowRankGaussian | Gaussian] = [path.q, replace(path.q, mean=path.end)]
    if isinstance(scales, Gaussian):  # up to some 300 dimensions
        tried.append(replace(scales, mean=path.end))
    for q in tried:
        basin = _outside(density, q, misses, rng)
        if basin is not None and np.isfinite(basin.log_ratio):
            best = basin if best is None or basin.log_ratio > best.log_ratio else best
        if basin is None or (best is not None and best.matters):
            break
    return best


def mass_outside(
    density: CountedDensity,
    theta: Array,
    log_p: Array,
    log_density_of_q: Callable[[Array], Array] | None,
    log_z: float,
    rng: np.random.Generator,
    along: TransportMap | None = None,
    shoulders: tuple[Array, Array] | None = None,
) -> MissedMass:
    """The search of a verdict: `missed_mass` of the first draws of a q, whichever it is.

    Parameters
    ----------
    density, log_z, rng, along, shoulders
        As in :func:`missed_mass`.
    theta, log_p
        Draws of q (N, D) with their log p̃ (N,).
    log_density_of_q
        log q of any points, (M, D) -> (M,); None where it is known at q's own draws only, so that q
        is taken for the Gaussian of its first two moments.
    """
    theta, log_p = theta[:SEARCHED], log_p[:SEARCHED]
    with one_thread():  # on two busy cores the optimiser's tiny matrices took 30 times as long
        log_q = log_density_of_q or Gaussian.of_draws(theta).log_density
        return missed_mass(
            density, theta, log_p, log_q(theta), log_q, log_z, rng, along=along, shoulders=shoulders
        )


def _fitted_on(
    density: CountedDensity, basin: Basin, misses: Misses, rng: np.random.Generator
) -> Basin | None:
    """The basin by a better Gaussian, where that may show that it matters; None: it is q's own."""
    if basin.log_ratio < np.log(NEGLIGIBLE) - ROUGH * density.dimension - OUTSIDE_NATS:
        return basin
    try:
        q = _matched(density, basin.q, rng, misses.log_z - np.log(DRAWS_WANTED))
    except (ValueError, np.linalg.LinAlgError):  # it ran away: there is no basin to speak of
        return basin
    better = _outside(density, q, misses, rng)
    return basin if better is not None and not better.log_ratio > basin.log_ratio else better


def _outside(
    density: CountedDensity,
    q: LowRankGaussian | Gaussian,
    misses: Misses,
    rng: np.random.Generator,
) -> Basin | None:
    """The basin of a Gaussian; None where it is inside the q that is judged, or mere rounding."""
    points, log_r = q.forward(rng.standard_normal((DRAWS, density.dimension)))
    log_p, log_q = misses.at(points)
    if not misses.of_values(log_p, log_q, log_r):
        return None
    with np.errstate(all="ignore"):
        log_ratios = log_p - log_r
        by_elbo = float(np.mean(log_ratios)), float(np.std(log_ratios) / np.sqrt(DRAWS))
        outside = beyond(misses.edge, log_q)
        by_weights = bound_by_weights(np.where(outside, log_ratios, -np.inf))
        distance = float(np.max(np.abs(q.mean - misses.mean) / misses.std))
    bound, error = by_weights if by_weights[0] > by_elbo[0] else by_elbo
    basin = Basin(q, bound, error, distance)
    if basin.matters and _is_rounding(density, points[:PROBES], ASIDE * (points[:PROBES] - q.mean)):
        return None
    return basin


def _is_rounding(density: CountedDensity, theta: Array, steps: Array) -> bool:
    """Whether log p̃ changes along most ``steps`` from ``theta``, both (N, D), by something else
    than the integral of its score, by the trapezoidal rule."""
    with np.errstate(all="ignore"):
        before, scores = density.log_density_gradient(theta)
        after, there = density.log_density_gradient(theta + steps)
        off = np.abs(after - before - 0.5 * ((scores + there) * steps).sum(axis=1))
    return bool(np.median(np.where(np.isfinite(off), off, 0.0)) > ROUNDED)


def _matched(
    density: CountedDensity, q: LowRankGaussian | Gaussian, rng: np.random.Generator, least: float
) -> LowRankGaussian | Gaussian:
    """q after some batches, no more than show that its ELBO does not come to ``least``."""
    D = q.dimension
    course: Course = Course(density, np.empty((0, D)), BATCHES, Monitor.silent())
    rank = resolved_rank(None, D)
    matching: TrustRegionMatching
    if rank is not None and isinstance(q, LowRankGaussian):
        step = partial(matched_low_rank, rank=rank)
        matching = TrustRegionMatching(density, patched(q, rank), rng, step)
    else:
        first = Gaussian(q.mean, cholesky(q.cov))
        matching = TrustRegionMatching(density, first, rng, match_step)
    with suppress(FitStopped):  # the course is at its end, as where most batches stepped back
        while not (matching.rests() or _stays_below(least, matching.estimates)):
            matching.run(course, most=len(matching.estimates) + WINDOW)
    return matching.q


def _stays_below(least: float, estimates: Sequence[Estimate]) -> bool:
    """Whether an ELBO that went on rising as in its last batches, at most by what they know of it,
    would be lower at the end: it rises ever more slowly."""
    if len(estimates) < 2 * WINDOW:
        return False
    elbo, error = np.array([(e.elbo, e.error) for e in estimates[-2 * WINDOW :]]).T
    before, now = elbo[:WINDOW].mean(), elbo[WINDOW:].mean()
    gain = now - before + ERRORS * np.sqrt(np.sum(error**2)) / WINDOW
    left = BATCHES - len(estimates) + WINDOW / 2  # from the middle of the last ones
    return bool(now + gain / WINDOW * left < least)


def _most_underrated(theta: Array, log_ratios: Array) -> Array:
    """The draws of q with the largest weights, the largest first, (`CHAINS`, D)."""
    log_ratios = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    return theta[np.argsort(-log_ratios, kind="stable")[:CHAINS]]


def _different(basins: list[Basin]) -> tuple[Basin, ...]:
    """The heaviest of those paths that ended in one another's Gaussians, the heaviest first."""
    kept = list[Basin]()
    for basin in sorted(basins, key=lambda basin: -basin.log_ratio):
        if not any(is_inside(basin.q.mean, other.q) for other in kept):
            kept.append(basin)
    return tuple(kept)


def _same_end(path: Path, end: Array) -> bool:
    """Whether another path ends where this one does: within one sd of its Gaussian in all."""
    return squared_distance(path.q, path.q.mean + (end - path.end)) <= 1.0
