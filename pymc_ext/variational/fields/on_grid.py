"""The law of a field from its conditionals on a grid of the globals, wherever these have mass.

Curves along a few straight lines miss a neck: as the scale of effects falls to nothing their means
move with all else, and the ridge down there lies along no line through the maximum. Places go from
there outwards, the highest first, as far as there is mass; where two steps were seen to change what
each of them changes alone, as in necks, the next place is made of these. Their axes are the
globals' own: deep in the neck of one scale nothing depends on it any more, and the ridge runs along
it. Between places x̂ and the entries of K go by the same weights for all of the field, so that
effects stay beside their mean however narrow the neck is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, product

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
# Nats, sds of x̂ and shares of entries of K by which two steps at once may change more than each by
# itself where the next place is made of these: deep in a neck nothing depends on its scale any
# more. It saves a third to two thirds of the scores; .1 left out a quarter of a percent of the mass
# of correlated effects, as their exact draws show and k̂ does not.
TOGETHER = 0.03
MOST_PLACES = 3_000  # twice those of correlated effects, two of whose four globals have necks

Place = tuple[int, ...]
Steps = NDArray[np.integer]
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
        numbers[:, 0].copy(),
        numbers[:, 1:].copy(),  # else every look at them copies all
        by_place.near.common,
        np.zeros(n),
        Marginal.identity(n),
        by_place.near.means,
    )


class TooManyPlacesError(NoMaximumError):
    """The evidence of the globals has mass at more places than a map has room for."""


class Filled:
    """What conditionals are at places, each a number of steps along each axis."""

    def __init__(self, by_place: ByPlace, at: Conditional, slope: Slope, sds: Array) -> None:
        self.by_place, self.slope, self.sds = by_place, slope, sds
        self.middle = at.point[by_place.n :]
        self.rows: dict[Place, Row] = {(0,) * len(sds): (at.evidence, at.numbers)}
        self.beyond: dict[Place, Row] = {}  # by straight lines

    def fill(self, most: int = MOST_PLACES) -> None:
        """From the maximum outwards, at so many places."""
        ((middle, (highest, _)),) = self.rows.items()
        ahead, tried = [(-highest, middle)], {middle}
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
                    row = self._foreseen(nearby) or self._from(place, behind, nearby)
                except (NoMaximumError, np.linalg.LinAlgError):
                    if self.rows[place][0] > highest - KNOWN or behind not in self.rows:
                        raise
                    self._go_straight_on(behind, place, nearby, highest - FALLEN)
                    continue
                self.rows[nearby], highest = row, max(highest, row[0])
                heapq.heappush(ahead, (-row[0], nearby))

    def grid(self) -> tuple[Grid, Array, Array]:
        """Of the T places, with the evidence (T,) and the numbers (T, b + m + 2, n) there."""
        highest = max(evidence for evidence, _ in self.rows.values())
        rows = _with_corners(self.beyond | self.rows, highest - FALLEN)
        nodes = np.array(list(rows))
        low, high = nodes.min(axis=0), nodes.max(axis=0)
        axes = [self.along(np.arange(a, b + 1)) for a, b in zip(low, high, strict=True)]
        grid = Grid(np.concatenate(axes), high - low + 1, nodes - low)
        evidence, numbers = (np.array(found) for found in zip(*rows.values(), strict=True))
        for y in grid.values.T:
            _refuse_tail_without_end(y, evidence)
        return grid, evidence, numbers

    def _from(self, place: Place, behind: Place, nearby: Place) -> Row:
        """That next to one, whose locals go on as they went, or as they follow."""
        _, here = self.rows[place]
        there = self.along(np.array(nearby))
        if behind in self.rows:
            _, back = self.rows[behind]
            change = self._share(behind, place, nearby) * (here[0] - back[0])
        else:
            change = (self.sds * (there - self.along(np.array(place)))) @ self.slope.follows
        point = np.concatenate([here[0] + change, self.middle + self.sds * there])
        found = self.by_place.conditional(point, np.exp(-here[1]), WITHIN)
        if found.rounding > MOST_ROUNDING:
            raise NoMaximumError("what effects say of their mean is rounding")
        return found.evidence, found.numbers

    def _go_straight_on(self, behind: Place, place: Place, nearby: Place, lowest: float) -> None:
        """Until the evidence is below ``lowest``, or does not fall."""
        (behind_it, back), (start, here) = self.rows[behind], self.rows[place]
        fall, change, step = start - behind_it, here - back, np.subtract(nearby, place)
        evidence = start
        while fall < 0 and evidence > lowest:
            share = self._share(behind, place, nearby)
            evidence = start + share * fall
            self.beyond[nearby] = evidence, here + share * change
            nearby = tuple((nearby + step).tolist())

    def _foreseen(self, place: Place) -> Row | None:
        """By two steps that each change there what they change alone, as they did one step before;
        None where none are seen to."""
        found, least = None, TOGETHER
        for first, second in combinations(_steps_to(place), 2):
            corner = _by_two_steps(self.rows, place, first, second)
            if corner is None:
                continue
            for step in (first, second):
                before = tuple(np.subtract(place, step).tolist())
                if np.dot(before, step) > 0:  # else one of the two leads back to the maximum there
                    more = self._changed_more(before, first, second)
                    if more < least:
                        found, least = corner, more
        return found

    def _changed_more(self, place: Place, first: Steps, second: Steps) -> float:
        """Nats or sds by which it is not that, or shares of an entry of K."""
        made = _by_two_steps(self.rows, place, first, second)
        if made is None or place not in self.rows:
            return np.inf
        evidence, numbers = self.rows[place]
        change = np.abs(numbers - made[1])
        change[0] *= np.exp(numbers[1])  # x̂, in sds of each given those after it
        return max(abs(evidence - made[0]), float(change.max()))

    def _share(self, behind: Place, place: Place, nearby: Place) -> float:
        """How far it is from a place to the next, by how far it is to the one behind it."""
        back, here, there = (self.along(np.array(p)) for p in (behind, place, nearby))
        return float(np.abs(there - here).sum() / np.abs(here - back).sum())

    def along(self, steps: Array) -> Array:
        """y after so many steps, of any shape."""
        even, far = np.minimum(np.abs(steps), EVEN), np.maximum(np.abs(steps) - EVEN, 0)
        further = WIDER * (WIDER**far - 1) / (WIDER - 1)
        return np.asarray(APART[len(self.sds) - 1] * np.sign(steps) * (even + further))


def _with_corners(rows: dict[Place, Row], lowest: float) -> dict[Place, Row]:
    """With what is not known of the cells about each place whose evidence is above ``lowest``:
    there two steps change what each changes by itself."""
    known = dict(rows)
    for place, (evidence, _) in rows.items():
        if evidence < lowest:
            continue
        for steps in _diagonals(len(place)):
            there = tuple((np.array(place) + steps).tolist())
            if there not in known:
                corner = _by_two_steps(known, there, *_steps_to(steps.tolist())[-2:])
                if corner is not None:
                    known[there] = corner
    return known


def _by_two_steps(rows: dict[Place, Row], place: Place, first: Steps, second: Steps) -> Row | None:
    """What a place would be if each of two steps, which end there, changed what it changes alone;
    None where it is not known what."""
    ends = (tuple(np.subtract(place, s).tolist()) for s in (first, second, first + second))
    known = [rows[end] for end in ends if end in rows]
    if len(known) < 3:
        return None
    (a, at_a), (b, at_b), (c, at_c) = known
    return a + b - c, at_a + at_b - at_c


@cache
def _diagonals(g: int) -> list[NDArray[np.integer]]:
    """Steps along two axes and more, the fewest first."""
    steps = np.array(list(product((-1, 0, 1), repeat=g)))
    axes = np.abs(steps).sum(axis=1)
    return [steps[i] for i in np.argsort(axes, kind="stable") if axes[i] > 1]


def _steps_to(place: Sequence[int]) -> list[Steps]:
    """One along each axis on which it is not in the middle, outwards."""
    return [
        np.sign(p) * row for p, row in zip(place, np.eye(len(place), dtype=int), strict=True) if p
    ]


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
