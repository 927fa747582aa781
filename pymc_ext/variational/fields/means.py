r"""Globals that belong to the field: means and slopes, with which it is normal.

Given the scales a mean and its field are normal together, or nearly so, and the mean's own sd then
depends on the scales as it should: near a unit root an autoregression hardly knows its level, and
no marginal law of the level has such tails. Rue, Martino & Chopin (2009),
doi:10.1111/j.1467-9868.2008.00700.x, have them so.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.conditional import (
    DIFFERENCE,
    ByPlace,
    Conditional,
    NoMaximumError,
)
from pymc_ext.variational.fields.evidence import START_SD, Following, following
from pymc_ext.variational.fields.probe import Places

# Nats that a normal law may lose which does not follow a global that is one sd away: of a field in
# which one sd changes by a tenth. Those that lose next to nothing are taken together, and so are
# those alike, up to so many times the least.
LOST, NOTHING, ALIKE = 0.01, 0.001, 2.0
# What all may lose, so that draws are worth half as many at most, and each of some effects, which
# otherwise were climbed together with their scale, where they have no maximum, and then an axis
# each; beside these their level, but no scale of residuals, whose tail weights then did not know.
LOST_IN_ALL, LOST_OF_EFFECTS, LOST_BESIDE = 0.3, 0.05, 0.02
# Sds of the field by which a global moves it at least, to be one of its means, and to be a level.
MOVES, LEVEL = 1e-3, 0.45
# Normals by which these nats are estimated, to a sixth where one direction has them all.
PROBES = 64


def with_means(
    by_place: ByPlace, point: Array, rng: np.random.Generator, before: Places | None = None
) -> tuple[ByPlace, Conditional]:
    """The field with such globals among its coordinates, by ``point`` (D,), and its conditional.

    The one that loses least first, with those alike, as effects of one scale are: what governs the
    sd of a mean may lose little before that is in the field. No more of them where the field has no
    maximum with the next. Those that were chosen ``before``, at another point, join together where
    they may: of effects of one scale a few alone would leave it looking like a mean.
    """
    n, left = by_place.n, LOST_IN_ALL
    at = by_place.conditional(point, np.full(n, START_SD))
    found = following(by_place, at, np.full(len(point) - n, START_SD))
    while len(found.sds):
        z = rng.standard_normal((PROBES, by_place.n))
        lost = np.array([_lost(by_place, at, found, k, z) for k in range(len(found.sds))])
        may = lost < _most(by_place, at, found)
        chosen = may & (lost <= max(NOTHING, ALIKE * lost[may].min(initial=np.inf)))
        if before is not None:
            again = np.isin(by_place.near.order[by_place.n :], before)
            chosen = again if may[again].all() and again.any() else chosen
            before = None
        left -= lost[chosen].sum()
        if not (chosen.any() and left > 0):
            break
        wider, point = by_place.with_means(chosen, at)
        try:
            there = wider.conditional(point, np.concatenate([at.sds, found.sds[chosen]]))
            found = following(wider, there, found.sds[~chosen])
        except (NoMaximumError, np.linalg.LinAlgError):
            break
        by_place, at = wider, there
    return by_place, at


def _most(by_place: ByPlace, at: Conditional, found: Following) -> Array:
    """What each global may lose, (g,): nothing where it does not move the field, as the scale of
    effects that are in no field yet."""
    near = by_place.near
    moves = np.linalg.norm(at.root.normals(found.sds[:, None] * found.follows), axis=1)
    effects = np.isin(near.order[near.field :], near.effects)
    beside = effects.any() and moves > LEVEL
    most = np.where(effects, LOST_OF_EFFECTS, np.where(beside, LOST_BESIDE, LOST))
    return np.where(moves > MOVES, most, 0.0)


def _lost(by_place: ByPlace, at: Conditional, found: Following, k: int, z: Array) -> float:
    r"""KL of N(x̂ + ∂x̂, Λ⁻¹) and the field's own law one sd along global k:
    ¼‖K⁻¹ (Λ′ − Λ) K⁻ᵀ‖² + ½‖Kᵀ (x̂′ − x̂ − ∂x̂)‖², by probes z (N, n), and ¼(λ′/λ − 1)² of its own
    curvature, as that of the scale of means that are no part of the field.
    """
    if not found.curvature[k] > 0:
        return np.inf
    n, step = by_place.n, np.eye(len(found.sds))[k] * found.sds
    moved = found.moved(at.point, step)
    further = found.moved(moved, DIFFERENCE * step)
    try:
        _, (score, after) = by_place.scores(np.stack([moved, further]))
        there = by_place.field(moved, score, at.sds)
    except (NoMaximumError, np.linalg.LinAlgError):
        return np.inf
    change = at.root.whitened(there.precision_times(at.root.draws(z))) - z
    bent = at.root.normals(there.covariance_times(score[None, :n]))[0]
    own = (score - after) @ (further - moved) / DIFFERENCE**2 - 1
    return float(0.25 * (np.mean(np.sum(change**2, axis=1)) + own**2) + 0.5 * bent @ bent)
