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
from scipy.special import logsumexp, softmax

from bridge.methods.method import Fit, LogDensity, WeightedDraws
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.weights import weighted_moments
from pymc_ext.variational.missed.kernels import Kernels, kernels_about
from pymc_ext.variational.missed.missed_mass import OF_A_SHOULDER

__all__ = ["widens", "with_shoulder"]

SHARE = 0.1  # of the draws: of a shoulder worth 1 % of the mass each then counts a tenth of another
# Nats by which p exceeds q where kernels are: q has a seventh there of what it should have. Kernels
# about the chains' points alone, where it has a 400th, leave the slope between without draws.
UNDERRATED = 2.0
CHOSEN = 256  # draws, with repetition, about which kernels are


def with_shoulder(found: Fit, kernels: Kernels, seed: int) -> Fit | None:
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
    theta, lp = _drawn(found, kernels, _beside(q), np.random.default_rng([seed, 7]))
    log_weights = lp - _log_mixture(q.log_q, kernels)(theta)
    with np.errstate(all="ignore"):
        log_z = logsumexp(q.lp - q.lq) - np.log(q.lp.size)
        underrated = np.flatnonzero(lp - log_z - q.log_q(theta) > UNDERRATED)
    if not len(underrated):
        return None
    rng, of_each = np.random.default_rng([seed, 9]), softmax(log_weights[underrated])
    chosen = np.unique(rng.choice(underrated, size=CHOSEN, p=of_each))
    if len(chosen) < 2:  # one has no spread
        return None
    cov = np.atleast_2d(np.cov(found.theta.reshape(-1, theta.shape[1]).T))
    return _with(found, kernels_about(theta[chosen], cov), seed)


def widens(found: Fit, weights: Array | None, wider: Fit, its_weights: Array | None) -> bool:
    """Whether draws of a shoulder make an sd as much larger as it may be without mattering; where
    one of the two has no weights nobody knows."""
    variances = list[Array]()
    for fit, w in ((found, weights), (wider, its_weights)):
        if fit.weighted is None or w is None:
            return True
        theta = fit.weighted.theta.reshape(-1, fit.theta.shape[-1])
        variances.append(weighted_moments(theta, w.ravel())[1] ** 2)
    return bool(np.any(variances[1] > (1 + OF_A_SHOULDER) * variances[0]))


def _with(found: Fit, kernels: Kernels, seed: int) -> Fit:
    """The fit with draws of these kernels too, and so with more draws."""
    q, more = found.weighted, found.more
    assert q is not None and q.log_q is not None

    def with_more(draws: int) -> Fit:
        assert more is not None
        return _with(more(int(np.ceil((1 - SHARE) * draws))), kernels, seed)

    rng, log_mixture = np.random.default_rng([seed, 8]), _log_mixture(q.log_q, kernels)
    theta, lp = _drawn(found, kernels, _beside(q), rng)
    theta = np.concatenate([q.theta.reshape(-1, theta.shape[1]), theta])
    lp = np.concatenate([q.lp.ravel(), lp])
    order = rng.permutation(len(theta))  # k̂ is taken in batches, each of both
    theta, lp = theta[order], lp[order]
    drawn = WeightedDraws(theta[None], lp[None], log_mixture(theta)[None], log_mixture)
    return replace(found, proposal=drawn, more=None if more is None else with_more)


def _beside(q: WeightedDraws) -> int:
    """Draws of the kernels, beside those of q."""
    return int(np.ceil(SHARE / (1 - SHARE) * q.lp.size))


def _drawn(
    found: Fit, kernels: Kernels, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of kernels with their log p̃; −∞, no weight, where it is undefined."""
    theta = kernels.forward(rng.standard_normal((count, kernels.latent_dimension)))
    with np.errstate(all="ignore"):
        lp = found.target.log_density(theta)
    return theta, np.where(np.isnan(lp), -np.inf, lp)


def _log_mixture(log_q: LogDensity, kernels: Kernels) -> LogDensity:
    """The density that draws of both are of."""

    def log_mixture(theta: Array) -> Array:
        with np.errstate(all="ignore"):
            of_q, of_r = log_q(theta), kernels.log_density(theta)
        return np.logaddexp(np.log1p(-SHARE) + of_q, np.log(SHARE) + of_r)

    return log_mixture
