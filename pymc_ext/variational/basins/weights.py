r"""How much mass each component of a mixture stands for, by importance sampling.

All components draw equally often; a draw of any of them has the weight of the balance heuristic
(Veach & Guibas 1995; Owen & Zhou 2000, doi:10.1080/01621459.2000.10473909)

.. math:: \omega_n = \tilde p(\theta_n) \Big/ \tfrac1K \textstyle\sum_k q_k(\theta_n),

bounded where any component covers it. The weights of the mixture maximise :math:`\sum_n \omega_n
\log \sum_k w_k q_k(\theta_n)`, the entropy of p relative to q, by EM (Cappé, Douc, Guillin, Marin &
Robert 2008, doi:10.1007/s11222-008-9059-x).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from pymc_ext.density import CountedDensity
from pymc_ext.maths.psis import psislw
from pymc_ext.variational.core.mixture import Component, PosteriorMixture

DRAWS = 2_000  # of each component: they know a weight of .5 to .02 where the components fit
# EM steps: each moves mass between components that overlap, and those that do not are right after
# the first one.
STEPS = 50
LEAST_LOG_WEIGHT = -20.0  # of a component that has no mass, whose weight may not be zero


def weighted_mixture(
    density: CountedDensity, components: Sequence[Component], rng: np.random.Generator
) -> tuple[PosteriorMixture, float]:
    """The mixture of these components with the weights that fit p, and its log Z.

    Parameters
    ----------
    density
        log p̃, unconstrained.
    components
        Each with its own log density.
    rng
        Of the draws.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> from pymc_ext.variational.gaussian.posteriors import Gaussian
    >>> at = [Gaussian(np.array([m]), np.eye(1)) for m in (-5.0, 5.0)]
    >>> truth = PosteriorMixture(np.log([0.2, 0.8]), tuple(at))
    >>> density = CountedDensity(CallableDensity(truth.log_density, lambda t: -t, dimension=1))
    >>> q, log_z = weighted_mixture(density, at, np.random.default_rng(1))
    >>> np.exp(q.log_weights).round(2), bool(abs(log_z) < 0.01)
    (array([0.2, 0.8]), True)
    """
    D, K = components[0].dimension, len(components)
    theta = np.concatenate([c.forward(rng.standard_normal((DRAWS, D)))[0] for c in components])
    equal = PosteriorMixture(np.full(K, -np.log(K)), tuple(components))
    each = equal.log_densities(theta)  # (K, N)
    with np.errstate(all="ignore"):
        log_ratios = density.log_density(theta) - logsumexp(each - np.log(K), axis=0)
    log_ratios = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    log_z = float(logsumexp(log_ratios) - np.log(len(theta)))
    log_omega, _ = psislw(log_ratios)
    log_w = equal.log_weights
    for _ in range(STEPS if K > 1 else 0):
        joint = log_w[:, None] + each
        log_w = logsumexp(joint - logsumexp(joint, axis=0) + log_omega, axis=1)
        log_w = np.maximum(log_w, LEAST_LOG_WEIGHT)
        log_w = log_w - logsumexp(log_w)
    return PosteriorMixture(log_w, tuple(components)), log_z
