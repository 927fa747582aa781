"""Whether draws of q itself, without their weights, are those of the posterior."""

from __future__ import annotations

import numpy as np

from bridge.measures.limits import MEAN_WRONG, RATIO_WRONG
from bridge.methods.method import Fit
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array

__all__ = ["own_error"]


def own_error(found: Fit, weights: Array) -> str | None:
    """What is wrong with q's own draws, in words; None where no mean is more than ``MEAN_WRONG``
    sds off, and no sd by more than ``RATIO_WRONG``.

    Weights repair q, and are often of a proposal with heavier tails beside it: the draws that they
    give may be trusted where q is half as wide as the posterior.

    Parameters
    ----------
    found
        The fit; coordinates are unconstrained.
    weights
        Of its :attr:`Fit.weighted` draws, trusted, of any shape, summing to 1.
    """
    drawn = found.weighted
    assert drawn is not None  # it has weights
    D, w = found.theta.shape[-1], weights.ravel()
    q, theta = found.theta.reshape(-1, D), drawn.theta.reshape(-1, D)
    mean = w @ theta
    sd = np.sqrt(w @ (theta - mean) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):  # one draw may have all the weight
        off, ratio = (q.mean(axis=0) - mean) / sd, q.std(axis=0) / sd
        widths = np.abs(np.log(ratio))
    names = value_names(found.target.density)
    i, j = int(np.argmax(np.abs(off))), int(np.argmax(widths))
    if not widths[j] <= np.log(RATIO_WRONG):
        return f"its own draws have an sd of {names[j]} of {ratio[j]:.2f} times the weighted ones'"
    if not abs(off[i]) <= MEAN_WRONG:
        return f"its own draws have a mean of {names[i]} {off[i]:+.2f} sds from the weighted ones'"
    return None
