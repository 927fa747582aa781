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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.added import Added
from pymc_ext.variational.hierarchical.law import (
    LawAlong,
    Terms,
    all_of,
    box_of,
    cell_in,
    place_between,
)
from pymc_ext.variational.hierarchical.others import Coordinates
from pymc_ext.variational.hierarchical.scan import NODES, Middle, Scan, ends_of, scans_along

MOST_CELLS = 4_000  # of all governors' values, on each of which p(t) is constant: a Cholesky each


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
    def _added(self) -> Added:
        """By all scans but the first, which has the terms of the middle too."""
        return Added(self.scans[1:], self.middle, self.origin)

    @cached_property
    def _at_nodes(self) -> Terms:
        return self.scans[0].terms(self.origin)

    @cached_property
    def _between(self) -> Callable[[Array], Terms]:
        return self.scans[0].between(self.origin)

    def terms_at(self, t: Array) -> Terms:
        """At values (N, G) in cells, x measured from the middle."""
        nodes = place_between(t[:, 0], self.scans[0].edges)
        return self._added.at(t[:, 1:], self._at_nodes[nodes])

    def terms_between(self, t: Array) -> Terms:
        """The same at any values, without steps from node to node."""
        return self._added.between(t[:, 1:], self._between(t[:, 0]))


def cells_along(scans: Sequence[Scan], most: int) -> tuple[tuple[Array, ...], Array]:
    """Edges of cells along each scan, so many nodes wide that there are at most ``most`` in all,
    and the node in the middle of each, (C, G)."""
    step = 1
    while step < NODES and np.prod([len(scan.nodes) // step for scan in scans]) > most:
        step *= 2
    edges = tuple(scan.edges[::step] for scan in scans)
    return edges, all_of([scan.nodes[step // 2 :: step] for scan in scans])


def nested_laplace(
    density: CountedDensity, start: Middle, governors: Sequence[int]
) -> NestedLaplace | None:
    """Along governors, from the middle of draws outwards.

    None where a side of one has too few maxima, or where the law is nothing like p, unless it tells
    of a neck without an end: that is p's own.

    Parameters
    ----------
    density
        log p̃ and its score.
    start
        With all else free.
    governors
        Places of t in θ, one at least.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> wide = np.array([2.0, 1.0])  # sds of independent normals
    >>> normal = CountedDensity(CallableDensity(
    ...     lambda x: -0.5 * ((x / wide) ** 2).sum(1), lambda x: -x / wide**2, dimension=2
    ... ))
    >>> draws = np.random.default_rng(1).uniform(-1, 1, (100, 2))
    >>> start = Middle.of(normal, draws, [0], np.array([1]))
    >>> nested_laplace(normal, start, [0]).sd_along.round(1)
    array([2.])
    """
    found = scans_along(density, start, governors)
    if found is None:
        return None
    start, scans = found
    law = NestedLaplace(start.maximum, ends_of(scans), scans)
    endless = any(scan.is_open_in_a_neck for scan in scans)
    return law if endless or law.fits(density) else None
