"""The law of a field from its conditionals on a grid of the globals, wherever these have mass.

Curves along a few straight lines miss a neck: as the scale of effects falls to nothing their means
move with all else, and the ridge down there lies along no line through the maximum. Places go from
there outwards, the highest first, as far as there is mass. Their axes are the globals' own: deep in
the neck of one scale nothing depends on it any more, and the ridge runs along it. Between places x̂
and the entries of K go by the same weights for all of the field, so that effects stay beside their
mean however narrow the neck is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.grid import Grid
from pymc_ext.maths.marginal import Marginal
from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.conditional import ByPlace, Conditional, NoMaximumError
from pymc_ext.variational.fields.evidence import Slope
from pymc_ext.variational.fields.globals_grid import GlobalsGrid
from pymc_ext.variational.fields.map import FieldMap

# Sds between places near the maximum, of one to four globals: weights by cubics between them had an
# ESS/N of .99 and more of hierarchies of normals, by such of twice as many sds .5 to .95; of four
# globals .8 to .95, for half of the scores that the map with links takes.
APART = (0.8, 1.25, 1.5, 2.0)
MOST_AXES = len(APART)
# From the third place on each step is so many times the last one: a normal ends after five sds, and
# where a tail is long all numbers go straight on, or to a limit.
EVEN, WIDER = 3, 1.25
# Nats below the maximum from which nobody goes on: beyond it an exponential tail has a hundredth of
# its variance. Deep in a neck differences of scores may know no curvature any more: from so many
# nats on all numbers go straight on there, and weights tell what is wrong with that.
FALLEN, KNOWN = 12.0, 4.0
# Nats an sd by which the evidence falls there at least. An exponential prior of a scale falls by
# one a unit of its logarithm, whose sd is a tenth of that and more where a neck has any mass.
SLOWEST = 0.05
WITHIN = 0.01  # of the evidence at a place
MOST_ROUNDING = 0.05  # of a mean's pivot: it errs the evidence by a fortieth
MOST_PLACES = 3_000  # twice those of correlated effects, two of whose four globals have necks

Place = tuple[int, ...]
Row = tuple[float, Array]  # evidence and numbers


def on_grid(
    by_place: ByPlace, at: Conditional, slope: Slope, sds: Array, most: int = MOST_PLACES
) -> FieldMap:
    """Around the maximum ``at`` of one to four globals, whose ``sds`` (g,) are the grid's units.

    Raises
    ------
    NoMaximumError
        The evidence does not fall to some side within `MOST_PLACES`, or is not known there.
    TooManyPlacesError
        It has mass at more than ``most`` places, which are fewer.
    """
    found = Filled(by_place, at, slope, sds)
    found.fill(min(most, MOST_PLACES))
    n, order = by_place.n, by_place.near.order
    grid, evidence, numbers = found.grid()
    return FieldMap(
        np.concatenate([order[n:], order[:n]]),
        GlobalsGrid(at.point[n:], sds, grid, evidence),
        grid,
        numbers[:, 0],
        numbers[:, 1:],
        by_place.near.common,
        np.zeros(n),
        Marginal.identity(n),
        by_place.near.means,
    )


class TooManyPlacesError(NoMaximumError):
    """The evidence of the globals has mass at more places than a map has room for."""


class Filled:
    """Conditionals at places, each a number of steps along each axis."""

    def __init__(self, by_place: ByPlace, at: Conditional, slope: Slope, sds: Array) -> None:
        self.by_place, self.slope, self.sds = by_place, slope, sds
        self.laws: dict[Place, Conditional] = {(0,) * len(sds): at}
        self.beyond: dict[Place, Row] = {}  # evidence and numbers by straight lines

    def fill(self, most: int = MOST_PLACES) -> None:
        """From the maximum outwards, at so many places."""
        ((middle, at),) = self.laws.items()
        ahead, tried, highest = [(-at.evidence, middle)], {middle}, at.evidence
        while ahead and -ahead[0][0] > highest - FALLEN:
            _, place = heapq.heappop(ahead)
            for nearby, behind in _neighbours(place):
                if nearby in tried:
                    continue
                tried.add(nearby)
                if len(tried) > most:
                    if most < MOST_PLACES:
                        raise TooManyPlacesError(f"there is mass at more than {most} places")
                    raise NoMaximumError("the evidence of the globals falls too slowly")
                try:
                    there = self._from(place, behind, nearby)
                except (NoMaximumError, np.linalg.LinAlgError):
                    if self.laws[place].evidence > highest - KNOWN or behind not in self.laws:
                        raise
                    self._go_straight_on(behind, place, nearby, highest - FALLEN)
                    continue
                self.laws[nearby] = there
                highest = max(highest, there.evidence)
                heapq.heappush(ahead, (-there.evidence, nearby))

    def grid(self) -> tuple[Grid, Array, Array]:
        """Of the T places, with the evidence (T,) and the numbers (T, b + m + 2, n) there."""
        known = {place: (law.evidence, law.numbers) for place, law in self.laws.items()}
        rows = self.beyond | known
        rows |= _corners(rows, max(evidence for evidence, _ in known.values()) - FALLEN)
        nodes = np.array(list(rows))
        low, high = nodes.min(axis=0), nodes.max(axis=0)
        axes = [self._along(np.arange(a, b + 1)) for a, b in zip(low, high, strict=True)]
        grid = Grid(np.concatenate(axes), high - low + 1, nodes - low)
        evidence, numbers = (np.array(found) for found in zip(*rows.values(), strict=True))
        for y in grid.values.T:
            _refuse_tail_without_end(y, evidence)
        return grid, evidence, numbers

    def _from(self, place: Place, behind: Place, nearby: Place) -> Conditional:
        """The conditional next to one, whose locals go on as they went, or as they follow."""
        here, n = self.laws[place], self.by_place.n
        move = self._along(np.array(nearby)) - self._along(np.array(place))
        point = self.slope.moved(here.point, self.sds * move)
        if behind in self.laws:
            change = here.point[:n] - self.laws[behind].point[:n]
            point[:n] = here.point[:n] + self._share(behind, place, nearby) * change
        found = self.by_place.conditional(point, here.sds, WITHIN)
        if found.rounding > MOST_ROUNDING:
            raise NoMaximumError("what effects say of their mean is rounding")
        return found

    def _go_straight_on(self, behind: Place, place: Place, nearby: Place, lowest: float) -> None:
        """Until the evidence is below ``lowest``, or does not fall."""
        back, here, step = self.laws[behind], self.laws[place], np.subtract(nearby, place)
        fall, change = here.evidence - back.evidence, here.numbers - back.numbers
        evidence = here.evidence
        while fall < 0 and evidence > lowest:
            share = self._share(behind, place, nearby)
            evidence = here.evidence + share * fall
            self.beyond[nearby] = evidence, here.numbers + share * change
            nearby = tuple((nearby + step).tolist())

    def _share(self, behind: Place, place: Place, nearby: Place) -> float:
        """How far it is from a place to the next, by how far it is to the one behind it."""
        back, here, there = (self._along(np.array(p)) for p in (behind, place, nearby))
        return float(np.abs(there - here).sum() / np.abs(here - back).sum())

    def _along(self, steps: Array) -> Array:
        """y after so many steps, of any shape."""
        even, far = np.minimum(np.abs(steps), EVEN), np.maximum(np.abs(steps) - EVEN, 0)
        further = WIDER * (WIDER**far - 1) / (WIDER - 1)
        return np.asarray(APART[len(self.sds) - 1] * np.sign(steps) * (even + further))


def _corners(rows: dict[Place, Row], lowest: float) -> dict[Place, Row]:
    """What is not known of the cells about each place whose evidence is above ``lowest``: there two
    steps change what each changes by itself."""
    added: dict[Place, Row] = {}
    for place, (evidence, _) in rows.items():
        if evidence < lowest:
            continue
        for steps in _diagonals(len(place)):
            there = tuple((np.array(place) + steps).tolist())
            if there in rows or there in added:
                continue
            j, k = np.flatnonzero(steps)[-2:]
            before: list[Row] = []
            for left_out in ([j], [k], [j, k]):
                step = steps.copy()
                step[left_out] = 0
                at = tuple((np.array(place) + step).tolist())
                row = rows.get(at) or added.get(at)
                before.extend([row] if row else [])
            if len(before) == 3:
                (a, at_a), (b, at_b), (c, at_c) = before
                added[there] = a + b - c, at_a + at_b - at_c
    return added


@cache
def _diagonals(g: int) -> list[NDArray[np.integer]]:
    """Steps along two axes and more, the fewest first."""
    steps = np.array(list(product((-1, 0, 1), repeat=g)))
    axes = np.abs(steps).sum(axis=1)
    return [steps[i] for i in np.argsort(axes, kind="stable") if axes[i] > 1]


def _neighbours(place: Place) -> Iterator[tuple[Place, Place]]:
    """The next place along each axis both ways, and the one on the other side of this one."""
    for k in range(len(place)):
        above, below = ((*place[:k], place[k] + side, *place[k + 1 :]) for side in (1, -1))
        yield above, below
        yield below, above


def _refuse_tail_without_end(y: Array, evidence: Array) -> None:
    """Of places at y (T,) along one axis, by the highest evidence at each."""
    along, at = np.unique(y, return_inverse=True)
    highest = np.full(len(along), -np.inf)
    np.maximum.at(highest, at, evidence - evidence.max())
    for top, places in ((highest, along), (highest[::-1], -along[::-1])):
        low = np.flatnonzero(top < -KNOWN)
        low = low[low > np.argmax(top)] - 1  # and what lies before it
        rate = (top[low] - top[low + 1]) / (places[low + 1] - places[low])
        if top[-1] > -FALLEN or np.any(rate < SLOWEST):
            raise NoMaximumError("the evidence of the globals falls too slowly")
