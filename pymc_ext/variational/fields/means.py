r"""Globals that belong to the field: means and slopes, with which it is normal.

Given the scales a mean and its field are normal together, or nearly so, and the mean's own sd then
depends on the scales as it should: near a unit root an autoregression hardly knows its level, and
no marginal law of the level has such tails. Rue, Martino & Chopin (2009),
doi:10.1111/j.1467-9868.2008.00700.x, have them so.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.conditional import ByPlace, Conditional, NoMaximumError
from pymc_ext.variational.fields.evidence import Slope, slope_at

# Nats that a normal law may lose which does not follow a global that is one sd away: of a field in
# which one sd changes by a tenth. Those that lose next to nothing are taken together, and all
# together may lose what makes draws worth a fifth less.
LOST, NOTHING, LOST_IN_ALL = 0.01, 0.001, 0.1
# Normals by which these nats are estimated, to a sixth where one direction has them all.
PROBES = 64


def with_means(
    by_place: ByPlace, at: Conditional, slope: Slope, rng: np.random.Generator
) -> tuple[ByPlace, Conditional]:
    """The field with such globals among its coordinates, and its conditional, not at a maximum.

    One by one, the one that loses least first: what governs the sd of a mean may lose little before
    that is in the field. No more of them where the field has no maximum with the next.
    """
    left = LOST_IN_ALL
    while len(slope.sds):
        z = rng.standard_normal((PROBES, by_place.n))
        lost = np.array([_lost(by_place, at, slope, k, z) for k in range(len(slope.sds))])
        chosen = (lost < NOTHING) | (lost == lost.min())
        left -= lost[chosen].sum()
        if not (lost.min() < LOST and left > 0):
            break
        wider, point = by_place.with_means(chosen, at)
        try:
            there = wider.conditional(point, np.concatenate([at.sds, slope.sds[chosen]]))
            slope = slope_at(wider, there, slope.sds[~chosen])
        except (NoMaximumError, np.linalg.LinAlgError):
            break
        by_place, at = wider, there
    return by_place, at


def _lost(by_place: ByPlace, at: Conditional, slope: Slope, k: int, z: Array) -> float:
    r"""KL of N(x̂ + ∂x̂, Λ⁻¹) and the field's own law one sd along global k:
    ¼‖K⁻¹ (Λ′ − Λ) K⁻ᵀ‖² + ½‖Kᵀ (x̂′ − x̂ − ∂x̂)‖², by probes z (N, n)."""
    moved = slope.moved(at.point, slope.sds * np.eye(len(slope.sds))[k])
    try:
        there = by_place.conditional(moved, at.sds)
    except (NoMaximumError, np.linalg.LinAlgError):
        return np.inf
    change = at.root.whitened(there.root.precision_times(at.root.draws(z))) - z
    bent = at.root.normals((there.point - moved)[None, : by_place.n])[0]
    return float(0.25 * np.mean(np.sum(change**2, axis=1)) + 0.5 * bent @ bent)
