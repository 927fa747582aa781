r"""The globals' own posterior by Laplace's method, and its maximum.

Given the globals η the locals have a maximum x̂(η) and a precision Λ(η) there:

.. math:: \log p(\eta \mid y) \approx \log\tilde p(\hat x(\eta), \eta)
          - \tfrac12 \log\det \Lambda(\eta) + \text{const}.

A scale and its field are found together so, where steps on both creep: what the field's spread says
of its scale depends on the scale, as in the EM algorithm. Tierney & Kadane (1986),
doi:10.1080/01621459.1986.10478240; Rue, Martino & Chopin (2009),
doi:10.1111/j.1467-9868.2008.00700.x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from pymc_ext.maths.types import Array
from pymc_ext.maths.walled import walled
from pymc_ext.variational.fields.conditional import (
    DIFFERENCE,
    ByPlace,
    Conditional,
    NoMaximumError,
)

START_SD = 0.1  # of everything, before a curvature is known
# Sds by which a global moves for a slope: log det may bend fifty times as much as log p̃ along x̂.
ALONG = 0.001
APART = 0.5  # sds between a maximum and the slopes that make a Hessian
MOST_CLIMBS, MOST_STEPS = 4, 30  # each in the coordinates of where the last one ended
# After which the maximum is given up, as that of items' scales, whose own scale runs to zero: as
# many as a dense map takes. All of BYM2 on 1,600 sites took 8,100.
MOST_SCORES = 10_000
FLAT = 0.05  # nats an sd: the maximum is within a twentieth of one
LITTLE = FLAT**2 / 2  # nats to it from there: where a step or a climb gains less, it was the last


@dataclass(frozen=True)
class Following:
    """How the locals' maximum moves with the globals, at a conditional.

    Parameters
    ----------
    follows
        ∂x̂/∂η, (g, n).
    curvature
        −∂² log p̃(x̂(η), η)/∂η², of each given the others, (g,).
    sds
        1/√curvature, where that is positive, (g,).
    """

    follows: Array
    curvature: Array
    sds: Array

    def moved(self, point: Array, move: Array) -> Array:
        """``point`` (D,) with its globals moved by (g,), and its locals as they follow."""
        return point + np.concatenate([move @ self.follows, move])


@dataclass(frozen=True)
class Slope(Following):
    """How the evidence changes with the globals besides: ``gradient`` is ∂ evidence/∂η, (g,)."""

    gradient: Array


class TooManyScoresError(ArithmeticError):
    """The globals' evidence was climbed for `MOST_SCORES` and has no maximum yet."""


def highest(by_place: ByPlace, start: Array) -> tuple[Conditional, Slope]:
    """The maximum, from ``start`` (D,) by place.

    Raises
    ------
    TooManyScoresError
        It was not reached by `MOST_SCORES`.
    NoMaximumError
        Newton's steps on the locals reach no maximum.
    numpy.linalg.LinAlgError
        The locals' precision is not positive definite beside their maximum.
    """
    n, last = by_place.n, by_place.density.gradients + MOST_SCORES
    at = by_place.conditional(start, np.full(n, START_SD))
    slope = slope_at(by_place, at, np.full(len(start) - n, START_SD))
    for _ in range(MOST_CLIMBS):
        if np.abs(slope.gradient * slope.sds).max(initial=0.0) < FLAT:
            break
        before = at.evidence
        at, slope = _climbed(by_place, at, slope, last)
        if at.evidence - before < LITTLE:
            break
    return at, slope


def slope_at(by_place: ByPlace, at: Conditional, sds: Array) -> Slope:
    """By differences of ``sds`` (g,); x̂ follows to first order, which is enough at a maximum."""
    found = following(by_place, at, sds)
    gradient = np.empty(len(sds))
    for k, step in enumerate(ALONG * found.sds):
        point = found.moved(at.point, step * np.eye(len(sds))[k])
        (log_p,), (score,) = by_place.scores(point[None])
        # by the differences that the evidence here is by: their error cancels
        rise = float(log_p) - by_place.field(point, score, at.scale).log_det - at.evidence
        gradient[k] = rise / step + 0.5 * step * max(found.curvature[k], 0.0)
    return Slope(found.follows, found.curvature, found.sds, gradient)


def following(by_place: ByPlace, at: Conditional, sds: Array) -> Following:
    """By differences of ``sds`` (g,)."""
    n, g = by_place.n, len(sds)
    if g == 0:
        return Following(np.zeros((0, n)), np.zeros(0), sds)
    points = np.tile(at.point, (g, 1))
    points[:, n:] += DIFFERENCE * np.diag(sds)
    rows = (at.score - by_place.scores(points)[1]) / (DIFFERENCE * sds[:, None])
    follows = -at.root.covariance_times(rows[:, :n])
    own = np.diag(rows[:, n:]) + np.einsum("gn,gn->g", rows[:, :n], follows)
    sds = np.where(own > 0, 1 / np.sqrt(np.where(own > 0, own, 1.0)), sds)
    return Following(follows, own, sds)


def information(by_place: ByPlace, at: Conditional, slope: Slope) -> Array:
    """Minus the Hessian of the evidence in the globals, (g, g), at its maximum."""
    g = len(slope.sds)
    gradients = np.empty((2, g, g))
    for k, step in enumerate(APART * slope.sds):
        for side, sign in enumerate((-1, 1)):
            point = slope.moved(at.point, sign * step * np.eye(g)[k])
            there = by_place.conditional(point, at.sds)
            gradients[side, k] = slope_at(by_place, there, slope.sds).gradient
    found = (gradients[0] - gradients[1]) / (2 * APART * slope.sds[:, None])
    return np.asarray(0.5 * (found + found.T))


def _climbed(
    by_place: ByPlace, at: Conditional, slope: Slope, last: int
) -> tuple[Conditional, Slope]:
    """The highest point of some steps from ``at``, in units of its sds, up to score ``last``."""
    best = at, slope

    def loss(u: Array) -> tuple[float, Array]:
        nonlocal best
        if by_place.density.gradients > last:
            raise TooManyScoresError(f"no maximum after {MOST_SCORES:,} scores")
        found = by_place.conditional(slope.moved(at.point, u * slope.sds), at.sds)
        its = slope_at(by_place, found, slope.sds)
        if found.evidence > best[0].evidence:
            best = found, its
        return -found.evidence, -its.gradient * slope.sds

    minimize(
        walled(loss, (NoMaximumError, np.linalg.LinAlgError)), np.zeros(len(slope.sds)),
        jac=True, method="L-BFGS-B",
        options={"maxiter": MOST_STEPS, "gtol": FLAT / 2, "ftol": LITTLE / abs(at.evidence)},
    )  # fmt: skip
    return best
