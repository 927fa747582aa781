"""How p falls along one governor: maxima of all else, from the middle of draws outwards.

Notation of :mod:`.nested`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline

from pymc_ext.density import CountedDensity
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.law import (
    Terms,
    smooth,
)
from pymc_ext.variational.hierarchical.maxima import (
    FIRST_STEPS,
    Maximum,
    Stacked,
    coupled,
    maxima_along,
    maximum_near,
    stacked,
    unstacked,
)
from pymc_ext.variational.hierarchical.others import Coordinates, Others

STEP, FEWEST = 0.5, 4  # first step between places, in sds of the draws; places of a cubic spline
# Nats below the highest place at which a side ends, for each governor: less than .1 % lies beyond,
# and a scan has the other governors in their middle, where the tail of this one may be lighter.
FALL = 8.0
# Sds between where scans start and their mean, or the binary logarithm of their sd by that of the
# draws, from which they start again: places in the bulk would be more than an sd apart; and how
# often they do for each governor, as the first scan's sd is rough.
FAR_OFF, ANEW = 1.0, 2
MOST_BEYOND = 0.2  # of a variance, by a straight line: more than there is where p falls ever faster
# Share of the middle's conditional sds from which on a neck is none, and the power of t by which p
# falls from which on it has an integral: a Cauchy's is 2, that of a flat log scale 0.
NARROW, POWER = 0.5, 1.5
# Share of the widest conditional sds from which on down curvatures are 1e4 times as large as
# elsewhere, and a maximum may be lost to rounding.
DEEP = 0.01
NODES = 16  # between two places, at which the law is known: a thirtieth of an sd in the bulk


class _Parts(Stacked):
    j: int


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

    def to_parts(self) -> _Parts:
        """For a file."""
        return {"j": self.j, **stacked(self.maxima)}

    @classmethod
    def of_parts(cls, parts: _Parts) -> Scan:
        """What :meth:`to_parts` gave."""
        return cls(parts["j"], unstacked(parts))

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

    @cached_property
    def mass(self) -> Array:
        """p(θ_j) of the nodes' cells, the other governors in their middle, (K,), their sum 1."""
        log_p = self._between([found.log_p for found in self.maxima])
        mass = np.exp(log_p - log_p.max()) * np.diff(self.edges)
        return np.asarray(mass / mass.sum())

    @property
    def mean(self) -> float:
        """Of θ_j under p, the other governors in their middle."""
        return float(self.mass @ self.nodes)

    @property
    def sd(self) -> float:
        """Of θ_j under p, the other governors in their middle."""
        return float(np.sqrt(self.mass @ (self.nodes - self.mean) ** 2))

    @property
    def highest(self) -> Maximum:
        """Where log p(t) is highest."""
        return max(self.maxima, key=lambda found: found.log_p)

    @property
    def open_end(self) -> float | None:
        """θ_j where a side ends before log p has fallen by `FALL` nats, if what lies beyond, by a
        straight line through log p, makes the variance `MOST_BEYOND` larger; None: nowhere.

        Not where the others' scales stay as wide as in the middle and p falls as a power that has
        an integral: no neck keeps chains from there, as of a slope under a Cauchy prior.
        """
        side = self._open_side
        return None if side is None else float(self.places[side])

    def tells_nothing(self, lost: tuple[bool, bool]) -> bool:
        """Whether it has an open end where the others' maximum was ``lost``, of which each side has
        its own: how p falls beyond is not known, and it need not fall slowly.

        Far down a neck that may be rounding, and the end stays one of p.
        """
        side = self._open_side
        return side is not None and lost[side] and not self.is_open_in_a_neck

    @property
    def is_open_in_a_neck(self) -> bool:
        """Whether it has an open end that lies far down a neck."""
        side = self._open_side
        if side is None:
            return False
        widest = np.max([found.sds for found in self.maxima], axis=0)
        return bool(np.min(self.maxima[side].sds / widest) < DEEP)

    @property
    def _open_side(self) -> int | None:
        """Which end is open, 0 or −1."""
        log_p = np.array([found.log_p for found in self.maxima])
        for last, before in ((0, 1), (-1, -2)):
            away = abs(self.places[last] - self.mean)
            rate = (log_p[before] - log_p[last]) / abs(self.places[last] - self.places[before])
            if log_p[last] < log_p.max() - FALL:
                continue
            if not rate > 0:
                return last
            is_neck = np.min(self.maxima[last].sds / self.highest.sds) < NARROW
            if not is_neck and rate * away > POWER:
                continue
            here = self.mass[last] / np.diff(self.edges)[last]
            beyond = here / rate * (away**2 + 2 * away / rate + 2 / rate**2)
            if beyond > MOST_BEYOND * self.sd**2:
                return last
        return None

    def terms(self, origin: Array) -> Terms:
        """At the nodes, x measured from ``origin`` (k,)."""
        pattern = self.maxima[0].others.pattern
        return Terms.of_smooth(pattern, self._between(smooth(self.maxima, origin)))

    def between(self, origin: Array) -> Callable[[Array], Terms]:
        """Terms at values (N,), x measured from ``origin``; beyond the last place as there."""
        pattern = self.maxima[0].others.pattern
        spline = CubicSpline(self.places, smooth(self.maxima, origin))
        return lambda t: Terms.of_smooth(
            pattern, spline(np.clip(t, self.places[0], self.places[-1]))
        )

    def _between(self, values: Sequence[float] | Array) -> Array:
        """Of maxima, at the nodes."""
        return np.asarray(CubicSpline(self.places, np.asarray(values))(self.nodes))


def middle_of(theta: Array, along: Sequence[int]) -> tuple[Array, Array]:
    """The draw of (N, D) nearest to the middle of some coordinates, and sds of all, (D,)."""
    lower, median, upper = np.quantile(theta, [0.16, 0.5, 0.84], axis=0)  # one sd of a normal's
    sds = 0.5 * (upper - lower)  # draws of a proposal have tails that no sd is of
    off = ((theta - median) / np.maximum(sds, np.finfo(float).tiny))[:, list(along)]
    return theta[np.argmin((off**2).sum(axis=1))], sds


@dataclass(frozen=True)
class Middle:
    """Where scans start: the maximum of all that moves, in the middle of draws along the rest.

    Parameters
    ----------
    maximum
        The point.
    sds
        Of the draws, (D,).
    """

    maximum: Maximum
    sds: Array

    @classmethod
    def of(
        cls,
        density: CountedDensity,
        theta: Array,
        along: Sequence[int],
        others: Coordinates | Others,
    ) -> Middle | None:
        """In the middle of draws ``theta`` (N, D) along governors; None where there is none.

        Parameters
        ----------
        density
            log p̃ and its score.
        theta
            Draws that hold the bulk.
        along
            Governors, places in θ.
        others
            What moves; where only their places are known, in an order in which the governed come
            before what governs them, their couplings are looked for.
        """
        at, sds = middle_of(theta, along)
        if not len(others) or not np.all(sds > 0):
            return None
        if not isinstance(others, Others):
            own = conditional_sds(theta, others)
            others = coupled(density, np.array([at, theta[0]]), own, others)
        own = conditional_sds(theta, others.places)
        found = maximum_near(density, at, own, others, FIRST_STEPS)
        return None if found is None else cls(found, sds)

    def moved(self, scan: Scan) -> Middle:
        """To the highest place of a scan, with its sd along it."""
        sds = self.sds.copy()
        sds[scan.j] = scan.sd
        return Middle(scan.highest, sds)

    def holding(self, held: Sequence[int]) -> Middle:
        """With more coordinates held, where they are."""
        return Middle(self.maximum.holding(held), self.sds)


def scans_along(
    density: CountedDensity, start: Middle, governors: Sequence[int]
) -> tuple[Middle, tuple[Scan, ...]] | None:
    """Along each governor all that is neither held, and from where; None where one has too few
    maxima, or ends where they tell nothing.

    Draws may lie where there is little mass, as at the end of a neck: then scans start again from
    the highest place along that governor, until each has its middle and sd, which p has not in a
    neck without an end.
    """
    scans: list[Scan] = []
    again = ANEW * len(governors)
    while len(scans) < len(governors):
        j = governors[len(scans)]
        step, fall = STEP * start.sds[j], FALL * len(governors)
        maxima, lost = maxima_along(density, start.maximum, j, step, fall)
        if len(maxima) < FEWEST:
            return None
        scan = Scan(j, maxima)
        if scan.tells_nothing(lost):
            return None
        if again and not scan.is_open_in_a_neck and _off(scan, start) >= FAR_OFF:
            start, again, scans = start.moved(scan), again - 1, []  # all begin in the same place
        else:
            scans.append(scan)
    return start, tuple(scans)


def ends_of(scans: Sequence[Scan]) -> tuple[tuple[int, float], ...]:
    """Governors whose scans end where mass lies beyond, and where."""
    found = [(scan.j, scan.open_end) for scan in scans]
    return tuple((j, end) for j, end in found if end is not None)


def _off(scan: Scan, start: Middle) -> float:
    """How far a start is from the mean of a scan, in its sds, or its sd from the scan's, as the
    logarithm of base 2."""
    shift = abs(scan.mean - start.maximum.theta[scan.j]) / scan.sd
    return float(max(shift, abs(np.log2(scan.sd / start.sds[scan.j]))))


def conditional_sds(theta: Array, places: Coordinates) -> Array:
    """Rough sds of some coordinates, each given all else."""
    precision = np.linalg.pinv(np.cov(theta.T))
    return 1 / np.sqrt(np.maximum(np.diag(precision)[places], 1e-300))
