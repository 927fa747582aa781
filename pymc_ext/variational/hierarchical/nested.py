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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_triangular

from pymc_ext.density import CountedDensity
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.columns import Columns
from pymc_ext.variational.hierarchical.law import (
    LawAlong,
    Terms,
    all_of,
    box_of,
    cell_in,
    place_between,
)
from pymc_ext.variational.hierarchical.maxima import (
    FIRST_STEPS,
    Coordinates,
    Maximum,
    maxima_along,
    maximum_near,
    sparse_columns,
)

STEP, FEWEST = 0.5, 4  # first step between places, in sds of the draws; places of a cubic spline
# Nats below the highest place at which a side ends, for each governor: less than .1 % lies beyond,
# and a scan has the other governors in their middle, where the tail of this one may be lighter.
FALL = 8.0
NODES = 16  # between two places, at which the law is known: a thirtieth of an sd in the bulk
MOST_CELLS = 4_000  # of all governors' values, on each of which p(t) is constant: a Cholesky each


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
        highest = self._between([found.log_density for found in self.maxima])
        return Terms.around(x, highest, np.swapaxes(inverse, 1, 2))

    def _between(self, values: Sequence[float | Array] | Array) -> Array:
        """Of maxima, at the nodes."""
        return np.asarray(CubicSpline(self.places, np.asarray(values))(self.nodes))


@dataclass(frozen=True, eq=False)
class NestedLaplace(LawAlong):
    """The law of scans whose terms add up.

    Parameters
    ----------
    scans
        Of the G governors.
    """

    scans: tuple[Scan, ...]

    @property
    def governors(self) -> Coordinates:
        """Places of t in θ, (G,)."""
        return np.array([scan.j for scan in self.scans])

    @cached_property
    def _cells(self) -> tuple[tuple[Array, ...], Array]:
        return cells_along(self.scans, MOST_CELLS)

    @cached_property
    def edges(self) -> tuple[Array, Array]:
        """Where cells begin and end, (C, G) each."""
        return box_of(self._cells[0])

    @cached_property
    def marginal(self) -> Array:
        """p(t) of the cells, (C,), their sum 1."""
        lower, upper = self.edges
        log_p = np.concatenate([given.log_p for _, given in self._given(self._cells[1])])
        mass = np.exp(log_p - log_p.max()) * np.prod(upper - lower, axis=1)
        return np.asarray(mass / mass.sum())

    def cell_of(self, t: Array) -> Coordinates:
        """In which cell values lie, (N, G) -> (N,); −1 outside of all."""
        return cell_in(t, self._cells[0])

    @cached_property
    def terms(self) -> tuple[Terms, ...]:
        """Of each scan, at its nodes, less those of the middle but for one."""
        middle = Terms.of_maxima([self.middle], self.others, self.origin)
        first, *more = (scan.terms(self.others, self.origin) for scan in self.scans)
        return first, *(terms.plus(middle, -1) for terms in more)

    def terms_at(self, t: Array) -> Terms:
        """At values (N, G) in cells, x measured from the middle."""
        nodes = [place_between(t[:, k], scan.edges) for k, scan in enumerate(self.scans)]
        total, *more = (terms[at] for terms, at in zip(self.terms, nodes, strict=True))
        for terms in more:
            total = total.plus(terms)
        return total


def cells_along(scans: Sequence[Scan], most: int) -> tuple[tuple[Array, ...], Array]:
    """Edges of cells along each scan, so many nodes wide that there are at most ``most`` in all,
    and the node in the middle of each, (C, G)."""
    step = 1
    while step < NODES and np.prod([len(scan.nodes) // step for scan in scans]) > most:
        step *= 2
    edges = tuple(scan.edges[::step] for scan in scans)
    return edges, all_of([scan.nodes[step // 2 :: step] for scan in scans])


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
    law = NestedLaplace(others, found.middle, found.scans)
    return law if law.fits(density) else None


def middle_of(theta: Array, along: Sequence[int]) -> tuple[Array, Array]:
    """The draw of (N, D) nearest to the middle of some coordinates, and sds of all, (D,)."""
    lower, median, upper = np.quantile(theta, [0.16, 0.5, 0.84], axis=0)  # one sd of a normal's
    sds = 0.5 * (upper - lower)  # draws of a proposal have tails that no sd is of
    off = ((theta - median) / np.maximum(sds, np.finfo(float).tiny))[:, list(along)]
    return theta[np.argmin((off**2).sum(axis=1))], sds


@dataclass(frozen=True)
class Scans:
    """Of some governors.

    Parameters
    ----------
    middle
        Where they start.
    scans
        Of each governor.
    columns
        Of a Hessian's differences.
    """

    middle: Maximum
    scans: tuple[Scan, ...]
    columns: Columns


def maximum_in_middle(
    density: CountedDensity, theta: Array, along: Sequence[int], others: Coordinates
) -> tuple[Maximum, Columns] | None:
    """The maximum of ``others`` in the middle of draws ``theta`` (N, D) along governors, and a
    Hessian's differences; None where there is none."""
    middle, sds = middle_of(theta, along)
    if not len(others) or not np.all(sds > 0):
        return None
    found = maximum_near(density, middle, conditional_sds(theta, others), others, FIRST_STEPS)
    return None if found is None else (found, sparse_columns(density, found, theta[0], others))


def scans_along(
    density: CountedDensity, theta: Array, governors: Sequence[int], others: Coordinates
) -> Scans | None:
    """The maximum of ``others`` in the middle of draws ``theta`` (N, D), and scans from there along
    each governor, all that is neither held; None where they have no maximum."""
    along = list(governors)
    started = maximum_in_middle(density, theta, along, others)
    if started is None:
        return None
    (found, columns), (_, sds) = started, middle_of(theta, along)
    scans = []
    for j in along:
        step, fall = STEP * sds[j], FALL * len(along)
        maxima = maxima_along(density, found, j, others, step, fall, columns)
        if len(maxima) < FEWEST:
            return None
        scans.append(Scan(j, maxima))
    return Scans(found, tuple(scans), columns)


def conditional_sds(theta: Array, others: Coordinates) -> Array:
    """Rough sds of the others given all else, (D − G,)."""
    precision = np.linalg.pinv(np.cov(theta.T))
    return 1 / np.sqrt(np.maximum(np.diag(precision)[others], 1e-300))
