"""Maxima of all other coordinates with a few held: a path of them along one of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypedDict

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.trust_region import curvature_scale
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.curvature import covariance_root, modified_root
from pymc_ext.variational.hierarchical.columns import hessian_from, not_zero, steps_of, told
from pymc_ext.variational.hierarchical.others import Coordinates, Others
from pymc_ext.variational.ill_posed.endless import RAISED

GROWTH = 1.25  # of steps, from place to place
MOST_PLACES = 20  # on one side: a tail of two hundred sds
NEWTON_STEPS, CLOSE = 8, 0.05  # at one place; decrement (nats) at which they end
# Steps from where −H is not positive definite though the decrement is small: far down a neck, where
# curvatures are 1e10 times as large as one another, that is rounding until the differences fit.
INDEFINITE = 2
FIRST_STEPS = 40  # at the first place, to which no other has led
# Of a conditional sd, by which scores are differenced: a third derivative cancels, a fourth changes
# curvatures by 1e-4, and less is rounding in a neck than with smaller ones.
DIFFERENCE = 0.03
# Share of the middle's conditional sds at which a side ends, 8.5 down along a log scale: sums of
# precisions in the other governors' directions would be rounding.
SMALLEST = 2e-4
# Share of a pivot that may be rounding: it errs log p by a fortieth. And that of a step by which it
# is tried before the side ends.
MOST_ROUNDING, SHORTER = 0.05, 0.5
# Coordinates that are held for log p̃ to be quadratic in the others; the share of curvature that
# changes along one that is held, and how many times as much as along any other: correlations of
# effects have .1 to .15 and three times as much, logistic effects about as much as one another.
MOST_HELD, LEAST_CHANGE, STANDS_OUT = 3, 0.05, 2.0
LONGEST = 3.0  # conditional sds of one Newton step
MOST_SHARED = 8  # coordinates whose own modes are looked at: residuals' sds, means, slopes
MOST_SHIFT = 0.3  # sds between a mode of its own and that of all: a quarter of the draws' weights


class Failed(Enum):
    """Why there is no maximum of the others at a place."""

    NO_NUMBERS = auto()  # p̃ or its curvature has none there
    NO_MAXIMUM = auto()
    ROUNDING = auto()  # it is one of differences' rounding


@dataclass(frozen=True, eq=False)
class Maximum(ByValue):
    """Where log p̃ is highest with the governors held.

    Parameters
    ----------
    theta
        The point, (D,).
    log_density
        log p̃ there.
    others
        x, what moves, k.
    root
        Entries of R with R Rᵀ = −H in x, lower triangular, (E,).
    """

    theta: Array
    log_density: float
    others: Others
    root: Array

    @property
    def sds(self) -> Array:
        """Of x, each given all else, (k,)."""
        return np.asarray(1 / np.sqrt(np.bincount(self.others.pattern.rows, self.root**2)))

    @property
    def log_p(self) -> float:
        """log p(t), up to a constant."""
        return self.log_density - float(np.log(self.root[self.others.pattern.diagonal]).sum())

    @property
    def precision(self) -> Array:
        """−H in x, (k, k)."""
        pattern = self.others.pattern
        return pattern.dense(pattern.squared(self.root[:, None])[:, 0])

    @property
    def rounding(self) -> float:
        """Share of a pivot of R, of its square, that is rounding of differences of scores.

        An effect's score is rounded by ε |θ_i| H_ii, its difference over h sds by as much as
        ε |θ_i| H_ii^1.5 / h in H_ii, and what all effects say of their mean is a sum of differences
        of these.
        """
        pattern, root = self.others.pattern, self.root
        at = np.abs(self.theta[self.others.places])
        noise = np.finfo(float).eps / DIFFERENCE * at / self.sds**3
        unit = root / root[pattern.diagonal[pattern.columns]]
        total = np.bincount(pattern.rows, unit**2 * noise[pattern.columns])
        return float((total / root[pattern.diagonal] ** 2).max())

    def holding(self, held: Sequence[int]) -> Maximum:
        """Of those of x that are not held too, where these are."""
        others = self.others.without(held)
        free = np.isin(self.others.places, others.places)
        entries = others.pattern.entries(self.precision[np.ix_(free, free)])
        root = others.pattern.root(entries[:, None])[:, 0]
        return Maximum(self.theta, self.log_density, others, root)


class Stacked(TypedDict):
    """Maxima of the same others as few arrays, for a file: (P, D), (P,) and (P, entries)."""

    others: Others
    theta: Array
    log_density: Array
    root: Array


def stacked(maxima: Sequence[Maximum]) -> Stacked:
    """Maxima of the same others as few arrays."""
    return {
        "others": maxima[0].others,
        "theta": np.array([found.theta for found in maxima]),
        "log_density": np.array([found.log_density for found in maxima]),
        "root": np.array([found.root for found in maxima]),
    }


def unstacked(parts: Stacked) -> tuple[Maximum, ...]:
    """What :func:`stacked` was given."""
    each = zip(parts["theta"], parts["log_density"], parts["root"], strict=True)
    return tuple(
        Maximum(theta, float(log_density), parts["others"], root)
        for theta, log_density, root in each
    )


def maxima_along(
    density: CountedDensity,
    middle: Maximum,
    j: int,
    step: float,
    fall: float,
) -> tuple[tuple[Maximum, ...], tuple[bool, bool]]:
    """From the middle on in both directions along θ_j, in the order of their places; and of each
    side whether it ends where p̃ has numbers but the others no maximum.

    A side ends where log p(θ_j) has fallen by ``fall`` nats, where sds have shrunk to `SMALLEST`,
    where the others have no maximum or it is rounding: what lies beyond is left out.

    Parameters
    ----------
    density
        log p̃ and its score.
    middle
        The maximum from which it starts.
    j
        The coordinate.
    step
        The first.
    """

    def side(step: float) -> tuple[list[Maximum], bool]:
        last, here, highest, made = None, middle, middle.log_p, list[Maximum]()

        def ahead(by: float) -> Maximum | Failed:
            at = here.theta.copy()
            if last is not None:  # the others go on as they went from the last place to this one
                at += by / (here.theta[j] - last.theta[j]) * (here.theta - last.theta)
            at[j] = here.theta[j] + by
            found = climbed(density, at, here.sds, middle.others)
            if isinstance(found, Maximum) and found.rounding > MOST_ROUNDING:
                return Failed.ROUNDING
            return found

        for k in range(MOST_PLACES):
            by = step * GROWTH**k
            first = ahead(by)
            found = ahead(SHORTER * by) if isinstance(first, Failed) else first
            if isinstance(found, Maximum):
                made.append(found)
                highest = max(highest, found.log_p)
                if found.log_p < highest - fall or np.any(found.sds < SMALLEST * middle.sds):
                    break
            if isinstance(first, Failed):
                return made, first is Failed.NO_MAXIMUM
            last, here = here, first
        return made, False

    (below, lost_below), (above, lost_above) = side(-step), side(step)
    return (*reversed(below), middle, *above), (lost_below, lost_above)


def maximum_near(
    density: CountedDensity,
    start: Array,
    sds: Array,
    others: Others,
    steps: int = NEWTON_STEPS,
) -> Maximum | None:
    """The maximum in x by Newton steps, of which the last one's Hessian is not its own.

    Parameters
    ----------
    density
        log p̃ and its score; a Hessian takes two scores a difference.
    start
        θ, (D,).
    sds
        Rough ones of x, each given all else, (k,).
    others
        x, what moves.
    steps
        At most.
    """
    found = climbed(density, start, sds, others, steps)
    return found if isinstance(found, Maximum) else None


@np.errstate(all="ignore")  # a step too far ends where numbers are not finite
def climbed(
    density: CountedDensity,
    start: Array,
    sds: Array,
    others: Others,
    steps: int = NEWTON_STEPS,
) -> Maximum | Failed:
    """:func:`maximum_near`, or why there is none."""
    at, indefinite = start.copy(), 0
    for k in range(steps):
        found = _curvature(density, at, others, DIFFERENCE * sds)
        if found is None:  # on the way steps run off where there is nothing to climb
            return Failed.NO_MAXIMUM if k else Failed.NO_NUMBERS
        log_p, score, H = found
        sds = curvature_scale(H)
        concave = covariance_root(H)
        root = (concave or modified_root(H))[0]
        latent = root.T @ score
        decrement = 0.5 * float(latent @ latent)
        step = root @ latent
        if decrement < CLOSE:
            if concave is not None:
                at[others.places] += step
                root = others.pattern.entries(concave[1].T)
                return Maximum(at, log_p + decrement, others, root)
            if indefinite == INDEFINITE:
                return Failed.NO_MAXIMUM
            indefinite += 1
        longest = LONGEST * np.sqrt(len(others))
        at[others.places] += step * min(1.0, longest / np.sqrt(2 * decrement))
    return Failed.NO_MAXIMUM


def coupled(density: CountedDensity, points: Array, sds: Array, places: Coordinates) -> Others:
    """Which of the coordinates at ``places`` have second derivatives that are not zero at all of
    ``points`` (M, D); all of them where one cannot be had.

    Parameters
    ----------
    density
        log p̃ and its score, of which each point takes two a coordinate.
    points
        θ, (M, D).
    sds
        As of :func:`maximum_near`.
    places
        In θ, (k,), the governed before what governs them.
    """
    others = Others.all_coupled(places)
    with np.errstate(all="ignore"):
        found = [_curvature(density, at, others, DIFFERENCE * sds) for at in points]
    H = [each[2] for each in found if each is not None]
    return Others.ordered(places, not_zero(np.array(H))) if len(H) == len(points) else others


def quadratic_part(
    density: CountedDensity,
    at: Array,
    sds: Array,
    others: Others,
    rng: np.random.Generator,
    fewest: int = 0,
) -> Others:
    """``others`` less the few along which their curvature changes, as along a correlation of
    effects, so that log p̃ is about quadratic in those that stay.

    The change of H v for a random v, from a conditional sd on both sides of a point, is looked at.

    Parameters
    ----------
    density, others, sds
        As of :func:`maximum_near`.
    at
        The point, θ, (D,).
    rng
        Of v.
    fewest
        Coordinates that are held in any case.
    """
    for held in range(MOST_HELD):
        if not len(others):
            break
        v = np.zeros(len(at))
        v[others.places] = sds * rng.standard_normal(len(others))
        step = np.zeros((len(others.columns), len(at)))
        step[:, others.places] = steps_of(others.columns, sds)
        points = at + np.vstack([np.zeros_like(at), step, -step])
        ends = np.vstack([points + DIFFERENCE * v, points - DIFFERENCE * v])
        try:
            with np.errstate(all="ignore"):
                _, scores = density.log_density_gradient(ends)
        except RAISED:  # nothing is known of so far out: all may move
            break
        ahead, behind = np.split(scores[:, others.places], 2)
        with np.errstate(invalid="ignore"):  # where both are infinite
            along = sds * (ahead - behind) / (2 * DIFFERENCE)  # H v, in sds
        here, (plus, minus) = along[0], np.split(along[1:], 2)
        change = told(others.columns, 0.5 * (plus - minus))
        np.fill_diagonal(change, 0)  # skewness of one coordinate alone
        share = np.linalg.norm(change, axis=0) / np.linalg.norm(here)
        share = np.where(np.isfinite(share), share, 0.0)
        worst, second = int(np.argmax(share)), float(np.sort(share)[-2:][0])
        if held >= fewest and not share[worst] > max(LEAST_CHANGE, STANDS_OUT * second):
            break
        others, sds = others.without([others.places[worst]]), np.delete(sds, worst)
    return others


def with_shifted_modes(density: CountedDensity, found: Maximum) -> Coordinates:
    """Those of x whose own law is elsewhere than the maximum of all, the most first: log σ of a
    residual, as effects that are fitted leave less of it.

    With the rest integrated out by Laplace's method θ_k has another term, −log|Λ|/2: its slope
    times the sd of θ_k is by how many sds the mode moves. Of what most others are coupled with.
    """
    others = found.others
    sds = np.sqrt(np.diag(np.linalg.inv(found.precision)))
    looked_at = np.flatnonzero(np.isin(others.places, others.shared(MOST_SHARED)))
    shifts = np.zeros(len(looked_at))
    for n, k in enumerate(looked_at):
        ends = []
        for step in (-sds[k], sds[k]):
            at = found.theta.copy()
            at[others.places[k]] += step
            with np.errstate(all="ignore"):
                there = _curvature(density, at, others, DIFFERENCE * found.sds)
            if there is None:
                break
            rest = np.delete(np.delete(there[2], k, axis=0), k, axis=1)
            ends.append(np.linalg.slogdet(rest)[1])
        if len(ends) == 2:
            shifts[n] = abs(ends[1] - ends[0]) / 4
    most = np.argsort(-shifts, kind="stable")
    return others.places[looked_at[most[shifts[most] > MOST_SHIFT]]]


def _curvature(
    density: CountedDensity, at: Array, others: Others, h: Array
) -> tuple[float, Array, Array] | None:
    """log p̃, score and Hessian in x, by differences of steps ``h``; None where one is not finite.
    Of second order, at half the scores of `DifferenceHessian`: a law is drawn from, and weights
    correct it."""
    columns = others.columns
    along = np.zeros((len(columns), len(at)))
    along[:, others.places] = steps_of(columns, h)
    try:
        log_p, scores = density.log_density_gradient(np.vstack([at, at + along, at - along]))
    except RAISED:  # such numbers are an error there: the side ends before
        return None
    scores = scores[:, others.places]
    plus, minus = np.split(scores[1:], 2)
    H = np.where(others.coupled, hessian_from(columns, (plus - minus) / 2, h), 0.0)
    if not (np.isfinite(log_p[0]) and np.isfinite(H).all() and np.isfinite(scores[0]).all()):
        return None
    return float(log_p[0]), scores[0], H
