"""The marginal map that is nearest to a law known at some places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from pymc_ext.maths.marginal import MOST_SKEW, TAILS, Marginal
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array

NODES = np.linspace(-4.5, 4.5, 91)  # of the integral over the new latent
FARTHEST, MOST_WIDER = 2.0, 1.5  # sds by which a marginal moves at most, and log of its factor


def best_marginal(
    log_p: Callable[[Array], Array], start: Array
) -> tuple[float, float, Marginal] | None:
    """Shift, log factor and m with which shift + factor m(v), v ~ N(0, 1), is nearest to a law.

    ``log_p`` is that law's log density but for a constant, (K,) -> (K,); ``start`` has shift, log
    factor, skew and both tails. None where nothing is nearer than that.
    """
    weights = np.exp(standard_normal_logp(NODES[:, None]))
    weights /= weights.sum()

    def loss(x: Array) -> float:
        made, slope = (m[:, 0] for m in _marginal(x).forward(NODES[:, None]))
        factor = np.exp(x[1])
        return -float(weights @ (log_p(x[0] + factor * made) + np.log(factor * slope)))

    limits = FARTHEST, MOST_WIDER, MOST_SKEW
    bounds = [*((-x, x) for x in limits), TAILS, TAILS]
    found = optimize.minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    if not found.fun < loss(start):
        return None
    return float(found.x[0]), float(found.x[1]), _marginal(found.x)


def _marginal(x: Array) -> Marginal:
    return Marginal(x[2:3], x[3:, None])


def lines(t: Array, at: Array, values: Array) -> Array:
    """Straight lines from point to point, the outermost of which go on."""
    slopes = np.diff(values) / np.diff(at)
    beyond = np.minimum(t - at[0], 0) * slopes[0] + np.maximum(t - at[-1], 0) * slopes[-1]
    return np.interp(t, at, values) + beyond
