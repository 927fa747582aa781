"""From starts to the basins they lie in: climbs of all together, then a descent of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity, DensityInCoordinates
from pymc_ext.density.coordinates import InvertibleMap
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.batch_match_low_rank import DENSE
from pymc_ext.variational.gaussian.path import PathSettings, trajectory
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.missed.outside import OUTSIDE_NATS, Misses

# In q's scales, where a path is in q's own mode after a few iterations if it ends there; one that
# is elsewhere by then is followed on.
IN_SCALES = PathSettings(iterations=20)
# Of climbs that all starts begin with together: steps; the longest, in the distance to q's middle,
# so that 64 sds are seven steps; what is left of one that led down; of the rise that the slope
# promises the least part that must come (Armijo's); and the score, in √D, at rest.
STEPS, LONGEST, SHORTER, LEAST_RISE, AT_REST = 12, 0.5, 0.25, 1e-4, 0.3


def scales_of(theta: Array) -> Gaussian | DiagonalGaussian:
    """Coordinates in which q is about N(0, I)."""
    N, D = theta.shape
    if D <= DENSE and N > D:
        return Gaussian.of_draws(theta)
    return DiagonalGaussian(theta.mean(axis=0), theta.std(axis=0))


def at_home(
    density: CountedDensity, starts: Array, transport: InvertibleMap, misses: Misses
) -> NDArray[np.bool_]:
    """Of starts (M, D) those that a climb in q's coordinates brings to rest inside q, (M,).

    All climb together, by the score, which is Newton's step where q is the posterior; those that
    `STEPS` steps do not bring to rest are left to an optimiser.
    """
    along, D = DensityInCoordinates(density, transport), density.dimension
    home = np.zeros(len(starts), dtype=bool)
    with np.errstate(all="ignore"):
        v = transport.inverse(starts)
        left = np.flatnonzero(np.isfinite(v).all(axis=1))
        v, rate = v[left], np.ones(len(left))
        value, score = along.log_density_gradient(v)
        for step in range(STEPS + 1):
            square = (score**2).sum(axis=1)
            known = np.isfinite(value) & np.isfinite(square)
            rests = known & (square < AT_REST**2 * D)
            if rests.any():
                ends = transport.forward(v[rests])[0]
                home[left[rests]] = ~misses.of_each(ends)
            climbs = known & ~rests
            if step == STEPS or not climbs.any():
                break
            v, value, score, square, rate, left = (
                x[climbs] for x in (v, value, score, square, rate, left)
            )
            most = np.maximum(LONGEST * np.linalg.norm(v, axis=1), np.sqrt(D))
            rate = np.minimum(rate, most / np.sqrt(square))
            tried = v + rate[:, None] * score
            there, slope = along.log_density_gradient(tried)
            up = there > value + LEAST_RISE * rate * square
            v[up], value[up], score[up] = tried[up], there[up], slope[up]
            rate = np.where(up, 1.0, SHORTER * rate)
    return home


def into_basin(
    density: CountedDensity,
    start: Array,
    scales: Gaussian | DiagonalGaussian,
    is_news: Callable[[Array], bool],
) -> Array | None:
    """Where a path into the basin below ``start`` (D,) may begin: some nats above its bottom.

    None where it is not news. Most are q's own, whose bottom is a few steps away in q's scales.
    """
    u = scales.inverse(start[None])[0]
    points, _, losses = trajectory(DensityInCoordinates(density, scales), u, IN_SCALES)
    if not points or not is_news(scales.forward(points[-1][None])[0][0]):
        return None
    above = np.flatnonzero(np.array(losses) > losses[-1] + 0.5 * len(start) + OUTSIDE_NATS)
    return scales.forward(points[above[-1] if len(above) else 0][None])[0][0]
