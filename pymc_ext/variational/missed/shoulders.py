r"""Mass beside q that lies in no basin of its own: no climb ends there, and short chains go there.

A posterior may have a shoulder: some percent of its mass, several sds off, at the end of a ridge.
q has next to no draw there, k̂ of those that it has is good, and what starts outside climbs the
ridge back to q's mode. Transitions of Hamiltonian Monte Carlo leave p as it is, and lead away from
its mode as often as to it. They begin at the draws of q that p exceeds most, which are at q's edge,
and some come to points where p exceeds q by so many nats that q would have had no draw there. With
r a mixture of normal kernels about such points,

.. math:: E_r\left[\frac{\tilde p}{r} \, [\log\tilde p - \log Z_q - \log q > \text{UNSEEN}]\right]
    / Z_q

is what they are worth by what q covers, less three of its standard errors.

Neal (2011), MCMC using Hamiltonian dynamics, arXiv:1206.1901, sections 3.2 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity, DensityInCoordinates
from pymc_ext.maths.hamiltonian import State, trajectory
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.weights import (
    ESS_SHARE_NEGLIGIBLE,
    KHAT_WITHOUT_MEAN,
    weighted_moments,
)
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.missed.kernels import Kernels, kernels_about, spread_of
from pymc_ext.variational.missed.outside import Misses, bound_by_weights

# Chains, transitions of each, and steps of one: 2,064 gradients. Where a point was found they begin
# there again, four times, as a bound from fewer is two to four times too low. Of nine fits to a
# mixture with a shoulder of 2 % of the mass eight came to such points; of half as many chains, and
# of half as many transitions, as many answers had sds that are right (benchmarks.speed.shoulders,
# kinds fewer and shorter): a choice.
CHAINS, TRANSITIONS, STEPS, AGAIN = 16, 16, 8, 4
# Of a step, by D^{1/4}, in coordinates where q is about N(0, I): 98 % of transitions are accepted,
# and the length, some 3, is half of a Gaussian's period. Each is of a length of its own.
STEP, SHORTEST, LONGEST = 0.6, 0.5, 1.2
UNSEEN = 6.0  # nats: of 1 % of p's mass q has at most 1/40,000 there, less than one of its draws
KERNELS = 64  # at most (a choice)
# Of k̂ and the share of effective draws: weights of a lighter tail that are alike have three
# moments, so that what they miss is seldom worth what would matter. Of twelve fits that missed a
# shoulder eleven had a k̂ of .43 to .77, the other one .08 with a share of .76.
KHAT_LIGHT, SHARE_ALIKE = 0.3, 0.9
# Share of effective draws below which q is wrong, so that everything looks missed beside it: those
# that missed a shoulder had .60 to .92, those of a cross and of heavy tails, of whose shoulders
# chains that adapt by themselves were refused, .07 to .36.
SHARE_WRONG = 0.5
WEIGHED = 2_000  # draws of the kernels: where one in 20 is worth one they know a mass to a tenth


def may_have(khat: float, share: float) -> bool:
    """Whether a q of such k̂, with a share of its draws effective, is looked at: of one that is
    nearly right nothing is missed, and beside one that is wrong everything looks so."""
    heavy = khat >= KHAT_LIGHT and share < ESS_SHARE_NEGLIGIBLE
    nearly_right = khat < KHAT_WITHOUT_MEAN and share >= SHARE_WRONG
    return nearly_right and (heavy or share < SHARE_ALIKE)


def moments_beside(
    theta: Array, weights: Array, khat: float, share: float
) -> tuple[Array, Array] | None:
    """Mean and sds by weights (N,) of draws θ (N, D), in which a shoulder's distance counts; None
    where weights of such k̂ and share do not ask for the look (:func:`may_have`)."""
    return weighted_moments(theta, weights) if may_have(khat, share) else None


@dataclass(frozen=True)
class Shoulder:
    """Mass that no draw of q is in.

    Parameters
    ----------
    q
        A Gaussian around it.
    log_mass, error
        Lower bound of log(that mass / the mass that q covers), and its standard error; −∞ where
        three of these are more than it.
    distance
        Root mean square of its distance from the middle, in sds, of the coordinate in which that is
        the largest.
    kernels
        About points there: r.
    """

    q: Gaussian
    log_mass: float
    error: float
    distance: float
    kernels: Kernels


def shoulder(
    density: CountedDensity,
    starts: Array,
    scales: Gaussian,
    misses: Misses,
    rng: np.random.Generator,
) -> Shoulder | None:
    """What short chains find beside q; None: nothing.

    Parameters
    ----------
    density
        log p̃.
    starts
        Draws of q at its edge, (M, D).
    scales
        In which q is about N(0, I).
    misses
        What q misses, with the mean and sds in which distances count.
    rng
        Of chains and draws.
    """
    found = _unseen(wandered(density, starts, scales, rng), misses)
    if not len(found):
        return None
    for _ in range(AGAIN):
        starts = found[rng.integers(len(found), size=CHAINS)]
        more = _unseen(wandered(density, starts, scales, rng), misses)
        found = np.unique(np.concatenate([found, more]), axis=0)
    if len(found) < 2:  # one has no spread
        return None
    found = rng.permutation(found)[:KERNELS]
    r = kernels_about(found, scales.cov)
    points = r.forward(rng.standard_normal((WEIGHED, r.latent_dimension)))
    log_p, log_q = misses.at(points)
    with np.errstate(all="ignore"):
        log_weights = np.where(log_p - log_q > UNSEEN, log_p - r.log_density(points), -np.inf)
    bound, error = bound_by_weights(log_weights)
    if not np.isfinite(log_weights.max()):
        return None
    squares = ((points - misses.mean) / misses.std) ** 2
    far = np.average(squares, axis=0, weights=np.exp(log_weights - log_weights.max())).max()
    q = Gaussian(found.mean(axis=0), cholesky(spread_of(found, scales.cov)))
    return Shoulder(q, bound, error, float(np.sqrt(far)), r)


def _unseen(points: Array, misses: Misses) -> Array:
    """Of points (M, D) those, each once, where q would have had no draw."""
    log_p, log_q = misses.at(points)
    with np.errstate(all="ignore"):
        return np.unique(points[log_p - log_q > UNSEEN], axis=0)


def wandered(
    density: CountedDensity, starts: Array, scales: Gaussian | DiagonalGaussian,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Where chains from ``starts`` (M, D) are after each transition, (`TRANSITIONS` M, D)."""
    along = DensityInCoordinates(density, scales)
    u = scales.inverse(starts)
    with np.errstate(all="ignore"):
        state, visited = State(u, *along.log_density_gradient(u)), list[Array]()
    for _ in range(TRANSITIONS):
        momentum = rng.standard_normal(u.shape)
        step = STEP / u.shape[1] ** 0.25 * rng.uniform(SHORTEST, LONGEST)
        tried = trajectory(along.log_density_gradient, state, momentum, step, STEPS)
        state = state.or_where(np.log(rng.random(len(u))) < tried.log_rate, tried.end)
        visited.append(state.point)
    return scales.forward(np.concatenate(visited))[0]
