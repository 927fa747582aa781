"""Maxima of all other coordinates with a few held: a path of them along one of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pymc_ext.density import CountedDensity
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.trust_region import curvature_scale
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.curvature import covariance_root, modified_root
from pymc_ext.variational.gaussian.endless import RAISED
from pymc_ext.variational.hierarchical.columns import (
    Columns,
    each_column,
    few_columns,
    hessian_from,
    steps_of,
)

Coordinates = NDArray[np.integer]
GROWTH = 1.25  # of steps, from place to place
MOST_PLACES = 20  # on one side: a tail of two hundred sds
NEWTON_STEPS, CLOSE = 8, 0.05  # at one place; decrement (nats) at which they end
FIRST_STEPS = 40  # at the first place, to which no other has led
DIFFERENCE = 1e-3  # of a conditional sd, by which scores are differenced
# Share of the middle's conditional sds at which a side ends: 8.5 down along a log scale, where less
# than .1 % lies beyond; sums of precisions in the other governors' directions would be rounding.
SMALLEST = 2e-4
# Coordinates that are held for log p̃ to be quadratic in the others; the share of curvature that
# changes along one that is held, and how many times as much as along any other: correlations of
# effects have .1 to .15 and three times as much, logistic effects about as much as one another.
MOST_HELD, LEAST_CHANGE, STANDS_OUT = 3, 0.05, 2.0
LONGEST = 3.0  # conditional sds of one Newton step
MOST_SHIFT = 0.3  # sds between a mode of its own and that of all: a quarter of the draws' weights


@dataclass(frozen=True, eq=False)
class Maximum(ByValue):
    """Where log p̃ is highest with the governors held.

    Parameters
    ----------
    theta
        The point, (D,).
    log_density
        log p̃ there.
    root
        C with C Cᵀ = Λ⁻¹, the inverse of −H in the others, upper triangular, (D − G, D − G).
    """

    theta: Array
    log_density: float
    root: Array

    @property
    def sds(self) -> Array:
        """Of the others, each given all else, (D − G,)."""
        inverse = solve_triangular(self.root, np.eye(len(self.root)))
        return 1 / np.linalg.norm(inverse, axis=0)

    @property
    def log_p(self) -> float:
        """log p(t), up to a constant."""
        return self.log_density + float(np.log(np.diag(self.root)).sum())


def maxima_along(
    density: CountedDensity,
    middle: Maximum,
    j: int,
    others: Coordinates,
    step: float,
    fall: float,
    columns: Columns | None = None,
) -> tuple[Maximum, ...]:
    """From the middle on in both directions along θ_j, in the order of their places.

    A side ends where log p(θ_j) has fallen by ``fall`` nats, where sds have shrunk to `SMALLEST`,
    or where the others have no maximum: what lies beyond is left out, which makes the marginal's sd
    smaller and raises no alarm.

    Parameters
    ----------
    density, others, columns
        As of :func:`maximum_near`.
    step
        The first.
    middle
        The maximum from which it starts.
    j
        The coordinate.
    """

    def side(step: float) -> Iterator[Maximum]:
        last, here, highest = None, middle, middle.log_p
        for k in range(MOST_PLACES):
            at = here.theta.copy()
            if last is not None:  # the others go on as they went from the last place to this one
                at += GROWTH * (here.theta - last.theta)
            at[j] = here.theta[j] + step * GROWTH**k
            found = maximum_near(density, at, here.sds, others, columns=columns)
            if found is None:
                return
            yield found
            highest = max(highest, found.log_p)
            if found.log_p < highest - fall or np.any(found.sds < SMALLEST * middle.sds):
                return
            last, here = here, found

    return *reversed(list(side(-step))), middle, *side(step)


@np.errstate(all="ignore")  # a step too far ends where numbers are not finite
def maximum_near(
    density: CountedDensity,
    start: Array,
    sds: Array,
    others: Coordinates,
    steps: int = NEWTON_STEPS,
    columns: Columns | None = None,
) -> Maximum | None:
    """The maximum in ``others`` by Newton steps, of which the last one's Hessian is not its own.

    Parameters
    ----------
    density
        log p̃ and its score; a Hessian takes two scores a difference.
    start
        θ, (D,).
    sds
        Rough ones of the others, each given all else.
    others
        Coordinates that move, (D − G,), each of which the root lets depend on those behind it.
    steps
        At most.
    columns
        Of the Hessian's differences; None: one a coordinate.
    """
    at = start.copy()
    columns = each_column(len(others)) if columns is None else columns
    for _ in range(steps):
        found = _curvature(density, at, others, DIFFERENCE * sds, columns)
        if found is None:
            return None
        log_p, score, H = found
        sds = curvature_scale(H)
        concave = covariance_root(H)
        root = (concave or modified_root(H))[0]
        latent = root.T @ score
        decrement = 0.5 * float(latent @ latent)
        step = root @ latent
        if decrement < CLOSE:
            if concave is None:
                return None
            at[others] += step
            return Maximum(at, log_p + decrement, root)
        longest = LONGEST * np.sqrt(len(others))
        at[others] += step * min(1.0, longest / np.sqrt(2 * decrement))
    return None


def quadratic_part(
    density: CountedDensity,
    at: Array,
    sds: Array,
    others: Coordinates,
    rng: np.random.Generator,
    fewest: int = 0,
) -> Coordinates:
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
        v, step = np.zeros(len(at)), np.zeros((len(others), len(at)))
        v[others] = sds * rng.standard_normal(len(others))
        step[np.arange(len(others)), others] = sds
        points = at + np.vstack([np.zeros_like(at), step, -step])
        ends = np.vstack([points + DIFFERENCE * v, points - DIFFERENCE * v])
        try:
            with np.errstate(all="ignore"):
                ahead, behind = np.split(density.log_density_gradient(ends)[1][:, others], 2)
        except RAISED:  # nothing is known of so far out: all may move
            break
        along = sds * (ahead - behind) / (2 * DIFFERENCE)  # H v, in sds
        here, (plus, minus) = along[0], np.split(along[1:], 2)
        change = 0.5 * (plus - minus)
        np.fill_diagonal(change, 0)  # skewness of one coordinate alone
        share = np.linalg.norm(change, axis=1) / np.linalg.norm(here)
        share = np.where(np.isfinite(share), share, 0.0)
        worst, second = int(np.argmax(share)), float(np.sort(share)[-2:][0])
        if held >= fewest and not share[worst] > max(LEAST_CHANGE, STANDS_OUT * second):
            break
        others, sds = np.delete(others, worst), np.delete(sds, worst)
    return others


def sparse_columns(
    density: CountedDensity, found: Maximum, elsewhere: Array, others: Coordinates
) -> Columns:
    """Of Hessians in the others that vanish where those at a maximum and at another point do."""
    columns = each_column(len(others))
    inverse = solve_triangular(found.root, np.eye(len(others)))
    H = [inverse.T @ inverse]
    with np.errstate(all="ignore"):
        there = _curvature(density, elsewhere, others, DIFFERENCE * found.sds, columns)
    return few_columns(np.array([*H, there[2]])) if there is not None else columns


def with_shifted_modes(
    density: CountedDensity, found: Maximum, columns: Columns, others: Coordinates
) -> Coordinates:
    """Those of ``others`` whose own law is elsewhere than the maximum of all, the most first: log σ
    of a residual, as effects that are fitted leave less of it.

    With the rest integrated out by Laplace's method θ_k has another term, −log|Λ|/2: its slope
    times the sd of θ_k is by how many sds the mode moves.
    """
    sds = np.linalg.norm(found.root, axis=1)
    shifts = np.zeros(len(others))
    for k, sd in enumerate(sds):
        ends = []
        for step in (-sd, sd):
            at = found.theta.copy()
            at[others[k]] += step
            with np.errstate(all="ignore"):
                there = _curvature(density, at, others, DIFFERENCE * found.sds, columns)
            if there is None:
                break
            rest = np.delete(np.delete(there[2], k, axis=0), k, axis=1)
            ends.append(np.linalg.slogdet(rest)[1])
        if len(ends) == 2:
            shifts[k] = abs(ends[1] - ends[0]) / 4
    most = np.argsort(-shifts, kind="stable")
    return others[most[shifts[most] > MOST_SHIFT]]


def _curvature(
    density: CountedDensity, at: Array, others: Coordinates, h: Array, columns: Columns
) -> tuple[float, Array, Array] | None:
    """log p̃, score and Hessian in the others, by differences of steps ``h``; None where one is not
    finite. Of second order, at half the scores of `DifferenceHessian`: a law is drawn from, and
    weights correct it."""
    along = np.zeros((len(columns), len(at)))
    along[:, others] = steps_of(columns, h)
    try:
        log_p, scores = density.log_density_gradient(np.vstack([at, at + along, at - along]))
    except RAISED:  # such numbers are an error there: the side ends before
        return None
    scores = scores[:, others]
    plus, minus = np.split(scores[1:], 2)
    H = hessian_from(columns, (plus - minus) / 2, h)
    if not (np.isfinite(log_p[0]) and np.isfinite(H).all() and np.isfinite(scores[0]).all()):
        return None
    return float(log_p[0]), scores[0], H
