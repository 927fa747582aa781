r"""A law of all coordinates from Laplace's method along one of them: what governs others' scales.

Chains and draws of q see nothing of a neck that they do not enter. Given the governor θ_j = t the
others, x, are near a normal, so that with x(t) their maximum and H(t) the Hessian of log p̃ there

.. math:: p(t) \approx \tilde p(t, x(t)) \, |{-H(t)}|^{-1/2}, \qquad
          x \mid t \approx N\bigl(x(t), (-H(t))^{-1}\bigr),

the marginal of Tierney and Kadane (1986, doi:10.1080/01621459.1986.10478240), as INLA takes it
(Rue, Martino & Chopin 2009, doi:10.1111/j.1467-9868.2008.00700.x), with the law behind it. Maxima
are followed outwards from the draws' middle, as far as there is mass; a Hessian takes 2 D scores.
In necks, where the governor outweighs the data, the law is nearly exact; in the bulk q is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from pymc_ext.density import CountedDensity
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.trust_region import curvature_scale
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.curvature import covariance_root, modified_root
from pymc_ext.variational.gaussian.endless import RAISED

Coordinates = NDArray[np.integer]
STEP, GROWTH = 0.5, 1.25  # first step between places, in sds of the draws, and how steps grow
MOST_PLACES = 20  # on one side: a tail of two hundred sds
FALL = 8.0  # nats below the highest place at which a side ends: less than .1 % lies beyond
NEWTON_STEPS, CLOSE = 8, 0.05  # at one place; decrement (nats) at which they end
DIFFERENCE = 1e-3  # of a conditional sd, by which scores are differenced
LONGEST = 3.0  # conditional sds of one Newton step
CELLS = 16  # between two places: steps of a thirtieth of an sd in the bulk


@dataclass(frozen=True)
class Maximum:
    """Where log p̃ is highest with θ_j held.

    Parameters
    ----------
    theta
        The point, (D,).
    log_density
        log p̃ there.
    root
        C with C Cᵀ = (−H)⁻¹ of the others, upper triangular, (D − 1, D − 1).
    """

    theta: Array
    log_density: float
    root: Array

    @property
    def log_p(self) -> float:
        """log p(θ_j), up to a constant."""
        return self.log_density + float(np.log(np.diag(self.root)).sum())


@dataclass(frozen=True, eq=False)
class NestedLaplace(ByValue):
    """q of all coordinates along one: draws, log q anywhere, and the marginal; q's tails along it
    are longer than those of p.

    Parameters
    ----------
    j
        The coordinate.
    others
        All else, what governs last, (D − 1,): each depends on those behind it.
    maxima
        At places along it, in their order, two at least.
    """

    j: int
    others: Coordinates
    maxima: tuple[Maximum, ...]

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.others) + 1

    latent_dimension = dimension

    # ---- the marginal of θ_j ---------------------------------------------------------------

    @cached_property
    def places(self) -> Array:
        """θ_j at the maxima, (T,)."""
        return np.array([found.theta[self.j] for found in self.maxima])

    @cached_property
    def edges(self) -> Array:
        """Of cells, on each of which the marginal is constant, (C + 1,)."""
        share = np.arange(CELLS) / CELLS
        inner = self.places[:-1, None] + np.diff(self.places)[:, None] * share
        return np.append(inner, self.places[-1])

    @cached_property
    def middles(self) -> Array:
        """Of the cells, (C,)."""
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    @cached_property
    def marginal(self) -> Array:
        """p(θ_j) of the cells, (C,), their sum 1."""
        log_p = CubicSpline(self.places, [found.log_p for found in self.maxima])(self.middles)
        mass = np.exp(log_p - log_p.max()) * np.diff(self.edges)
        return mass / mass.sum()

    @property
    def mean_along(self) -> float:
        """Of θ_j under p."""
        return float(self.marginal @ self.middles)

    @property
    def sd_along(self) -> float:
        """Of θ_j under p."""
        return float(np.sqrt(self.marginal @ (self.middles - self.mean_along) ** 2))

    @cached_property
    def masses(self) -> Array:
        """q(θ_j) of the cells: p times (1 + its squared distance from the mean, in sds) / 2.

        So that squares times weights are bounded. Under p itself few draws are far out in a tail,
        and the sd rests on these few.
        """
        far = (self.middles - self.mean_along) / self.sd_along
        mass = self.marginal * (1 + far**2)
        return np.asarray(mass / mass.sum())

    # ---- the law of the others -------------------------------------------------------------

    @cached_property
    def center(self) -> CubicSpline:
        """x(t)."""
        return CubicSpline(self.places, [found.theta[self.others] for found in self.maxima])

    @cached_property
    def log_sd(self) -> CubicSpline:
        """log of the diagonal of C(t): sds given those behind."""
        return CubicSpline(self.places, [np.log(np.diag(found.root)) for found in self.maxima])

    @cached_property
    def mixing(self) -> Array:
        """C with a diagonal of ones, in the middle of each cell, (C, D − 1, D − 1)."""
        unit = [found.root / np.diag(found.root) for found in self.maxima]
        return np.asarray(CubicSpline(self.places, unit)(self.middles))

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and log q, (N, D) -> (N, D), (N,)."""
        # the last cell's upper end counts as in it
        upto = np.append(0, np.cumsum(self.masses))
        u = ndtr(z[:, 0])
        cell = np.clip(np.searchsorted(upto, u, side="right") - 1, 0, len(self.masses) - 1)
        share = (u - upto[cell]) / self.masses[cell]
        t = self.edges[cell] + np.clip(share, 0, 1) * np.diff(self.edges)[cell]
        theta = np.empty((len(z), self.dimension))
        theta[:, self.j], x = t, np.exp(self.log_sd(t)) * z[:, 1:]
        for c in np.unique(cell):
            x[cell == c] = x[cell == c] @ self.mixing[c].T
        theta[:, self.others] = self.center(t) + x
        return theta, self._log_q(cell, t, z[:, 1:])

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,); −∞ beyond the last places."""
        log_q = np.full(len(theta), -np.inf)
        t = theta[:, self.j]
        inside = np.flatnonzero((t >= self.edges[0]) & (t < self.edges[-1]))
        t = t[inside]
        cell = np.searchsorted(self.edges, t, side="right") - 1
        z = theta[inside][:, self.others] - self.center(t)
        for c in np.unique(cell):
            own = cell == c
            z[own] = solve_triangular(self.mixing[c], z[own].T, unit_diagonal=True).T
        log_q[inside] = self._log_q(cell, t, z * np.exp(-self.log_sd(t)))
        return log_q

    def _log_q(self, cell: Coordinates, t: Array, z: Array) -> Array:
        """From the normals z behind the others."""
        log_p = np.log(self.masses / np.diff(self.edges))[cell]
        return log_p + standard_normal_logp(z) - self.log_sd(t).sum(axis=1)


def nested_laplace(
    density: CountedDensity, theta: Array, j: int, order: Coordinates
) -> NestedLaplace | None:
    """Along θ_j, around draws ``theta`` (N, D), from their median place outwards.

    None where the others have no maximum given it.

    Parameters
    ----------
    density
        log p̃ and its score.
    theta
        Draws that hold the bulk.
    j
        The coordinate.
    order
        All coordinates, (D,), what governs before what it governs.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> def log_density(t):  # a funnel: log τ ~ N(0, 1), x | τ ~ N(0, τ²)
    ...     return -0.5 * t[:, 0] ** 2 - t[:, 0] - 0.5 * (t[:, 1] * np.exp(-t[:, 0])) ** 2
    >>> def score(t):
    ...     square = (t[:, 1] * np.exp(-t[:, 0])) ** 2
    ...     return np.stack([square - 1 - t[:, 0], -t[:, 1] * np.exp(-2 * t[:, 0])], axis=1)
    >>> density = CountedDensity(CallableDensity(log_density, score, dimension=2))
    >>> draws = np.random.default_rng(1).uniform(-1, 1, (100, 2))
    >>> round(nested_laplace(density, draws, 0, np.arange(2)).sd_along, 1)
    1.0
    """
    others = np.array([k for k in order[::-1] if k != j])
    lower, median, upper = np.quantile(theta[:, j], [0.16, 0.5, 0.84])  # one sd of a normal's
    middle = theta[np.argmin(np.abs(theta[:, j] - median))]
    sds = _conditional_sds(theta, others)
    step = STEP * 0.5 * (upper - lower)  # draws of a proposal have tails that no sd is of
    sides = [list(_side(density, middle, sds, j, others, sign * step)) for sign in (-1, 1)]
    maxima = *reversed(sides[0][1:]), *sides[1]
    return NestedLaplace(j, others, maxima) if all(sides) and len(maxima) > 1 else None


def _side(
    density: CountedDensity, start: Array, sds: Array, j: int, others: Coordinates, step: float
) -> Iterator[Maximum]:
    """Maxima from the start on in one direction, as far as the others have one.

    What lies beyond is left out, which makes the sd smaller and raises no alarm.
    """
    last, at, highest = None, start, -np.inf
    for k in range(MOST_PLACES):
        found = _maximum(density, at, sds, others)
        if found is None:
            return
        here, sds, reached = found
        highest = max(highest, reached.log_p)
        yield reached
        if reached.log_p < highest - FALL:
            return
        # the others go on as they went from the last place to this one
        at = here.copy() if last is None else here + GROWTH * (here - last)
        at[j] = here[j] + step * GROWTH**k
        last = here


def _conditional_sds(theta: Array, others: Coordinates) -> Array:
    """Rough sds of the others given all else, (D − 1,)."""
    precision = np.linalg.pinv(np.cov(theta.T))
    return 1 / np.sqrt(np.maximum(np.diag(precision)[others], 1e-300))


def _maximum(
    density: CountedDensity, start: Array, sds: Array, others: Coordinates
) -> tuple[Array, Array, Maximum] | None:
    """Near the start: the last point whose Hessian is known, sds of the others there, and the
    maximum a small step further."""
    at = start.copy()
    for _ in range(NEWTON_STEPS):
        found = _curvature(density, at, others, DIFFERENCE * sds)
        if found is None:
            return None
        log_p, score, H = found
        sds = curvature_scale(H)
        concave = covariance_root(H)
        root = (concave or modified_root(H))[0]
        latent = root.T @ score
        decrement = 0.5 * float(latent @ latent)
        step = root @ latent
        if decrement < CLOSE:
            if concave is None:
                return None
            theta = at.copy()
            theta[others] += step
            return at, sds, Maximum(theta, log_p + decrement, root)
        longest = LONGEST * np.sqrt(len(others))
        at[others] += step * min(1.0, longest / np.sqrt(2 * decrement))
    return None


def _curvature(
    density: CountedDensity, at: Array, others: Coordinates, h: Array
) -> tuple[float, Array, Array] | None:
    """log p̃, score and Hessian in the others, by differences of steps ``h``; None where one is not
    finite. Of second order, at half the scores of `DifferenceHessian`: a law is drawn from, and
    weights correct it."""
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
