r"""A law of all coordinates by Laplace's method, along those that govern others' scales.

Chains and draws of q see nothing of a neck that they do not enter. Given the governors t, a few log
scales, the others x are near a normal,

.. math:: \log\tilde p(t, x) \approx c(t) + \eta(t)^T x - \tfrac12 x^T \Lambda(t) x, \qquad
    \log p(t) \approx c + \tfrac12 \eta^T \Lambda^{-1} \eta - \tfrac12 \log|\Lambda|,

which is Tierney and Kadane's marginal (1986, doi:10.1080/01621459.1986.10478240), as INLA takes it
(Rue, Martino & Chopin 2009, doi:10.1111/j.1467-9868.2008.00700.x), with the law behind it. Each
governor has its own term in log p̃, as each level of a hierarchy has: c, η and Λ are sums of what
each adds, so that maxima of x along one governor at a time, the others where draws have their
middle, tell the law at all of their values. Of a linear model with normal effects it is the
posterior; of others it is nearly exact in necks, where the governor outweighs the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh, solve_triangular
from scipy.special import ndtr

from pymc_ext.density import CountedDensity
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.trust_region import curvature_scale
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import NUMBERS_TOGETHER
from pymc_ext.variational.gaussian.endless import RAISED
from pymc_ext.variational.hierarchical.maxima import (
    FIRST_STEPS,
    Coordinates,
    Maximum,
    maxima_along,
    maximum_near,
)

STEP, FEWEST = 0.5, 4  # first step between places, in sds of the draws; places of a cubic spline
# Nats below the highest place at which a side ends, for each governor: less than .1 % lies beyond,
# and a scan has the other governors in their middle, where the tail of this one may be lighter.
FALL = 8.0
NODES = 16  # between two places, at which the law is known: a thirtieth of an sd in the bulk
# Draws by which a law is looked at, and median nats by which their log ratios may differ from the
# median: of more, weights would leave one draw in a thousand.
LOOKED_AT, MOST_OFF = 200, 2.0
MOST_CELLS = 4_000  # of all governors' values, on each of which p(t) is constant: a Cholesky each
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
class Scan(ByValue):
    """Maxima along one governor.

    Parameters
    ----------
    j
        The governor.
    maxima
        At places along it, in their order, four at least.
    """

    j: int
    maxima: tuple[Maximum, ...]

    @cached_property
    def places(self) -> Array:
        """θ_j at the maxima, (T,)."""
        return np.array([found.theta[self.j] for found in self.maxima])

    @cached_property
    def edges(self) -> Array:
        """Between which nodes lie, (K + 1,)."""
        share = np.arange(NODES) / NODES
        inner = self.places[:-1, None] + np.diff(self.places)[:, None] * share
        return np.append(inner, self.places[-1])

    @cached_property
    def nodes(self) -> Array:
        """Values of θ_j at which the law is known, (K,)."""
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    @property
    def sd(self) -> float:
        """Of θ_j under p, the other governors in their middle."""
        log_p = self._between([found.log_p for found in self.maxima])
        mass = np.exp(log_p - log_p.max()) * np.diff(self.edges)
        mass /= mass.sum()
        return float(np.sqrt(mass @ (self.nodes - mass @ self.nodes) ** 2))

    def terms(self, others: Coordinates, origin: Array) -> Terms:
        """At the nodes, x measured from ``origin`` (D − G,)."""
        x = self._between([found.theta[others] - origin for found in self.maxima])
        diagonals = [np.diag(found.root) for found in self.maxima]
        # what varies by many powers of ten goes by its logarithm, the rest is smooth
        unit = [found.root / d for found, d in zip(self.maxima, diagonals, strict=True)]
        roots = self._between(unit) * np.exp(self._between(np.log(diagonals)))[:, None]
        one = np.eye(len(others))
        inverse = np.array([solve_triangular(root, one) for root in roots])
        precision = np.swapaxes(inverse, 1, 2) @ inverse
        linear = np.einsum("kij,kj->ki", precision, x)
        highest = self._between([found.log_density for found in self.maxima])
        return Terms(highest - 0.5 * (x * linear).sum(axis=1), linear, precision)

    def _between(self, values: Sequence[float | Array] | Array) -> Array:
        """Of maxima, at the nodes."""
        return np.asarray(CubicSpline(self.places, np.asarray(values))(self.nodes))


@dataclass(frozen=True, eq=False)
class NestedLaplace(ByValue):
    """q of all coordinates: draws, log q anywhere, and the marginals of the governors; its tails
    along these are longer than those of p.

    Parameters
    ----------
    others
        x, what governs last, (D − G,).
    middle
        The maximum from which scans start.
    scans
        Of the G governors.
    """

    others: Coordinates
    middle: Maximum
    scans: tuple[Scan, ...]

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.others) + len(self.scans)

    @property
    def latent_dimension(self) -> int:
        """One normal chooses the cell, G the place in it, the others x."""
        return self.dimension + 1

    @property
    def governors(self) -> Coordinates:
        """Places of t in θ, (G,)."""
        return np.array([scan.j for scan in self.scans])

    # ---- the governors ---------------------------------------------------------------------

    @cached_property
    def nodes_a_cell(self) -> int:
        """Of each governor; so many that there are at most `MOST_CELLS`."""
        step = 1
        while step < NODES and np.prod([len(s.nodes) // step for s in self.scans]) > MOST_CELLS:
            step *= 2
        return step

    @cached_property
    def cells(self) -> tuple[Array, ...]:
        """Edges of cells along each governor."""
        return tuple(scan.edges[:: self.nodes_a_cell] for scan in self.scans)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells along each governor."""
        return tuple(len(edges) - 1 for edges in self.cells)

    @cached_property
    def volume(self) -> Array:
        """Of each cell, (C,)."""
        widths = np.meshgrid(*(np.diff(edges) for edges in self.cells), indexing="ij")
        return np.asarray(np.prod(widths, axis=0)).ravel()

    @cached_property
    def marginal(self) -> Array:
        """p(t) of the cells, (C,), their sum 1."""
        cell = np.stack(np.unravel_index(np.arange(len(self.volume)), self.shape), axis=1)
        nodes = cell * self.nodes_a_cell + self.nodes_a_cell // 2
        log_p = np.concatenate([given.log_p for _, given in self._given(nodes)])
        mass = np.exp(log_p - log_p.max()) * self.volume
        return mass / mass.sum()

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array]:
        """Mean and sd of t under p, (G,), and squared distances of the cells in sds, (C, G)."""
        middles = [0.5 * (edges[1:] + edges[:-1]) for edges in self.cells]
        t = np.stack([m.ravel() for m in np.meshgrid(*middles, indexing="ij")], axis=1)
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

    # ---- the others ------------------------------------------------------------------------

    @property
    def origin(self) -> Array:
        """From which x is measured in terms, (D − G,)."""
        return self.middle.theta[self.others]

    @cached_property
    def terms(self) -> tuple[Terms, ...]:
        """Of each scan, less those of the middle but for one."""
        inverse = solve_triangular(self.middle.root, np.eye(len(self.others)))
        precision = (inverse.T @ inverse)[None]
        middle = Terms(
            np.array([self.middle.log_density]), np.zeros((1, len(self.others))), precision
        )
        first, *more = (scan.terms(self.others, self.origin) for scan in self.scans)
        return first, *(terms.plus(middle, -1) for terms in more)

    def _given(self, nodes: Coordinates) -> Iterator[tuple[slice, Conditional]]:
        """The law of x at nodes (N, G) of the governors, some at a time."""
        rows = max(1, NUMBERS_TOGETHER // len(self.others) ** 2)
        for begin in range(0, len(nodes), rows):
            part = slice(begin, min(begin + rows, len(nodes)))
            total, *more = (terms[nodes[part, k]] for k, terms in enumerate(self.terms))
            for terms in more:
                total = total.plus(terms)
            yield part, Conditional.of(total)

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and log q, (N, D + 1) -> (N, D), (N,)."""
        G = len(self.scans)
        upto = np.cumsum(self.masses)[:-1]
        cell = np.searchsorted(upto / self.masses.sum(), ndtr(z[:, 0]), side="right")
        along = np.unravel_index(cell, self.shape)
        theta = np.empty((len(z), self.dimension))
        nodes = np.empty((len(z), G), dtype=int)
        for k, scan in enumerate(self.scans):
            share = ndtr(z[:, 1 + k])
            lower, upper = self.cells[k][along[k]], self.cells[k][along[k] + 1]
            t = np.minimum(lower + share * (upper - lower), np.nextafter(upper, lower))
            theta[:, scan.j], nodes[:, k] = t, _cell_of(t, scan.edges)
        log_q = self._log_q_of_cell(cell)
        for part, given in self._given(nodes):
            v = z[part, 1 + G :]
            theta[part, self.others] = self.origin + given.draws(v)
            log_q[part] += standard_normal_logp(v) + given.log_det
        return theta, log_q

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,); −∞ beyond the last places."""
        log_q = np.full(len(theta), -np.inf)
        t = theta[:, self.governors]
        lower, upper = np.array([[edges[0], edges[-1]] for edges in self.cells]).T
        inside = np.flatnonzero(((t >= lower) & (t < upper)).all(axis=1))
        t = t[inside].T
        along = tuple(_cell_of(t[k], edges) for k, edges in enumerate(self.cells))
        log_q[inside] = self._log_q_of_cell(np.ravel_multi_index(along, self.shape))
        nodes = np.stack([_cell_of(t[k], scan.edges) for k, scan in enumerate(self.scans)], axis=1)
        for part, given in self._given(nodes):
            rows = inside[part]
            v = given.normals(theta[np.ix_(rows, self.others)] - self.origin)
            log_q[rows] += standard_normal_logp(v) + given.log_det
        return log_q

    def _log_q_of_cell(self, cell: Coordinates) -> Array:
        return np.log(self.masses / self.masses.sum() / self.volume)[cell]


def _cell_of(t: Array, edges: Array) -> Coordinates:
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


def nested_laplace(
    density: CountedDensity, theta: Array, governors: Sequence[int], order: Coordinates
) -> NestedLaplace | None:
    """Along governors, around draws ``theta`` (N, D), from the middle of these outwards.

    None where the others have no maximum given them, or where the law is nothing like p.

    Parameters
    ----------
    density
        log p̃ and its score.
    theta
        Draws that hold the bulk.
    governors
        Places of t in θ, one at least.
    order
        All coordinates, (D,), what governs before what it governs.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> wide = np.array([2.0, 1.0])  # sds of independent normals
    >>> normal = CallableDensity(
    ...     lambda x: -0.5 * ((x / wide) ** 2).sum(1), lambda x: -x / wide**2, dimension=2
    ... )
    >>> draws = np.random.default_rng(1).uniform(-1, 1, (100, 2))
    >>> nested_laplace(CountedDensity(normal), draws, [0], np.arange(2)).sd_along.round(1)
    array([2.])
    """
    others = np.array([k for k in order[::-1] if k not in set(governors)])
    found = scans_along(density, theta, governors, others)
    if found is None:
        return None
    law = NestedLaplace(others, *found)
    return law if _fits(law, density) else None


def middle_of(theta: Array, along: Sequence[int]) -> tuple[Array, Array]:
    """The draw of (N, D) nearest to the middle of some coordinates, and sds of all, (D,)."""
    lower, median, upper = np.quantile(theta, [0.16, 0.5, 0.84], axis=0)  # one sd of a normal's
    sds = 0.5 * (upper - lower)  # draws of a proposal have tails that no sd is of
    off = ((theta - median) / np.maximum(sds, np.finfo(float).tiny))[:, list(along)]
    return theta[np.argmin((off**2).sum(axis=1))], sds


def scans_along(
    density: CountedDensity, theta: Array, governors: Sequence[int], others: Coordinates
) -> tuple[Maximum, tuple[Scan, ...]] | None:
    """The maximum of ``others`` in the middle of draws ``theta`` (N, D), and scans from there along
    each governor, all that is neither held; None where they have no maximum."""
    along = list(governors)
    middle, sds = middle_of(theta, along)
    if not len(others) or not np.all(sds > 0):
        return None
    sds_given = conditional_sds(theta, others)
    found = maximum_near(density, middle, sds_given, others, FIRST_STEPS)
    if found is None:
        return None
    scans = []
    for j in along:
        maxima = maxima_along(density, found, j, others, STEP * sds[j], FALL * len(along))
        if len(maxima) < FEWEST:
            return None
        scans.append(Scan(j, maxima))
    return found, tuple(scans)


def _fits(law: NestedLaplace, density: CountedDensity) -> bool:
    """Whether it is anything like p: terms that do not add up may put all mass in a corner."""
    with np.errstate(all="ignore"):
        if not np.all(law.sd_along > 0):
            return False
        z = np.random.default_rng(0).standard_normal((LOOKED_AT, law.latent_dimension))
        theta, log_q = law.forward(z)
        try:
            log_ratios = density.log_density(theta) - log_q
        except RAISED:  # such numbers are an error there
            return False
    off = np.abs(log_ratios - np.median(log_ratios))  # NaN where half of the draws have no weight
    return bool(np.median(off) < MOST_OFF)


def conditional_sds(theta: Array, others: Coordinates) -> Array:
    """Rough sds of the others given all else, (D − G,)."""
    precision = np.linalg.pinv(np.cov(theta.T))
    return 1 / np.sqrt(np.maximum(np.diag(precision)[others], 1e-300))
