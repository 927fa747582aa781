r"""Last phase of a flow's training: tails of the latent variables as long as the posterior's.

Reverse KL leaves a tail of q too light where it has few draws; the importance weights of draws
from q say by how much. With smoothed weights w_i, each tail of the map s of `stretched_tails` is
fitted to them by maximum likelihood,

.. math:: \max_a \sum_i w_i \log q_a(v_i) \quad \text{over the latent } v_i \text{ beyond } 1.5,

which takes values of log p̃ only, no gradients. The largest weights are missing from any finite
number of draws, so that tails longer than the fit are tried too. Importance-weighted training sees
them no better, so that it starts from the longest ones: it can make them lighter where they are too
heavy, but has no draws to make them heavier.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from pymc_ext.maths.psis import psislw
from pymc_ext.maths.stretched_tails import START, excess, excess_inverse, excess_slope
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.latents import Normal
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage, keep_best


def fitted_tails(
    fit: FlowFit, plain: Stage, rng: np.random.Generator, policy: Policy = POLICY
) -> Array:
    """Amounts (L, 2, D) of stretching to try, the shortest tails first; none where L = 0.

    Only flows with the input map f1 and normal latent variables have tails to stretch. ``rng`` is
    of the draws that they are fitted to.
    """
    flow = fit.flow
    before = flow.stretch.copy()
    stretchable = flow.input_map.stretches and isinstance(flow.law, Normal)
    if not (stretchable and np.isfinite(plain.khat)):  # ±∞: hardly any weight, or all the same
        return np.empty((0, *before.shape))
    z = rng.standard_normal((policy.stretching_draws, flow.latent_dimension))
    fitted = _fitted(fit, z, policy)
    flow.stretch[...] = before
    return np.array([length * fitted for length in policy.stretching_lengths])


def stretch_tails(
    fit: FlowFit,
    z: Array,
    plain: Stage,
    floor: float,
    tails: Array,
    policy: Policy = POLICY,
) -> Stage | None:
    """Stretch to one of ``tails`` as :func:`keep_best` says."""
    names = (f"stretching tails to {length:g} of their fit" for length in policy.stretching_lengths)
    settings = zip(names, tails, strict=False)  # there may be no tails
    return keep_best(fit.flow.stretch, settings, fit, z, plain=plain, floor=floor, policy=policy)


def _fitted(fit: FlowFit, z: Array, policy: Policy = POLICY) -> Array:
    """a of each tail, (2, D); leaves it set."""
    tails = fit.flow.stretch
    for _ in range(policy.stretching_rounds):
        log_ratio = fit.log_ratios(z)
        finite = np.isfinite(log_ratio)
        weights = np.exp(psislw(log_ratio[finite])[0])
        tails[...] = [
            [_fit(sign * v, weights, a, policy) for v, a in zip(z[finite].T, present, strict=True)]
            for sign, present in zip((-1, 1), tails, strict=True)
        ]
    return tails.copy()


def _fit(z: Array, weights: Array, present: float, policy: Policy) -> float:
    """a of the right tail most likely for the weighted draws s(z) made with the present a."""
    beyond = z > START
    s, w = excess(z[beyond] - START, present), weights[beyond]

    def loss(a: float) -> float:
        t = excess_inverse(s, a)
        return float(w @ (0.5 * (START + t) ** 2 + np.log(excess_slope(t, a))))

    bounds = (0.0, policy.longest_stretch)
    return float(minimize_scalar(loss, bounds=bounds, method="bounded").x)
