r"""A proposal beside q with heavier tails, where importance weights need them and only there.

Where log p̃ − log q, or it and the mean or sd of one quantity, has a heavy tail, q is too narrow in
a few directions: those of a log scale, say, whose posterior falls off as an exponential. With unit
vectors u_1 … u_S in the space of q's own normals v, θ = T(v), the proposal is

.. math:: r(v) = N(v; 0, I)\Big[\tfrac12 + \tfrac1{2S}\sum_s \frac{t(u_s^T v)}{N(u_s^T v; 0, 1)}
          \Big],

half q itself, half q with the normal along one direction replaced by Student's t. No weight is more
than twice that of q, and θ given v is q's: who is governed by a scale goes with it.

Hesterberg (1995), Weighted average importance sampling and defensive mixture distributions,
Technometrics 37(2), doi:10.1080/00401706.1995.10484303.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.psis import psislw
from pymc_ext.variational.core.posterior import (
    LogDensity,
    Posterior,
    fresh_draws,
    latents_of,
)
from pymc_ext.variational.core.precision import weighted_precision
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.weights import KHAT_GOOD, KHAT_WITHOUT_MEAN

if TYPE_CHECKING:
    from scipy import stats

__all__ = ["DefensiveMixture", "defended", "heavy_directions", "own_khat"]

Array = NDArray[np.floating]
# Each has a tenth of the draws at least; of hundreds of coordinates the k̂ of a few is > .5 by
# chance.
MOST_DIRECTIONS = 5
BULK_SHARE = 0.5  # of effective draws, from which on q holds the bulk whatever its k̂
SAME_DIRECTION = 0.9  # cosine from which on two count as one
CHANCE = 3.0  # standard errors of a correlation that count as none


@cache
def laws() -> tuple[stats.rv_frozen, stats.rv_frozen]:
    """The law of the tail, and the normal that it replaces.

    Polynomial, so that it ends up above the exponential tails that log scales have, and wide enough
    that draws at three sds of q are common. Seven laws (normals of sd 1.5 and 2, t of 3 and 5
    degrees, Laplace's) all serve more fits than q does and differ less than seeds do.
    """
    from scipy import stats  # .2 CPU seconds to import, which most fits do without

    return stats.t(3, scale=1.5), stats.norm()


@dataclass(frozen=True)
class DefensiveMixture:
    """r, made of any q with one normal a coordinate.

    Parameters
    ----------
    q
        θ = T(v), v ~ N(0, I).
    directions
        u_s, unit vectors, (S, D).
    """

    q: Posterior
    directions: Array

    @property
    def dimension(self) -> int:
        """D."""
        return self.q.dimension

    @property
    def latent_dimension(self) -> int:
        """v's, one that chooses the component, and one that becomes Student's t."""
        return self.q.latent_dimension + 2

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and their normalised log r, (N, D + 2) -> (N, D), (N,)."""
        law, normal = laws()
        v, choice, tail = z[:, :-2].copy(), normal.cdf(z[:, -2]), z[:, -1]
        count = len(self.directions)
        component = np.minimum((2 * count * choice).astype(int), 2 * count - 1)
        moved = np.flatnonzero(component < count)  # the others are q's
        u = self.directions[component[moved]]
        far = np.sign(tail) * law.isf(normal.sf(np.abs(tail)))  # exact however far out
        v[moved] += (far[moved] - np.einsum("nd,nd->n", u, v[moved]))[:, None] * u
        theta, log_q = self.q.forward(v)
        return theta, log_q + self.log_ratio(v)

    def log_ratio(self, v: Array) -> Array:
        """log r − log q at q's latents, (N, D) -> (N,)."""
        along = v @ self.directions.T
        law, normal = laws()
        log_h = law.logpdf(along) - normal.logpdf(along)
        log_mean = np.logaddexp.reduce(log_h, axis=1) - np.log(log_h.shape[1])
        return np.logaddexp(0, log_mean) - np.log(2)


def heavy_directions(v: Array, theta: Array, khat_v: Array, khat_theta: Array) -> Array:
    """Where in the space of v there are k̂ > .5, the worst first, unit vectors (S, D), S ≤ 5.

    Those of single latents, and of single coordinates of θ: their correlations with v.

    Parameters
    ----------
    v, theta
        Latents and draws of q, (N, D).
    khat_v, khat_theta
        k̂ of each, (D,), as from :func:`own_khat`.
    """
    N, D = v.shape
    found = list[tuple[float, Array]]()
    for khat, is_latent in ((khat_v, True), (khat_theta, False)):
        worst = np.argsort(-khat)[:MOST_DIRECTIONS]
        for k in worst[khat[worst] > KHAT_GOOD]:
            if is_latent:
                u = np.eye(1, D, k)[0]
            else:
                x = theta[:, k] - theta[:, k].mean()
                u = v.T @ x / (N * x.std())
                u[np.abs(u) < CHANCE / np.sqrt(N)] = 0
            if u.any():
                found.append((float(khat[k]), u / np.linalg.norm(u)))
    kept = list[Array]()
    for _, u in sorted(found, key=lambda pair: -pair[0]):
        if all(abs(u @ other) < SAME_DIRECTION for other in kept):
            kept.append(u)
    return np.array(kept[:MOST_DIRECTIONS]).reshape(-1, D)


def own_khat(x: Array, log_ratios: Array, weights: Array) -> Array:
    """The larger k̂ of mean and sd of each column of draws (N, K), -> (K,); −∞ where it does not
    matter. Other arguments are those of :func:`weighted_precision`."""
    precision = weighted_precision(x, log_ratios, weights)
    return np.fmax(precision.mean_khat, precision.sd_khat)


def defended(
    q: Posterior, density: LogDensity, fresh: FreshDraws, seed: int | None
) -> tuple[DefensiveMixture, FreshDraws] | tuple[None, None]:
    """r and how its own fresh draws judge it, where q's leave a doubt that r lessens.

    Parameters
    ----------
    q
        With one normal a coordinate.
    density
        log p̃.
    fresh
        Of q, with their log ratios and how they were made.
    seed
        Of the fit.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
    >>> t = scipy.stats.t(4)
    >>> density = CallableDensity(lambda x: t.logpdf(x).sum(1), np.zeros_like, dimension=1)
    >>> q = DiagonalGaussian(np.zeros(1), np.ones(1))
    >>> fresh = fresh_draws(q, density, np.random.default_rng(1))
    >>> r, of_r = defended(q, density, fresh, seed=1)
    >>> fresh.khat > 0.5 > of_r.khat
    True
    """
    if fresh.log_ratios is None or not np.isfinite(fresh.khat):
        return None, None
    if fresh.khat > KHAT_WITHOUT_MEAN and fresh.ess < BULK_SHARE * fresh.draws:
        return None, None  # q is wrong, and not its tails alone
    v, theta, *weighed = _again(q, fresh)
    khat_v, khat_theta = (own_khat(x, *weighed) for x in (v, theta))
    directions = heavy_directions(v, theta, khat_v, khat_theta)
    del v, theta  # 330 MB each in 10,000 dimensions, before as much is made again
    if not len(directions):
        return None, None
    proposal = DefensiveMixture(q, directions)
    found = fresh_draws(proposal, density, stream(seed, Purpose.DEFENCE))
    if not np.isfinite(found.khat):
        return None, None
    _, theta, *weighed = _again(proposal, found)
    worst = max(found.khat, own_khat(theta, *weighed).max())
    return (proposal, found) if worst < max(fresh.khat, khat_theta.max()) else (None, None)


def _again(q: Posterior, fresh: FreshDraws) -> tuple[Array, Array, Array, Array]:
    """Normals and draws behind ``fresh``, their log ratios, −∞ where p̃ is zero, and weights."""
    assert fresh.generator is not None and fresh.log_ratios is not None
    z, first = np.empty((fresh.draws, q.latent_dimension)), 0
    for part in latents_of(q, copy.deepcopy(fresh.generator), fresh.draws):
        z[first : first + len(part)] = part
        first += len(part)
    with np.errstate(all="ignore"):  # a draw that overflows has no weight
        theta = q.forward(z)[0]
    log_ratios = np.where(np.isfinite(fresh.log_ratios), fresh.log_ratios, -np.inf)
    return z, theta, log_ratios, np.exp(psislw(log_ratios)[0])
