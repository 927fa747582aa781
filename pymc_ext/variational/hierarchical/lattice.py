"""A law by Laplace's method along governors whose terms do not add up: maxima on a lattice.

Scales of correlated effects and their correlation multiply one another in log p̃, so that scans
along each (:mod:`.nested`) do not tell the law of all together. Maxima of the others at some
hundred places, from the middle outwards as far as there is mass, do: what is found at a place
starts the next one, a sparse Hessian takes few differences, and between places the maximum, its
height and the Cholesky factor of −H vary smoothly. Governors whose terms add up, as those of a
residual's sd do, have their scans beside the lattice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator

from pymc_ext.density import CountedDensity
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.grid import Grid
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.added import Added
from pymc_ext.variational.hierarchical.law import (
    Conditional,
    LawAlong,
    Terms,
    box_of,
    cell_in,
    smooth,
)
from pymc_ext.variational.hierarchical.maxima import (
    MOST_ROUNDING,
    Maximum,
    Stacked,
    maximum_near,
    stacked,
    unstacked,
)
from pymc_ext.variational.hierarchical.nested import cells_along
from pymc_ext.variational.hierarchical.others import Coordinates
from pymc_ext.variational.hierarchical.scan import Middle, Scan, ends_of, scans_along

# A scan's place is left out where the gap that this makes is at most so many sds, and the others'
# sds given all else change at most so much by it, as a logarithm.
WIDEST, MOST_CHANGE = 2.0, 1.0
# Nats below the highest place at which nobody goes on, and beyond which places are not used.
EDGE, USED = 13.0, 19.0
# Places in the lattice's box times differences for a Hessian: a fifth of the box has mass, and a
# place takes two Hessians of two scores a difference, so that there are at most 25,000 scores.
MOST_WORK = 30_000
INSIDE = 3  # cells between two places: a third of an sd, on which p(t) is constant
MOST_CONDITIONALS = 16_000  # places times values of what adds up: a Cholesky each


class _Parts(Stacked):
    along: tuple[int, ...]
    axes: tuple[Array, ...]
    places: Coordinates


@dataclass(frozen=True, eq=False)
class Lattice(ByValue):
    """Maxima at places of a lattice.

    Parameters
    ----------
    along
        The g governors, places in θ.
    axes
        Values along each.
    places
        Which of these each maximum has, (P, g).
    maxima
        P.
    """

    along: tuple[int, ...]
    axes: tuple[Array, ...]
    places: Coordinates
    maxima: tuple[Maximum, ...]

    def to_parts(self) -> _Parts:
        """For a file."""
        found = stacked(self.maxima)
        return {"along": self.along, "axes": self.axes, "places": self.places, **found}

    @classmethod
    def of_parts(cls, parts: _Parts) -> Lattice:
        """What :meth:`to_parts` gave."""
        return cls(parts["along"], parts["axes"], parts["places"], unstacked(parts))

    def unit(self, t: Array) -> Array:
        """Values (N, g) with each axis from −1 to 1."""
        lower, upper = np.array([[axis[0], axis[-1]] for axis in self.axes]).T
        return np.asarray(2 * (t - lower) / (upper - lower) - 1)

    @cached_property
    def known(self) -> Array:
        """Where the maxima are, in units, (P, g)."""
        t = [axis[self.places[:, k]] for k, axis in enumerate(self.axes)]
        return self.unit(np.stack(t, axis=1))

    @cached_property
    def _grid(self) -> Grid:
        counts = np.array([len(axis) for axis in self.axes])
        return Grid(np.concatenate(self.axes), counts, self.places)

    def between(self, values: Array, t: Array) -> Array:
        """Of the maxima, (P, K), at values (N, g) in cells, (N, K): cubic along each axis, from
        four places, so that what happens in the bulk disturbs nothing in a neck."""
        return self._grid.between(values, t)

    @cached_property
    def index(self) -> NDArray[np.integer]:
        """Number of each cell of the box, −1 of those between places of which one is unknown."""
        known = self._grid.known_cells(INSIDE)
        return np.where(known, np.cumsum(known).reshape(known.shape) - 1, -1)

    @cached_property
    def edges(self) -> tuple[Array, Array]:
        """Where cells begin and end, (T, g) each."""
        return self._grid.cells(INSIDE)

    def cell_of(self, t: Array) -> Coordinates:
        """(N, g) -> (N,); −1 outside of all."""
        cell = cell_in(t, self._grid.edges_along(INSIDE))
        return np.where(cell >= 0, self.index.ravel()[cell], -1)


@dataclass(frozen=True, eq=False)
class LatticeLaplace(LawAlong):
    """The law of a lattice, and of scans whose terms add up to it.

    Parameters
    ----------
    lattice, scans
        Of the governors, which are in this order.
    """

    lattice: Lattice
    scans: tuple[Scan, ...]

    @property
    def governors(self) -> Coordinates:
        """Places of t in θ, (G,)."""
        return np.array([*self.lattice.along, *(scan.j for scan in self.scans)])

    @cached_property
    def _beside(self) -> tuple[tuple[Array, ...], Array]:
        """Cells along scans."""
        return cells_along(self.scans, MOST_CONDITIONALS // len(self.lattice.maxima))

    @cached_property
    def edges(self) -> tuple[Array, Array]:
        """Where cells begin and end, (C, G) each, those along the lattice the slowest."""
        beside = box_of(self._beside[0])
        lower, upper = (_pairs(a, b) for a, b in zip(self.lattice.edges, beside, strict=True))
        return lower, upper

    def cell_of(self, t: Array) -> Coordinates:
        """In which cell values lie, (N, G) -> (N,); −1 outside of all."""
        g = len(self.lattice.along)
        cell, beside = self.lattice.cell_of(t[:, :g]), cell_in(t[:, g:], self._beside[0])
        inside = (cell >= 0) & (beside >= 0)
        return np.where(inside, cell * len(self._beside[1]) + beside, -1)

    @cached_property
    def _added(self) -> Added:
        return Added(self.scans, self.middle, self.origin)

    @cached_property
    def marginal(self) -> Array:
        """p(t) of the cells, (C,), their sum 1: interpolated from places."""
        beside = self._beside[1]
        log_p = np.array([self._log_p(found, beside) for found in self.lattice.maxima])
        lower, upper = self.lattice.edges
        between = RBFInterpolator(self.lattice.known, log_p - log_p.max(), kernel="cubic", degree=1)
        log_p = between(self.lattice.unit(0.5 * (lower + upper))).ravel()
        lower, upper = self.edges
        mass = np.exp(log_p - log_p.max()) * np.prod(upper - lower, axis=1)
        return np.asarray(mass / mass.sum())

    def _log_p(self, found: Maximum, beside: Array) -> Array:
        """At one place and all values (S, G − g) of what adds up, (S,)."""
        terms = Terms.of_maxima([found] * len(beside), self.origin)
        return Conditional.of(self.others.pattern, self._added.at(beside, terms)).log_p

    @cached_property
    def _at_places(self) -> Array:
        """Numbers that vary smoothly from place to place, (P, K)."""
        return smooth(self.lattice.maxima, self.origin)

    def terms_at(self, t: Array) -> Terms:
        """At values (N, G) in cells, x measured from the middle."""
        g = len(self.lattice.along)
        return self._added.at(t[:, g:], self._of_lattice(t[:, :g]))

    def _of_lattice(self, t: Array) -> Terms:
        """At values (N, g) of its governors alone."""
        return Terms.of_smooth(self.others.pattern, self.lattice.between(self._at_places, t))

    def terms_between(self, t: Array) -> Terms:
        """The same at any values, without steps from node to node."""
        g = len(self.lattice.along)
        lower, upper = np.array([[axis[0], axis[-1]] for axis in self.lattice.axes]).T
        return self._added.between(t[:, g:], self._of_lattice(np.clip(t[:, :g], lower, upper)))


def _pairs(rows: Array, others: Array) -> Array:
    """All pairs of rows (T, g) and (S, h), (T S, g + h)."""
    return np.hstack([np.repeat(rows, len(others), axis=0), np.tile(others, (len(rows), 1))])


def lattice_laplace(
    density: CountedDensity, start: Middle, crossing: Sequence[int], adding: Sequence[int]
) -> LatticeLaplace | None:
    """Along governors, from the middle of draws outwards.

    None where a side of one has too few maxima, where too many places were to be looked at, or
    where the law is nothing like p.

    Parameters
    ----------
    density
        log p̃ and its score.
    start
        With all else free.
    crossing, adding
        Governors on a lattice, two or three, and those whose terms add up, places in θ.
    """
    found = scans_along(density, start, [*crossing, *adding])
    if found is None:
        return None
    start, scans = found
    lattice = _filled(density, start.maximum, scans[: len(crossing)])
    if lattice is None:
        return None
    law = LatticeLaplace(start.maximum, ends_of(scans), lattice, scans[len(crossing) :])
    return law if law.fits(density) else None


def _filled(density: CountedDensity, middle: Maximum, scans: Sequence[Scan]) -> Lattice | None:
    """Places from the middle outwards, the highest first; None where they would be too many."""
    others = middle.others
    along = [scan.j for scan in scans]
    kept = [_thinned(scan, middle) for scan in scans]
    axes = tuple(
        np.array([m.theta[j] for m in maxima]) for j, maxima in zip(along, kept, strict=True)
    )
    if np.prod([len(axis) for axis in axes]) * len(others.columns) > MOST_WORK:
        return None
    here = tuple(next(i for i, m in enumerate(of_scan) if m is middle) for of_scan in kept)
    maxima = {here: middle}
    for k, of_scan in enumerate(kept):
        maxima |= {(*here[:k], i, *here[k + 1 :]): m for i, m in enumerate(of_scan)}
    highest = max(m.log_p for m in maxima.values())
    ahead = [(-m.log_p, place) for place, m in maxima.items()]
    heapq.heapify(ahead)
    tried = set(maxima)
    while ahead:
        fallen, place = heapq.heappop(ahead)
        if -fallen < highest - EDGE:
            break  # all that are left are lower
        for nearby, behind in _neighbours(place, axes):
            if nearby in tried:
                continue
            tried.add(nearby)
            near, at = maxima[place], maxima[place].theta.copy()
            t = [axis[i] for axis, i in zip(axes, nearby, strict=True)]
            if behind in maxima:  # the others go on as they went from there to here
                k = next(k for k in range(len(axes)) if nearby[k] != place[k])
                back = maxima[behind].theta
                share = (t[k] - at[along[k]]) / (at[along[k]] - back[along[k]])
                at += share * (at - back)
            at[along] = t
            there = maximum_near(density, at, near.sds, others)
            if there is not None and there.rounding <= MOST_ROUNDING:
                maxima[nearby] = there
                highest = max(highest, there.log_p)
                heapq.heappush(ahead, (-there.log_p, nearby))
    used = {place: m for place, m in maxima.items() if m.log_p > highest - USED}
    return Lattice(tuple(along), axes, np.array(list(used)), tuple(used.values()))


def _thinned(scan: Scan, middle: Maximum) -> tuple[Maximum, ...]:
    """Its maxima as far as there is mass, without those between two that are near enough, the
    middle among them."""
    lowest = max(m.log_p for m in scan.maxima) - EDGE
    at = next(i for i, m in enumerate(scan.maxima) if m is middle)

    def side(maxima: Sequence[Maximum]) -> Iterator[Maximum]:
        last = middle
        for here, further in zip_longest(maxima, maxima[1:]):
            if further is None or not near(last, further):
                yield here
                last = here

    def near(here: Maximum, there: Maximum) -> bool:
        gap = abs(there.theta[scan.j] - here.theta[scan.j])
        change = np.abs(np.log(there.sds / here.sds)).max()
        return bool(gap <= WIDEST * scan.sd and change <= MOST_CHANGE)

    def upto(maxima: Sequence[Maximum]) -> Sequence[Maximum]:
        beyond = (k for k, m in enumerate(maxima) if m.log_p < lowest)
        return maxima[: next(beyond, len(maxima)) + 1]

    below = list(side(upto(scan.maxima[:at][::-1])))
    return *reversed(below), middle, *side(upto(scan.maxima[at + 1 :]))


def _neighbours(
    place: tuple[int, ...], axes: Sequence[Array]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each place beside, with that on the other side."""
    for k, axis in enumerate(axes):
        for step in (-1, 1):
            if 0 <= place[k] + step < len(axis):
                yield (
                    (*place[:k], place[k] + step, *place[k + 1 :]),
                    (*place[:k], place[k] - step, *place[k + 1 :]),
                )
