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
from scipy.linalg import eigh, solve_triangular
from scipy.special import ndtr

from pymc_ext.density import Density
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.trust_region import curvature_scale
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import NUMBERS_TOGETHER
from pymc_ext.variational.gaussian.endless import RAISED
from pymc_ext.variational.hierarchical.maxima import Coordinates, Maximum

# Draws by which a law is looked at, and median nats by which their log ratios may differ from the
# median: of more, weights would leave one draw in a thousand.
LOOKED_AT, MOST_OFF = 200, 2.0
LEAST_CURVATURE = 1e-8  # of scaled Λ, where sums of interpolated ones are not positive definite


@dataclass(frozen=True)
class Terms:
    """c, η and Λ of log p̃ as a quadratic in x, at each of K values of governors.

    Parameters
    ----------
    constant, linear, precision
        c (K,), η (K, D − G), Λ (K, D − G, D − G).
    """

    constant: Array
    linear: Array
    precision: Array

    @classmethod
    def of_maxima(cls, maxima: Sequence[Maximum], others: Coordinates, origin: Array) -> Terms:
        """At maxima of ``others``, x measured from ``origin`` (D − G,)."""
        one = np.eye(len(others))
        inverse = np.array([solve_triangular(found.root, one) for found in maxima])
        x = np.array([found.theta[others] - origin for found in maxima])
        highest = np.array([found.log_density for found in maxima])
        return cls.around(x, highest, np.swapaxes(inverse, 1, 2))

    @classmethod
    def around(cls, x: Array, highest: Array, root: Array) -> Terms:
        """Of maxima at x (K, D − G), of values (K,), with Λ = R Rᵀ of roots (K, D − G, D − G)."""
        precision = root @ np.swapaxes(root, 1, 2)
        linear = np.einsum("kij,kj->ki", precision, x)
        return cls(highest - 0.5 * (x * linear).sum(axis=1), linear, precision)

    def __getitem__(self, at: NDArray[np.integer] | slice) -> Terms:
        return Terms(self.constant[at], self.linear[at], self.precision[at])

    def plus(self, other: Terms, sign: int = 1) -> Terms:
        """The sum, or difference."""
        return Terms(
            self.constant + sign * other.constant,
            self.linear + sign * other.linear,
            self.precision + sign * other.precision,
        )


@dataclass(frozen=True, eq=False)
class LawAlong(ByValue, ABC):
    """q of all coordinates: draws, log q anywhere, and the marginals of the governors; its tails
    along these are longer than those of p.

    Parameters
    ----------
    others
        x, what governs last, (D − G,).
    middle
        The maximum of x from which the search for it started, where x is measured from.
    """

    others: Coordinates
    middle: Maximum

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
        """From which x is measured in terms, (D − G,)."""
        return self.middle.theta[self.others]

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
        rows = max(1, NUMBERS_TOGETHER // len(self.others) ** 2)
        for begin in range(0, len(t), rows):
            part = slice(begin, min(begin + rows, len(t)))
            yield part, Conditional.of(self.terms_at(t[part]))

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
            theta[part, self.others] = self.origin + given.draws(v)
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
            v = given.normals(theta[np.ix_(rows, self.others)] - self.origin)
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
    root
        R with R Rᵀ = Λ, lower triangular, (N, D − G, D − G).
    half
        R⁻¹ η = Rᵀ of the mean, (N, D − G).
    log_det
        log|R|, (N,).
    log_p
        log p(t) up to a constant, (N,).
    """

    root: Array
    half: Array
    log_det: Array
    log_p: Array

    @classmethod
    def of(cls, terms: Terms) -> Conditional:
        """From Λ, made positive definite where it is not."""
        try:
            root = np.linalg.cholesky(terms.precision)
        except np.linalg.LinAlgError:
            root = np.array([_positive_root(precision) for precision in terms.precision])
        diagonal = np.diagonal(root, axis1=1, axis2=2)
        half = terms.linear.copy()
        for i in range(half.shape[1]):  # NumPy has no triangular solve of many at once
            half[:, i] -= np.einsum("nk,nk->n", root[:, i, :i], half[:, :i])
            half[:, i] /= diagonal[:, i]
        log_det = np.log(diagonal).sum(axis=1)
        return cls(root, half, log_det, terms.constant + 0.5 * (half**2).sum(axis=1) - log_det)

    def draws(self, v: Array) -> Array:
        """x of normals v, (N, D − G)."""
        x = self.half + v  # Rᵀ x
        for i in reversed(range(x.shape[1])):
            x[:, i] /= self.root[:, i, i]
            x[:, :i] -= self.root[:, i, :i] * x[:, i, None]
        return x

    def normals(self, x: Array) -> Array:
        """v of x, (N, D − G)."""
        return np.einsum("nji,nj->ni", self.root, x) - self.half


def _positive_root(precision: Array) -> Array:
    try:
        return np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        s = curvature_scale(-precision)
        values, Q = eigh(precision * np.outer(s, s))
        made = (Q * np.maximum(np.abs(values), LEAST_CURVATURE)) @ Q.T
        return np.linalg.cholesky(made / np.outer(s, s))
