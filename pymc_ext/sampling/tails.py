r"""Whether draws have reached the tails of what governs others' scales: its marginal by Laplace.

Chains and weights see nothing of a neck that they do not enter: R̂, ESS and k̂ are of the draws that
are there. Given the governor the others are near a normal, so that its own marginal is

.. math:: p(\theta_j = t) \approx \max_{\theta_{-j}} \tilde p(t, \theta_{-j}) \, |H(t)|^{-1/2},

with H the negative Hessian in the others at that point: the Laplace approximation of Tierney and
Kadane (1986, doi:10.1080/01621459.1986.10478240), as INLA takes it. Its error changes slowly with
t, and what is compared is a spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity, Density
from pymc_ext.density.coordinates import TransportMap
from pymc_ext.maths.trust_region import curvature_scale
from pymc_ext.maths.types import Array
from pymc_ext.sampling.attempts import INTERRUPTED
from pymc_ext.sampling.result import Sampled
from pymc_ext.variational.gaussian.curvature import covariance_root, modified_root
from pymc_ext.variational.gaussian.endless import RAISED
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.slices import governors_of

Places = NDArray[np.integer]
MOST_DIMENSIONS, MOST_GOVERNORS = 100, 2  # a Hessian at each place takes 2 D scores
# Share of the sd by the marginal that draws must have: on ten centred hierarchies of 12 groups the
# marginal's was .97 to 1.13 of the exact one, and draws of less had sds 12 to 41 % too small.
LEAST_SD = 0.8
STEP, GROWTH = 0.5, 1.25  # first step between places, in sds of the draws, and how steps grow
MOST_PLACES = 20  # on one side: a tail of two hundred sds
FALL = 8.0  # nats below the highest place at which a side ends: less than .1 % lies beyond
NEWTON_STEPS, CLOSE = 8, 0.05  # at one place; decrement (nats) at which they end
DIFFERENCE = 1e-3  # of a conditional sd, by which scores are differenced
LONGEST = 3.0  # conditional sds of one Newton step
UNSEEN = "interrupted before it was known whether draws reach the tails of what governs scales"


@dataclass(frozen=True)
class Marginal:
    """log p(θ_j) at places, (T,), up to a constant, nats."""

    places: Array
    log_p: Array

    @property
    def weights(self) -> Array:
        """Of the places, by the trapezoidal rule, (T,)."""
        w = np.exp(self.log_p - self.log_p.max()) * np.gradient(self.places)
        return w / w.sum()

    @property
    def mean(self) -> float:
        """Of θ_j."""
        return float(self.weights @ self.places)

    @property
    def sd(self) -> float:
        """Of θ_j."""
        return float(np.sqrt(self.weights @ (self.places - self.mean) ** 2))


def marginal_of(density: CountedDensity, theta: Array, j: int) -> Marginal | None:
    """The marginal of θ_j around draws ``theta`` (N, D), from their median place outwards; None
    where the others have no maximum given it."""
    middle = theta[np.argmin(np.abs(theta[:, j] - np.median(theta[:, j])))]
    sds = _conditional_sds(theta, j)
    step = STEP * theta[:, j].std()
    sides = [list(_side(density, middle, sds, j, sign * step)) for sign in (-1, 1)]
    if not all(sides):
        return None
    found = [*reversed(sides[0][1:]), *sides[1]]
    return Marginal(*(np.array(x) for x in zip(*found, strict=True)))


def _side(
    density: CountedDensity, start: Array, sds: Array, j: int, step: float
) -> Iterator[tuple[float, float]]:
    """Places and log p from the start on in one direction, as far as the others have a maximum.

    What lies beyond is left out, which makes the sd smaller and raises no alarm.
    """
    last, at, highest = None, start, -np.inf
    for k in range(MOST_PLACES):
        found = _maximum(density, at, sds, j)
        if found is None:
            return
        here, sds, log_p = found
        highest = max(highest, log_p)
        yield float(here[j]), log_p
        if log_p < highest - FALL:
            return
        # the others go on as they went from the last place to this one
        at = here.copy() if last is None else here + GROWTH * (here - last)
        at[j] = here[j] + step * GROWTH**k
        last = here


def _conditional_sds(theta: Array, j: int) -> Array:
    """Rough sds of the others given all else, (D,), 1 at j."""
    precision = np.linalg.pinv(np.cov(theta.T))
    sds = 1 / np.sqrt(np.maximum(np.diag(precision), 1e-300))
    sds[j] = 1.0
    return sds


def _maximum(
    density: CountedDensity, start: Array, sds: Array, j: int
) -> tuple[Array, Array, float] | None:
    """Where log p̃ is highest with θ_j held: the point, conditional sds there, and log p(θ_j)."""
    at, sds = start.copy(), sds.copy()
    others = np.delete(np.arange(len(start)), j)
    for _ in range(NEWTON_STEPS):
        found = _curvature(density, at, others, DIFFERENCE * sds[others])
        if found is None:
            return None
        log_p, score, H = found
        sds[others] = curvature_scale(H)
        concave = covariance_root(H)
        root = (concave or modified_root(H))[0]  # of −H's inverse
        latent = root.T @ score
        decrement = 0.5 * float(latent @ latent)
        if decrement < CLOSE:
            if concave is None:
                return None
            return at, sds, log_p + decrement + float(np.linalg.slogdet(root)[1])
        longest = LONGEST * np.sqrt(len(others))
        at[others] += root @ latent * min(1.0, longest / np.sqrt(2 * decrement))
    return None


def _curvature(
    density: CountedDensity, at: Array, others: Places, h: Array
) -> tuple[float, Array, Array] | None:
    """log p̃, score and Hessian in the others, by differences of steps ``h``; None where one is not
    finite. Of second order, at half the scores of `DifferenceHessian`: a spread is compared."""
    along = np.zeros((len(others), len(at)))
    along[np.arange(len(others)), others] = h
    try:
        with np.errstate(all="ignore"):
            log_p, scores = density.log_density_gradient(np.vstack([at, at + along, at - along]))
    except RAISED:  # such numbers are an error there: the side ends before
        return None
    scores = scores[:, others]
    plus, minus = np.split(scores[1:], 2)
    H = (plus - minus) / (2 * h[:, None])
    if not (np.isfinite(log_p[0]) and np.isfinite(H).all() and np.isfinite(scores[0]).all()):
        return None
    return float(log_p[0]), scores[0], 0.5 * (H + H.T)


def tails_not_reached(
    density: CountedDensity, q: TransportMap | None, theta: Array
) -> tuple[str, ...]:
    """A sentence where draws (N, D) have far less spread along what governs others' scales than its
    marginal has; none where q is no map, has no governors, or more than `MOST_DIMENSIONS`."""
    if not isinstance(q, HierarchicalMap) or q.dimension > MOST_DIMENSIONS:
        return ()
    names = density.value_names
    found = []
    for place in governors_of(q)[:MOST_GOVERNORS]:
        j = int(q.order[place])
        marginal, own = marginal_of(density, theta, j), float(theta[:, j].std())
        if marginal is not None and own < LEAST_SD * marginal.sd:
            found.append(f"{names[j]} (sd {own:.2g}, by Laplace's method {marginal.sd:.2g})")
    if not found:
        return ()
    return (
        f"the draws miss a tail of {' and '.join(found)}, on which the scales of others depend: "
        "write that level non-centred, or give its scale a prior that keeps it from there",
    )


def with_tails(found: Sampled, density: Density, q: TransportMap | None) -> Sampled:
    """The answer of chains, not trusted where they miss a tail, nor after Ctrl-C during the look,
    whose scores are counted. Chains that Ctrl-C ended are not looked at."""
    if found.stop_reason == INTERRUPTED:
        return found
    counted = CountedDensity(density)
    try:
        doubts = tails_not_reached(counted, q, found.theta.reshape(-1, found.theta.shape[-1]))
    except KeyboardInterrupt:
        doubts = (UNSEEN,)
    return replace(
        found,
        trusted=found.trusted and not doubts,
        reasons=(*doubts, *found.reasons),
        gradient_evaluations=found.gradient_evaluations + counted.gradients,
    )
