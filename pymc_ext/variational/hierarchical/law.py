"""A law of all coordinates along those that govern others' scales, whoever has found it.

The governors' own law is constant on cells, boxes of their values; given them the others x are
normal, and of log p̃ as a quadratic in x the terms c, η and Λ are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pymc_ext.density import Density
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import NUMBERS_TOGETHER
from pymc_ext.variational.hierarchical.maxima import Maximum
from pymc_ext.variational.hierarchical.others import Coordinates, Others
from pymc_ext.variational.hierarchical.pattern import Pattern
from pymc_ext.variational.ill_posed.endless import RAISED

# Draws by which a law is looked at, and median nats by which their log ratios may differ from the
# median: of more, weights would leave one draw in a thousand.
LOOKED_AT, MOST_OFF = 200, 2.0


@dataclass(frozen=True)
class Terms:
    """c, η and Λ of log p̃ as a quadratic in x, at each of K values of governors.

    Parameters
    ----------
    constant, linear, precision
        c (K,), η (k, K), entries of Λ (E, K).
    """

    constant: Array
    linear: Array
    precision: Array

    @classmethod
    def of_maxima(cls, maxima: Sequence[Maximum], origin: Array) -> Terms:
        """At maxima, x measured from ``origin`` (k,)."""
        return cls.of_smooth(maxima[0].others.pattern, smooth(maxima, origin))

    @classmethod
    def of_smooth(cls, pattern: Pattern, numbers: Array) -> Terms:
        """Of numbers as :func:`smooth` gives them, (K, 1 + k + E)."""
        k = len(pattern)
        highest, x, root = np.split(numbers.T, [1, 1 + k])
        diagonal = np.exp(root[pattern.diagonal])
        root = root * diagonal[pattern.columns]
        root[pattern.diagonal] = diagonal
        half = pattern.transposed_times(root, x)
        constant = highest[0] - 0.5 * (half**2).sum(axis=0)
        return cls(constant, pattern.times(root, half), pattern.squared(root))

    def __getitem__(self, at: NDArray[np.integer] | slice) -> Terms:
        return Terms(self.constant[at], self.linear[:, at], self.precision[:, at])

    def plus(self, other: Terms, sign: int = 1) -> Terms:
        """The sum, or difference."""
        return Terms(
            self.constant + sign * other.constant,
            self.linear + sign * other.linear,
            self.precision + sign * other.precision,
        )


def smooth(maxima: Sequence[Maximum], origin: Array) -> Array:
    """Heights, places from ``origin`` and roots of P maxima as numbers that vary smoothly with the
    governors, (P, 1 + k + E): of roots the logarithm of each diagonal entry, which varies by many
    powers of ten, and the others of a column by it."""
    others = maxima[0].others
    pattern = others.pattern
    root = np.array([found.root for found in maxima])
    unit = root / root[:, pattern.diagonal[pattern.columns]]
    unit[:, pattern.diagonal] = np.log(root[:, pattern.diagonal])
    x = [found.theta[others.places] - origin for found in maxima]
    return np.hstack([[[found.log_density] for found in maxima], x, unit])


@dataclass(frozen=True, eq=False)
class LawAlong(ByValue, ABC):
    """q of all coordinates: draws, log q anywhere, and the marginals of the governors; its tails
    along these are longer than those of p, as importance weights want them.

    Parameters
    ----------
    middle
        The maximum of x from which the search for it started, where x is measured from.
    open_ends
        Governors beyond whose last place there is mass, places in θ, and that place.
    """

    middle: Maximum
    open_ends: tuple[tuple[int, float], ...]

    @property
    def others(self) -> Others:
        """x, k = D − G coordinates."""
        return self.middle.others

    @property
    @abstractmethod
    def governors(self) -> Coordinates:
        """Places of t in θ, (G,)."""

    @property
    @abstractmethod
    def edges(self) -> tuple[Array, Array]:
        """Where cells begin and end, (C, G) each."""

    @property
    @abstractmethod
    def marginal(self) -> Array:
        """p(t) of the cells, (C,), their sum 1."""

    @abstractmethod
    def cell_of(self, t: Array) -> Coordinates:
        """In which cell values lie, (N, G) -> (N,); −1 outside of all."""

    @abstractmethod
    def terms_at(self, t: Array) -> Terms:
        """At values (N, G) in cells, x measured from the middle."""

    @abstractmethod
    def terms_between(self, t: Array) -> Terms:
        """The same at any values, without steps from cell to cell; beyond the last as there."""

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.others) + len(self.governors)

    @property
    def latent_dimension(self) -> int:
        """One normal chooses the cell, G the place in it, the others x."""
        return self.dimension + 1

    @property
    def origin(self) -> Array:
        """From which x is measured in terms, (k,)."""
        return self.middle.theta[self.others.places]

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array]:
        """Mean and sd of t under p, (G,), and squared distances of the cells in sds, (C, G)."""
        lower, upper = self.edges
        t = 0.5 * (lower + upper)
        mean = self.marginal @ t
        sd = np.sqrt(self.marginal @ (t - mean) ** 2)
        return mean, sd, ((t - mean) / sd) ** 2

    @property
    def mean_along(self) -> Array:
        """Of the governors under p, (G,)."""
        return self._moments[0]

    @property
    def sd_along(self) -> Array:
        """Of the governors under p, (G,)."""
        return self._moments[1]

    @cached_property
    def masses(self) -> Array:
        """q(t) of the cells: p times one plus the mean of squared distances in sds, by two.

        So that squares times weights are bounded. Under p itself few draws are far out in a tail,
        and the sd rests on these few.
        """
        return np.asarray(self.marginal * (1 + self._moments[2].mean(axis=1)) / 2)

    @cached_property
    def _log_q_of_cells(self) -> Array:
        lower, upper = self.edges
        with np.errstate(divide="ignore"):
            return np.log(self.masses / self.masses.sum() / np.prod(upper - lower, axis=1))

    def _given(self, t: Array) -> Iterator[tuple[slice, Conditional]]:
        """The law of x at values (N, G) of the governors, some at a time."""
        pattern = self.others.pattern
        rows = max(1, NUMBERS_TOGETHER // len(pattern.rows))
        for begin in range(0, len(t), rows):
            part = slice(begin, min(begin + rows, len(t)))
            yield part, Conditional.of(pattern, self.terms_at(t[part]))

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and log q, (N, D + 1) -> (N, D), (N,)."""
        G = len(self.governors)
        upto = np.cumsum(self.masses)[:-1]
        cell = np.searchsorted(upto / self.masses.sum(), ndtr(z[:, 0]), side="right")
        lower, upper = (edges[cell] for edges in self.edges)
        t = np.minimum(lower + ndtr(z[:, 1 : 1 + G]) * (upper - lower), np.nextafter(upper, lower))
        theta = np.empty((len(z), self.dimension))
        theta[:, self.governors] = t
        log_q = self._log_q_of_cells[cell]
        for part, given in self._given(t):
            v = z[part, 1 + G :]
            theta[part, self.others.places] = self.origin + given.draws(v)
            log_q[part] += standard_normal_logp(v) + given.log_det
        return theta, log_q

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,); −∞ beyond the cells."""
        log_q = np.full(len(theta), -np.inf)
        t = theta[:, self.governors]
        cell = self.cell_of(t)
        inside = np.flatnonzero(cell >= 0)
        log_q[inside] = self._log_q_of_cells[cell[inside]]
        for part, given in self._given(t[inside]):
            rows = inside[part]
            v = given.normals(theta[np.ix_(rows, self.others.places)] - self.origin)
            log_q[rows] += standard_normal_logp(v) + given.log_det
        return log_q

    def fits(self, density: Density) -> bool:
        """Whether it is anything like p: terms that do not add up may put all mass in a corner."""
        with np.errstate(all="ignore"):
            if not np.all(self.sd_along > 0):
                return False
            z = np.random.default_rng(0).standard_normal((LOOKED_AT, self.latent_dimension))
            theta, log_q = self.forward(z)
            try:
                log_ratios = density.log_density(theta) - log_q
            except RAISED:  # such numbers are an error there
                return False
            off = np.abs(log_ratios - np.median(log_ratios))  # NaN where half have no weight
            return bool(np.median(off) < MOST_OFF)


def box_of(along: Sequence[Array]) -> tuple[Array, Array]:
    """Where the cells of a box begin and end, (C, G) each, of edges along each axis."""
    return all_of([edges[:-1] for edges in along]), all_of([edges[1:] for edges in along])


def cell_in(t: Array, along: Sequence[Array]) -> Coordinates:
    """In which of these cells values lie, (N, G) -> (N,); −1 outside of all."""
    cell = np.zeros(len(t), dtype=int)
    for k, edges in enumerate(along):
        place, last = place_between(t[:, k], edges), len(edges) - 1
        inside = (cell >= 0) & (place >= 0) & (place < last)
        cell = np.where(inside, cell * last + place, -1)
    return cell


def all_of(along: Sequence[Array]) -> Array:
    """All combinations of values along each axis, (C, G), the last axis the fastest."""
    if not along:
        return np.zeros((1, 0))
    return np.stack([axis.ravel() for axis in np.meshgrid(*along, indexing="ij")], axis=1)


def place_between(t: Array, edges: Array) -> Coordinates:
    """Between which edges values lie, (N,): −1 and more than the last one outside."""
    return np.asarray(np.searchsorted(edges, t, side="right") - 1)


@dataclass(frozen=True)
class Conditional:
    """N(Λ⁻¹ η, Λ⁻¹) at each of N values of the governors.

    Parameters
    ----------
    pattern
        Of Λ and its factor.
    root
        R with R Rᵀ = Λ, lower triangular, (E, N).
    half
        R⁻¹ η = Rᵀ of the mean, (k, N).
    log_det
        log|R|, (N,).
    log_p
        log p(t) up to a constant, (N,).
    """

    pattern: Pattern
    root: Array
    half: Array
    log_det: Array
    log_p: Array

    @classmethod
    def of(cls, pattern: Pattern, terms: Terms) -> Conditional:
        """From Λ, made positive definite where it is not."""
        root = pattern.root(terms.precision)
        half = pattern.solve(root, terms.linear)
        log_det = np.log(root[pattern.diagonal]).sum(axis=0)
        log_p = terms.constant + 0.5 * (half**2).sum(axis=0) - log_det
        return cls(pattern, root, half, log_det, log_p)

    def draws(self, v: Array) -> Array:
        """x of normals v, (N, k)."""
        return self.pattern.transposed_solve(self.root, self.half + v.T).T

    def normals(self, x: Array) -> Array:
        """v of x, (N, k)."""
        return (self.pattern.transposed_times(self.root, x.T) - self.half).T
