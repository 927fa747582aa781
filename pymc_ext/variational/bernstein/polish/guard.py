"""No flow is worse than the base it started from: a training that fails gives that back."""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.stages import FlowFit


def below_base(fit: FlowFit, z: Array, policy: Policy = POLICY) -> bool:
    """Whether the flow's ELBO is below its base's by more than Monte Carlo error.

    Parameters
    ----------
    fit
        The flow, on its density.
    z
        Normals (N, K), the same for both: errors that they share cancel.
    policy
        How many standard errors count.
    """
    y = z[:, : fit.flow.dimension]
    theta, log_det = fit.flow.base.forward(y)
    with np.errstate(all="ignore"):
        base_ratios = fit.density.log_density(theta) + log_det - standard_normal_logp(y)
    if not np.isfinite(base_ratios).all():
        return False  # the base's ELBO is −∞
    difference = fit.log_ratios(z) - base_ratios
    with np.errstate(invalid="ignore"):  # −∞ among them: then NaN, which is below
        se = np.std(difference) / np.sqrt(len(difference))
        return not np.mean(difference) >= -policy.standard_errors * se
