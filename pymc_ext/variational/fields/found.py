"""The map of a density whose coordinates depend on few others and on some globals, if it is one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.maths.marginal import Marginal
from pymc_ext.maths.marginal_fit import best_marginal, lines
from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.conditional import ByPlace, Conditional, NoMaximumError
from pymc_ext.variational.fields.curves import Curves, bounded
from pymc_ext.variational.fields.evidence import (
    Slope,
    TooManyScoresError,
    highest,
    information,
)
from pymc_ext.variational.fields.globals_map import GlobalsMap
from pymc_ext.variational.fields.map import FieldMap
from pymc_ext.variational.fields.means import with_means
from pymc_ext.variational.fields.neighbours import Neighbours
from pymc_ext.variational.fields.on_grid import MOST_AXES, TooManyPlacesError, on_grid
from pymc_ext.variational.fields.shape import shaped

DESIGN = 1.5  # sds of two globals at which it is looked at what both do together
STEEPEST = 0.5  # log sd by t of another: from side to side a factor of four
# Sds between places along an axis, which ends where the evidence is so many nats below its maximum
# (four sds of a normal), after so many places to a side at the latest.
APART, FALLEN, MOST_PLACES = 0.8, 8.0, 16
# Globals of groups for which the law is on a grid, neck or not: two take few scores.
FEW_OF_GROUPS = 2
# Sds after which the evidence has fallen so where there is no neck, a normal's after four.
NO_NECK = 5.0
MOST_OF_GROUPS = int(NO_NECK / APART) + 1  # places, the last of them beyond that
UNKNOWN = 0.05  # share of a variance beyond what is known of groups: a fortieth of the sd
# Nats by which it falls to each side at least: a tail that is not known to that is not this law's.
KNOWN = 4.0
# Without means and slopes; each takes 100 to 300 scores, and each pair a third of that.
MOST_GLOBALS = 20
# Of means: at the start, as the scale of means that are in no field yet has no maximum, and
# at the maximum, where sds are those of the posterior.
CHOICES = 2
MOST_NUMBERS, FEWEST_PLACES = 50_000_000, 4  # in a map, 400 MB; and places along each axis


def field_map(
    density: CountedDensity, near: Neighbours, start: Array, rng: np.random.Generator
) -> FieldMap | None:
    """By Laplace's method from ``start`` (D,), then with the field's mean and skewness.

    None where the locals have no maximum given the globals, the globals' evidence none that few
    scores reach, is not concave there or has a tail without an end, groups have a neck and more
    globals than a grid has axes, or the law has too many numbers.
    """
    try:
        point, means = start, None
        for _ in range(CHOICES):
            by_place, at = with_means(ByPlace(density, near), point[near.order], rng, means)
            means = by_place.near.joined
            if near.in_groups and len(start) - by_place.n > MOST_GLOBALS:
                return None  # a climb of so many costs more than a map
            at, slope = highest(by_place, at.point)
            point = by_place.coordinates(at.point)
        near = by_place.near
        g = len(start) - near.field
        if g > MOST_GLOBALS or (1 + FEWEST_PLACES * g) * near.numbers > MOST_NUMBERS:
            return None
        precision = information(by_place, at, slope)
        scales = np.linalg.cholesky(np.linalg.inv(precision)) if g else precision
        q = _law(by_place, at, slope, scales)
    except (NoMaximumError, TooManyScoresError, np.linalg.LinAlgError):
        return None
    return None if q is None else shaped(density, q, rng)


def _law(by_place: ByPlace, at: Conditional, slope: Slope, scales: Array) -> FieldMap | None:
    """On a grid; or through axes, the columns of ``scales`` (g, g), where groups with several
    globals have no neck, and where a field's grid has too many axes or numbers."""
    g, groups, most = len(scales), by_place.near.in_groups, MOST_NUMBERS // by_place.near.numbers
    begun_on_axes = g == 0 or g > (FEW_OF_GROUPS if groups else MOST_AXES)
    axes = _axes(by_place, at, slope, scales) if begun_on_axes else None
    if axes is None and 0 < g <= MOST_AXES:
        try:
            return on_grid(by_place, at, slope, np.linalg.norm(scales, axis=1), most)
        except TooManyPlacesError:
            axes = None if groups else _axes(by_place, at, slope, scales)
    if axes is None or _terms(axes) > most:
        return None
    return _through(by_place, at, slope, axes)


@dataclass(frozen=True)
class Axis:
    """Conditionals along a direction of the globals, at its maximum and to both sides of it.

    Parameters
    ----------
    direction
        In units of the globals, (g,).
    places
        In units of the direction, rising, (K,); 0 is the maximum.
    laws
        The conditionals there.
    """

    direction: Array
    places: Array
    laws: tuple[Conditional, ...]

    @classmethod
    def along(
        cls, by_place: ByPlace, at: Conditional, slope: Slope, direction: Array, most: int
    ) -> Axis:
        """Until the evidence has fallen by `FALLEN`, or goes no further, to ``most`` places."""
        known = {0.0: at}
        step = slope.moved(np.zeros(len(at.point)), APART * direction)
        for side in (-1, 1):
            there = at
            for k in range(1, most + 1):
                try:
                    there = by_place.conditional(there.point + side * step, there.sds)
                except (NoMaximumError, np.linalg.LinAlgError):
                    break
                known[side * k * APART] = there
                if there.evidence < at.evidence - FALLEN:
                    break
            if there.evidence > at.evidence - KNOWN:
                raise NoMaximumError("the evidence does not fall to one side of its maximum")
        places = sorted(known)
        return cls(direction, np.array(places), tuple(known[place] for place in places))

    @property
    def is_known(self) -> bool:
        """Whether a law of groups is right along it: near the maximum, and to its tails."""
        return bool(np.abs(self.places).max() <= NO_NECK and self._beyond < UNKNOWN)

    @property
    def _beyond(self) -> float:
        """Of a normal's variance, what lies beyond the ends by straight lines."""
        log_p = np.array([law.evidence for law in self.laws])
        log_p -= log_p.max() + 0.5 * np.log(2 * np.pi)
        found = 0.0
        for at, t in ((log_p, self.places), (log_p[::-1], -self.places[::-1])):
            slope = (at[1] - at[0]) / (t[1] - t[0])
            if not slope > 0:
                return np.inf
            moments = t[0] ** 2 / slope - 2 * t[0] / slope**2 + 2 / slope**3
            found += float(np.exp(at[0]) * moments)
        return found

    @property
    def marginal(self) -> tuple[float, float, Marginal]:
        """Shift, factor and m with which shift + factor m(v) has the evidence as its density."""
        evidence = np.array([law.evidence for law in self.laws])
        found = best_marginal(
            partial(lines, at=self.places, values=evidence - evidence.max()),
            np.array([0.0, 0.0, 0.0, 1.0, 1.0]),
        )
        if found is None:
            return 0.0, 1.0, Marginal.identity(1)
        return found[0], float(np.exp(found[1])), found[2]


def _axes(by_place: ByPlace, at: Conditional, slope: Slope, scales: Array) -> list[Axis] | None:
    """Along the columns of ``scales`` (g, g); None where the evidence does not fall along one, or
    a law of groups would not be right along it."""
    groups, axes = by_place.near.in_groups, list[Axis]()
    most = MOST_OF_GROUPS if groups else MOST_PLACES
    try:
        for direction in scales.T:
            axes.append(Axis.along(by_place, at, slope, direction, most))
            if groups and not axes[-1].is_known:
                return None
    except (NoMaximumError, np.linalg.LinAlgError):
        return None
    return axes


def _terms(axes: list[Axis]) -> int:
    """Of a law through them."""
    g = len(axes)
    return 1 + sum(len(axis.places) for axis in axes) + 2 * g * (g - 1)


def _through(by_place: ByPlace, at: Conditional, slope: Slope, axes: list[Axis]) -> FieldMap:
    """The law through conditionals along each axis, and off each pair of axes."""
    g, n, order = len(axes), by_place.n, by_place.near.order
    scales = np.array([axis.direction for axis in axes]).reshape(g, g).T
    bent = [axis.marginal for axis in axes]
    shift, factor = np.array([b[0] for b in bent]), np.array([b[1] for b in bent])
    of_globals = GlobalsMap(
        at.point[n:] + scales @ shift,
        scales * factor,
        Marginal(
            np.array([b[2].skew[0] for b in bent]),
            np.array([b[2].tails[:, 0] for b in bent]).reshape(g, 2).T,
        ),
        np.zeros((g, g)),
        -shift / factor,
    )
    off = _OffAxes(by_place, at, slope, of_globals)
    places = [(axis.places - s) / f for axis, s, f in zip(axes, shift, factor, strict=True)]
    first = off.governors_first()
    of_globals = off.linked(first)
    rank = np.argsort(first)
    curves = Curves(
        of_globals.origin,
        np.concatenate([*(places[k] for k in first), np.empty(0)]),
        np.array([len(places[k]) for k in first], dtype=int),
        rank[off.pairs],
    )
    along = [at.numbers, *(law.numbers for k in first for law in axes[k].laws)]
    numbers = np.concatenate([along, off.products(curves, rank, np.stack(along))])
    return FieldMap(
        np.concatenate([order[n:], order[:n]]), of_globals, curves,
        numbers[:, 0].copy(), numbers[:, 1:].copy(), by_place.near.common, np.zeros(n),
        Marginal.identity(n), by_place.near.means,
    )  # fmt: skip


class _OffAxes:
    """Conditionals at `DESIGN` sds to both sides on each axis, and on each pair of axes at once."""

    def __init__(
        self, by_place: ByPlace, at: Conditional, slope: Slope, of_globals: GlobalsMap
    ) -> None:
        g, self.n, self.of_globals = of_globals.dimension, by_place.n, of_globals
        self.pairs = np.array(list(combinations(range(g), 2)), dtype=int).reshape(-1, 2)
        both = DESIGN * np.array([-np.ones(g), np.ones(g)])
        self.sides = of_globals.marginal.forward(both)[0]  # (2, g)

        def there(*moves: tuple[int, int]) -> Conditional:
            y = of_globals.origin.copy()
            for axis, side in moves:
                y[axis] = self.sides[side, axis]
            move = of_globals.values(y[None])[0] - at.point[self.n :]
            return by_place.conditional(slope.moved(at.point, move), at.sds)

        self.alone = np.array([[there((k, s)).evidence for k in range(g)] for s in (0, 1)])
        self.both = [
            [[there((i, r), (j, s)) for s in (0, 1)] for r in (0, 1)] for i, j in self.pairs
        ]
        self.slopes = self._slopes()

    def _slopes(self) -> Array:
        """How the log sd along each axis changes with t of each other one, (g, g)."""
        g = self.of_globals.dimension
        found = np.zeros((g, g))
        for (i, j), square in zip(self.pairs, self.both, strict=True):
            evidence = np.array([[law.evidence for law in row] for row in square])
            for k, by, values in ((j, i, evidence), (i, j, evidence.T)):
                # values[r, s]: side r of ``by``, side s of k
                below, above = self.sides[:, k] - self.of_globals.origin[k]
                left, right = values.T - self.alone[:, by]
                curvature = -2 * (left / below - right / above) / (below - above)
                if (curvature > 0).all():
                    t = bounded(self.sides[:, by] - self.of_globals.origin[by])[0]
                    change = -0.5 * np.log(curvature[1] / curvature[0]) / (t[1] - t[0])
                    found[k, by] = np.clip(change, -STEEPEST, STEEPEST)
        return found

    def governors_first(self) -> NDArray[np.integer]:
        """Axes, those first that govern more than they are governed."""
        lead = np.abs(self.slopes).sum(axis=0) - np.abs(self.slopes).sum(axis=1)
        return np.argsort(-lead, kind="stable")

    def linked(self, first: NDArray[np.integer]) -> GlobalsMap:
        """The globals' map with its axes in that order, each scale governed by those before it."""
        own = self.of_globals
        return GlobalsMap(
            own.center,
            own.scales[:, first],
            own.marginal.of(first),
            np.tril(self.slopes[np.ix_(first, first)], -1),
            own.origin[first],
        )

    def products(self, curves: Curves, rank: NDArray[np.integer], along: Array) -> Array:
        """Rows of each pair of ``curves``, whose others are ``along`` (1 + P, …), (4 Q, …)."""
        rows: list[Array] = []
        for (i, j), square in zip(self.pairs, self.both, strict=True):
            y = np.tile(curves.origin, (4, 1))
            y[:, rank[i]], y[:, rank[j]] = (
                np.repeat(self.sides[:, i], 2),
                np.tile(self.sides[:, j], 2),
            )
            weights = curves.at(y).weights
            own = slice(len(along) + len(rows), len(along) + len(rows) + 4)
            laws = np.stack([law.numbers for row in square for law in row])
            lacking = laws - np.tensordot(weights[:, : len(along)], along, 1)
            rows.extend(np.tensordot(np.linalg.inv(weights[:, own]), lacking, 1))
        return np.array(rows).reshape(-1, *along.shape[1:])
