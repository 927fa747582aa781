"""Where a q has its mass, and whether it misses points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import Gaussian

# sds of log q below its mean, and nats more for small D, beyond which a point is outside q: those
# of a Gaussian's squared distance D + 5 √(2 D) + 9.
OUTSIDE_SDS, OUTSIDE_NATS = 5.0, 4.5
MOST = 0.5  # share of points that have to be outside for all of them to count so
# Nats by which p exceeds q on average over a basin inside q that counts as missed: a factor of 20,
# far beyond what skewness or tails leave of a fit whose weights serve.
UNDERRATED = 3.0
# Nats by which the mass of p exceeds that of q over draws outside q, up to which q has it all the
# same: where hundreds of coordinates have a common scale log q varies by hundreds of nats, and half
# of a proposal is another's.
COVERED = 2.0
ERRORS = 3.0  # standard errors by which a mean weight is lowered to be a bound, or a gain is higher


@dataclass(frozen=True)
class Misses:
    """Whether q misses points: more than half are outside q and p exceeds q there, or it exceeds q
    by far.

    Parameters
    ----------
    density
        log p̃.
    log_density_of_q
        log q, (M, D) -> (M,).
    edge
        log q below which a point is outside, of :func:`edge_of`.
    log_z
        log of the mass that q covers.
    mean, std
        q's, (D,).
    """

    density: CountedDensity
    log_density_of_q: Callable[[Array], Array]
    edge: float
    log_z: float
    mean: Array
    std: Array

    def __call__(self, points: Array, log_r: Array | None = None) -> bool:
        """Of points (M, D); where they are draws of a density r that is known at them, (M,), p has
        to have more mass there than q."""
        return self.of_values(*self.at(points), log_r)

    def at(self, points: Array) -> tuple[Array, Array]:
        """log p, normalised by what q covers, and log q at points (M, D), (M,) each."""
        with np.errstate(all="ignore"):
            log_p = self.density.log_density(points) - self.log_z
            return log_p, self.log_density_of_q(points)

    def of_values(self, log_p: Array, log_q: Array, log_r: Array | None = None) -> bool:
        """The same of points at which these are known."""
        with np.errstate(all="ignore"):
            if np.mean(beyond(self.edge, log_q)) > MOST:
                if log_r is None:
                    return True
                more = logsumexp(log_p - log_r) - logsumexp(log_q - log_r)
                return not more <= COVERED  # NaN where neither has a density
            more = log_p - log_q
            if not np.mean(more) > UNDERRATED:
                return False
            return log_r is None or _mean_by_mass(more, log_p - log_r) > UNDERRATED

    def of_each(self, points: Array) -> NDArray[np.bool_]:
        """Of points (M, D), each alone, (M,)."""
        log_p, log_q = self.at(points)
        with np.errstate(all="ignore"):
            return beyond(self.edge, log_q) | (log_p - log_q > UNDERRATED)


def _mean_by_mass(values: Array, log_ratios: Array) -> float:
    """Mean over p of values at draws (M,) of another density: a few of its draws may be where p
    has next to nothing, and q even less."""
    weights = np.exp(log_ratios - logsumexp(log_ratios))
    return float(np.sum(np.where(weights > 0, weights * values, 0.0)))


def beyond(edge: float, log_q: Array) -> NDArray[np.bool_]:
    """Of points with log q (M,) those outside q; NaN, which no draw of q has, is."""
    return ~(log_q >= edge)


def edge_of(log_q: Array) -> float:
    """log q below which a point is outside q, from log q of its draws (N,)."""
    return float(np.mean(log_q) - OUTSIDE_SDS * np.std(log_q) - OUTSIDE_NATS)


def is_outside(points: Array, log_density_of_q: Callable[[Array], Array], edge: float) -> bool:
    """Whether more than half of the points (N, D) are outside q."""
    with np.errstate(all="ignore"):
        return bool(np.mean(beyond(edge, log_density_of_q(points))) > MOST)


def is_inside(point: Array, q: LowRankGaussian | Gaussian) -> bool:
    """Whether a point (D,) is where a Gaussian has its mass, with the edge of `edge_of`."""
    D = q.dimension
    return squared_distance(q, point) <= D + OUTSIDE_SDS * np.sqrt(2 * D) + 2 * OUTSIDE_NATS


def squared_distance(q: LowRankGaussian | Gaussian, point: Array) -> float:
    """(θ − μ)ᵀ Σ⁻¹ (θ − μ)."""
    return float(2 * (q.log_density(q.mean[None]) - q.log_density(point[None]))[0])


def bound_by_weights(log_ratios: Array) -> tuple[float, float]:
    """Log of the mean of weights (N,) less three standard errors of it, and the error of that log;
    −∞ where nothing is left."""
    highest = float(np.max(log_ratios))
    if not np.isfinite(highest):
        return -np.inf, 0.0
    weights = np.exp(log_ratios - highest)
    error = float(np.std(weights) / np.sqrt(len(weights)))
    bound = float(np.mean(weights)) - ERRORS * error
    return (highest + float(np.log(bound)), error / bound) if bound > 0 else (-np.inf, 0.0)
