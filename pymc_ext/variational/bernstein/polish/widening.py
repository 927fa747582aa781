r"""Last phase of a flow's training: latent variables a little wider than the ELBO makes them.

Reverse KL leaves q too light far out, where it has few draws. Multiplying the scale α of n latent
variables by s makes q wider there, and where q was right costs n (s² − 1 − log s²)/2 ≈ n (s − 1)²
nats of ELBO. The cost is fixed, so that widening does not grow with the dimension, and a model's
few leading scalars, on which all else depends, bear most of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.bernstein_basis import inverse_softplus
from pymc_ext.variational.bernstein.polish.weighted import Stage, keep_best

Array = NDArray[np.floating]
COSTS = (0.015, 0.02, 0.03, 0.045)  # nats of ELBO where q was right; smaller ones can raise k̂
LEADING_SHARE = 0.7


def factors(cost: float, leading: int, dim: int) -> Array:
    """Factor of each latent variable, shape (dim,); ``leading`` of them are leading scalars."""
    if not 0 < leading < dim:
        return np.full(dim, 1 + np.sqrt(cost / dim))
    share = np.full(dim, (1 - LEADING_SHARE) / (dim - leading))
    share[:leading] = LEADING_SHARE / leading
    return 1 + np.sqrt(cost * share)


def widen(approx: Any, z: Array, plain: Stage, good: float, floor: float) -> Stage | None:
    """Widen as :func:`keep_best` says, the cheapest first; only the input map f1 has scales."""
    group = approx.group
    alpha = group.params_dict.get("alpha")
    if alpha is None:
        return None
    scale = np.logaddexp(0, alpha.get_value())
    settings = [
        (
            f"widening at {cost} nats",
            inverse_softplus(factors(cost, group.leading, group.ddim) * scale),
        )
        for cost in COSTS
    ]
    return keep_best(alpha, settings, approx, z, plain=plain, good=good, floor=floor)
