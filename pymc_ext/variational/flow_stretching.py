r"""Last phase of a flow's training: tails of the latent variables as long as the posterior's.

Reverse KL leaves a tail of q too light where it has few draws; the importance weights of draws
from q say by how much. With smoothed weights w_i, each tail of the map s of `stretched_tails` is
fitted to them by maximum likelihood,

.. math:: \max_a \sum_i w_i \log q_a(v_i) \quad \text{over the latent } v_i \text{ beyond } 1.5,

which takes values of log p̃ only, no gradients. The largest weights are missing from any finite
number of draws, so that tails longer than the fit are tried too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from pymc_ext.arviz_versions import psislw
from pymc_ext.maths.stretched_tails import START, excess, excess_inverse, excess_slope
from pymc_ext.variational.bernstein_latents import Normal
from pymc_ext.variational.importance_weighted import SCATTER, Stage, judge

Array = NDArray[np.floating]
DRAWS, ROUNDS = 50_000, 2  # behind a fit of the tails; each round has new weights
LARGEST = 4.0  # a of a fit
LENGTHS = (1.0, 1.5)  # of the fitted a


def stretch(
    approx: Any, z: Array, plain: Stage, good: float, floor: float, seed: Any
) -> Stage | None:
    """Set the tails to the shortest with k̂ < ``good``, or those with the lowest k̂.

    Parameters
    ----------
    approx
        A :class:`BernsteinApproximation`; only with the input map f1 and normal latent variables.
    z
        Normals behind the draws on which ``plain`` was judged.
    plain
        The present parameters, judged.
    good
        k̂ beyond which nothing more is to be gained.
    floor
        ELBO below which nothing is stretched.
    seed
        Of the draws that the tails are fitted to.

    Returns
    -------
    Stage or None
        The one chosen; None, with the tails as they were, if k̂ falls by less than its scatter.
    """
    group = approx.group
    stretchable = group.input_map == "f1" and isinstance(group.law, Normal)
    if not (stretchable and np.isfinite(plain.khat)):  # ±∞: hardly any weight, or all the same
        return None
    before = group.stretch.get_value()
    fitted = _fitted(approx, approx.latent_draws(DRAWS, seed))
    best, chosen = plain, before
    for length in LENGTHS:
        group.stretch.set_value((length * fitted).astype(before.dtype))
        stage = judge(f"stretching tails to {length:g} of their fit", approx, z)
        if stage.khat < best.khat and stage.elbo >= floor:
            best, chosen = stage, group.stretch.get_value()
        if best.khat < good:
            break
    gained = best.khat < plain.khat - SCATTER
    group.stretch.set_value(chosen if gained else before)
    return best if gained else None


def _fitted(approx: Any, z: Array) -> Array:
    """a of each tail, (2, D); leaves it set."""
    tails = approx.group.stretch
    for _ in range(ROUNDS):
        log_ratio = approx.log_ratios(z)
        finite = np.isfinite(log_ratio)
        weights = np.exp(psislw(log_ratio[finite])[0])
        sides = [
            [_fit(sign * v, weights, a) for v, a in zip(z[finite].T, present, strict=True)]
            for sign, present in zip((-1, 1), tails.get_value(), strict=True)
        ]
        tails.set_value(np.array(sides, dtype=tails.dtype))
    return tails.get_value()


def _fit(z: Array, weights: Array, present: float) -> float:
    """a of the right tail most likely for the weighted draws s(z) made with the present a."""
    beyond = z > START
    s, w = excess(z[beyond] - START, present), weights[beyond]

    def loss(a: float) -> float:
        t = excess_inverse(s, a)
        return float(w @ (0.5 * (START + t) ** 2 + np.log(excess_slope(t, a))))

    return float(minimize_scalar(loss, bounds=(0.0, LARGEST), method="bounded").x)
