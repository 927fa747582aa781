r"""Draws of what short chains found on a shoulder, beside those that a fit is weighted by.

With q what weights were of and r normal kernels about the points that the chains came to, a share
a of the draws is r's, and all of them are weighted by the mixture (the balance heuristic),

.. math:: w(\theta) = \tilde p(\theta) / [(1 - a)\, q(\theta) + a\, r(\theta)],

so that what lies on the shoulder counts, whatever part of it r covers, and no weight is more than
1/(1 − a) times that by q alone. The chains' points are few and at the end of the shoulder: of the
draws of r weighted so those where p exceeds q, taken by weight, are the middles of the kernels that
serve (population Monte Carlo), for values of log p̃ alone. They are drawn for that and weighted no
more: a kernel about a draw that is weighted hides the weight of that draw, and k̂ with it.

Veach & Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering,
doi:10.1145/218380.218498; Cappé, Guillin, Marin & Robert (2004), Population Monte Carlo,
doi:10.1198/106186004X12803.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from bridge.methods.method import Fit, WeightedDraws
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.missed.shoulders import kernels_about

__all__ = ["with_shoulder"]

SHARE = 0.1  # of the draws: of a shoulder worth 1 % of the mass each then counts a tenth of another
# Nats by which p exceeds q where kernels are: q has a seventh there of what it should have. Kernels
# about the chains' points alone, where it has a 400th, leave the slope between without draws.
UNDERRATED = 2.0
CHOSEN = 256  # draws, with repetition, about which kernels are


def with_shoulder(found: Fit, kernels: PosteriorMixture, seed: int) -> Fit | None:
    """The fit with a proposal that has kernels about a shoulder too; None where log q is not known
    there, as of a proposal without a density of its own.

    Parameters
    ----------
    found
        The fit, judged by its weights.
    kernels
        About points on the shoulder.
    seed
        Of draws about them, and of the order of all.
    """
    q = found.weighted
    if q is None or q.log_q is None or found.symmetry is not None:  # of images r is in one alone
        return None
    rng = np.random.default_rng([seed, 7])
    first, of_kernels = _weighed_together(found, q, kernels, rng)
    theta, lp, lq = first.theta[0], first.lp[0], first.lq[0]
    with np.errstate(all="ignore"):
        log_z = logsumexp(lp - lq) - np.log(len(lp))
        # never about draws that are weighted later: each would hide its own weight
        underrated = np.flatnonzero(of_kernels & (lp - log_z - q.log_q(theta) > UNDERRATED))
    if len(underrated) < 2:  # one has no spread
        return None
    of_each = softmax((lp - lq)[underrated])
    chosen = np.unique(rng.choice(underrated, size=CHOSEN, p=of_each))
    if len(chosen) < 2:
        return None
    spread = np.atleast_2d(np.cov(found.theta.reshape(-1, theta.shape[1]).T))
    return _with(found, kernels_about(theta[chosen], spread), seed)


def _with(found: Fit, kernels: PosteriorMixture, seed: int) -> Fit:
    """The fit with draws of these kernels too, and so with more draws."""
    q, more = found.weighted, found.more
    assert q is not None

    def with_more(draws: int) -> Fit:
        assert more is not None
        return _with(more(int(np.ceil((1 - SHARE) * draws))), kernels, seed)

    drawn, _ = _weighed_together(found, q, kernels, np.random.default_rng([seed, 8]))
    return replace(found, proposal=drawn, more=None if more is None else with_more)


def _weighed_together(
    found: Fit, q: WeightedDraws, kernels: PosteriorMixture, rng: np.random.Generator
) -> tuple[WeightedDraws, NDArray[np.bool_]]:
    """Draws of q and of kernels, in any order, with the density of both; which are of kernels."""
    log_q = q.log_q
    assert log_q is not None

    def log_mixture(theta: Array) -> Array:
        with np.errstate(all="ignore"):
            of_q, of_r = log_q(theta), kernels.log_density(theta)
        return np.logaddexp(np.log1p(-SHARE) + of_q, np.log(SHARE) + of_r)

    before = q.theta.reshape(-1, found.theta.shape[-1])
    count = int(np.ceil(SHARE / (1 - SHARE) * len(before)))
    theta = kernels.forward(rng.standard_normal((count, kernels.latent_dimension)))[0]
    with np.errstate(all="ignore"):
        lp = found.target.log_density(theta)
    lp = np.concatenate([q.lp.ravel(), np.where(np.isnan(lp), -np.inf, lp)])  # NaN: no weight
    theta = np.concatenate([before, theta])
    order = rng.permutation(len(theta))  # k̂ is taken in batches, each of both
    theta, lp = theta[order], lp[order]
    drawn = WeightedDraws(theta[None], lp[None], log_mixture(theta)[None], log_mixture)
    return drawn, order >= len(before)
