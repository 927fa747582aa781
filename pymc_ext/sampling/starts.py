"""Where chains start: importance-weighted draws of q, all different, or points of the user's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.density import Density, TransportMap
from pymc_ext.density.check import DensityError
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.weights import ESS_SHARE_NEGLIGIBLE, KHAT_USABLE, effective_draws
from pymc_ext.variational.missed.shoulders import SHARE_WRONG

# Draws of q that are weighed: with fewer the starts would seldom leave q's bulk, and 1,000 values
# of log p̃ cost less than the first block of gradients.
WEIGHED = 1000

MEMBERS = ("dimension", "latent_dimension", "forward", "pullback")  # of what serves as coordinates

# Most starts in modes outside q, the heaviest: a density in steps has dozens.
MOST_IN_MODES = 8


def require_law(transport: TransportMap, dimension: int) -> None:
    """DensityError unless q serves as coordinates and has a finite density where they are zero.

    A Gaussian whose covariance is singular or holds NaN has none.
    """
    lacking = [name for name in MEMBERS if not hasattr(transport, name)]
    if lacking:
        raise DensityError(
            "coordinates must be those of a fitted q, got a "
            f"{type(transport).__name__} without {', '.join(lacking)}: give another q, or none "
            "(None)"
        )
    sizes = (transport.dimension, transport.latent_dimension)
    if sizes != (dimension, dimension):
        raise DensityError(
            f"coordinates must have {dimension} dimensions, as log p̃ has, and as many normals "
            f"behind them, got a {type(transport).__name__} with {sizes[0]} and {sizes[1]}"
        )
    with np.errstate(all="ignore"):
        theta, log_q = transport.forward(np.zeros((1, transport.latent_dimension)))
    if not (np.isfinite(theta).all() and np.isfinite(log_q).all()):
        raise DensityError(
            "coordinates must be those of a law with a density, such as a Gaussian whose "
            f"covariance is positive definite, got a {type(transport).__name__} whose log density "
            f"at latents 0 is {log_q[0]:g}: give another q, or none (None)"
        )


@dataclass(frozen=True)
class Starts:
    """Starts v (count, D), and whether q is as good as what is searched for shoulders before chains
    run (:func:`~pymc_ext.variational.missed.shoulders.may_have`)."""

    v: Array
    nearly_right: bool


def weighted_starts(
    density: Density, transport: TransportMap, count: int, rng: np.random.Generator
) -> Starts | None:
    """``count`` different v by Pareto-smoothed weights p̃/q.

    Without replacement. None where fewer draws of q than that have a finite log p̃: its coordinates
    are of no use.
    """
    v = rng.standard_normal((WEIGHED, transport.latent_dimension))
    theta, log_q = transport.forward(v)
    with np.errstate(all="ignore"):
        log_ratio = density.log_density(theta) - log_q
    inside = np.isfinite(log_ratio)
    if inside.sum() < count:
        return None
    v, (log_weights, khat) = v[inside], psislw(log_ratio[inside])
    share = effective_draws(log_ratio[inside]) / WEIGHED
    # Gumbel's trick draws without replacement on the log scale, where no weight underflows
    keys = log_weights + rng.gumbel(size=len(v))
    alike = share >= ESS_SHARE_NEGLIGIBLE  # whatever k̂ is then
    nearly_right = alike or (float(khat) < KHAT_USABLE and share >= SHARE_WRONG)
    return Starts(v[np.argsort(-keys)[:count]], nearly_right)


def own_starts(
    density: Density, points: Array | None, transport: TransportMap | None
) -> tuple[Array, Array]:
    """The user's starts θ (M, D), and the same in v where there is a map.

    Raises
    ------
    DensityError
        Another shape, no finite log p̃ at one of them, or a map that has no inverse.
    """
    D = density.dimension
    theta = np.empty((0, D)) if points is None else np.atleast_2d(np.asarray(points, dtype=float))
    if theta.shape[1:] != (D,) or theta.ndim != 2 or not np.isfinite(theta).all():
        raise DensityError(f"extra_starts must be finite, of shape (M, {D}), got {theta.shape}")
    if not len(theta):
        return theta, theta
    outside = np.flatnonzero(~np.isfinite(density.log_density(theta)))
    if len(outside):
        raise DensityError(
            f"log p̃ is not finite at extra_starts {outside.tolist()}: give points of the support"
        )
    if transport is None:
        return theta, theta
    inverse = getattr(transport, "inverse", None)
    if inverse is None:
        raise DensityError(
            f"extra_starts need the inverse of the map, which {type(transport).__name__} does not "
            "have: leave them out, or fit a Gaussian"
        )
    return theta, np.asarray(inverse(theta))
