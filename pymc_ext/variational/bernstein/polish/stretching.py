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

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from pymc_ext.arviz_versions import psislw
from pymc_ext.maths.stretched_tails import START, excess, excess_inverse, excess_slope
from pymc_ext.variational.bernstein.latents import Normal
from pymc_ext.variational.bernstein.polish.weighted import Stage, keep_best

Array = NDArray[np.floating]
DRAWS, ROUNDS = 50_000, 2  # behind a fit of the tails; each round has new weights
LARGEST = 4.0  # a of a fit
LENGTHS = (1.0, 1.5)  # of the fitted a


def fitted_tails(approx: Any, plain: Stage, seed: Any) -> Array:
    """Amounts (L, 2, D) of stretching to try, the shortest tails first; none where L = 0.

    Only flows with the input map f1 and normal latent variables have tails to stretch. ``seed`` is
    of the draws that they are fitted to.
    """
    group = approx.group
    before = group.stretch.get_value()
    stretchable = group.input_map == "f1" and isinstance(group.law, Normal)
    if not (stretchable and np.isfinite(plain.khat)):  # ±∞: hardly any weight, or all the same
        return np.empty((0, *before.shape))
    fitted = _fitted(approx, approx.latent_draws(DRAWS, seed))
    group.stretch.set_value(before)
    return np.array([length * fitted for length in LENGTHS])


def stretch(
    approx: Any, z: Array, plain: Stage, good: float, floor: float, tails: Array
) -> Stage | None:
    """Stretch to one of ``tails`` as :func:`keep_best` says."""
    names = (f"stretching tails to {length:g} of their fit" for length in LENGTHS)
    settings = zip(names, tails, strict=False)  # there may be no tails
    return keep_best(approx.group.stretch, settings, approx, z, plain=plain, good=good, floor=floor)


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
