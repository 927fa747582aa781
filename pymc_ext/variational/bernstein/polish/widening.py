r"""Last phase of a flow's training: latent variables a little wider than the ELBO makes them.

Reverse KL leaves q too light far out, where it has few draws. Multiplying the scale α of n latent
variables by s makes q wider there, and where q was right costs n (s² − 1 − log s²)/2 ≈ n (s − 1)²
nats of ELBO. The cost is fixed, so that widening does not grow with the dimension, and a model's
few leading scalars, on which all else depends, bear most of it.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.bernstein_coefficients import inverse_softplus
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage, keep_best


def factors(cost: float, leading: int, dim: int, share: float) -> Array:
    """Factor of each latent variable, (dim,); ``leading`` scalars bear ``share`` of the cost."""
    if not 0 < leading < dim:
        return np.full(dim, 1 + np.sqrt(cost / dim))
    shares = np.full(dim, (1 - share) / (dim - leading))
    shares[:leading] = share / leading
    return 1 + np.sqrt(cost * shares)


def widen(
    fit: FlowFit,
    z: Array,
    plain: Stage,
    floor: float,
    policy: Policy = POLICY,
) -> Stage | None:
    """Widen as :func:`keep_best` says, the cheapest first; only the input map f1 has scales."""
    flow = fit.flow
    alpha = flow.values.get("alpha")
    if alpha is None:
        return None
    scale, share = np.logaddexp(0, alpha), policy.leading_share
    settings = [
        (
            f"widening at {cost} nats",
            inverse_softplus(factors(cost, flow.leading, flow.dimension, share) * scale),
        )
        for cost in policy.widening_costs
    ]
    return keep_best(alpha, settings, fit, z, plain=plain, floor=floor, policy=policy)
