"""Which coordinates of a density depend on which, where each has few neighbours, and some globals.

A coordinate's score changes with every other one that it depends on, and, but for rounding, with no
other. Random parts of the coordinates are moved, several times over, as in group testing: who is
moved by nearly all parts is a global, and a pair is one where each moves the other in every
partition. Scales of one of several fields, effects that cross others and what governs either are
globals too, though not all depend on them (:mod:`.governors`). A constraint on the sum of a field
makes all of it depend on all, each on every other in the same way; that is found and taken off
first. Then few differences of scores tell the whole of a Hessian: coordinates without a common
neighbour move together (Curtis, Powell & Reid 1974, doi:10.1093/imamat/13.1.117).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array, eye_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.governors import (
    HUB,
    crossing,
    effects,
    hubs,
    of_globals,
    strays,
)
from pymc_ext.variational.fields.graph import MOST_COLOURS, colours_of, sizes_of
from pymc_ext.variational.fields.probe import (
    LEAST_CHANGE,
    MOST_GLOBALS,
    MOST_MEMBERS,
    PARTS,
    SHARE,
    Flags,
    Places,
    Probe,
)

START_SD = 0.1  # of a narrow normal about the start, whose draw is where scores are looked at
# Members of a part and parts, of few coordinates: half of all are then in 97 % of the parts, and a
# site of a map with its neighbours in few.
MEMBERS, FEWEST_PARTS = 5, 16
FINE_PARTS, ROUNDS = 256, 4  # of 20 neighbours and one that is none, both pass once in 10⁹
EXACTLY = 1e-4  # of a constraint's change: by how much it may differ from a product's
MOST_NUMBERS = 10_000_000  # in a factor, 80 MB: of 4,000 coordinates 2,500 diagonals


@dataclass(frozen=True)
class Neighbours:
    """Who depends on whom, in an order of little width.

    Parameters
    ----------
    order
        The coordinate at each place: the field's, neighbours near one another, then its means,
        then globals, (D,).
    pairs
        Places (row, column) of neighbours, row > column, (P, 2).
    colours
        Of the field: those of one have no neighbour in common, (n,).
    common
        u of the part u uᵀ of minus the Hessian that all of a field share, by place, (n,); zeros
        where there is none.
    effects
        Coordinates of those globals that depend on one that no local does, as on their scale.
    means
        m, how many of the n, at the end, are neighbours of all others: they have no pairs, and a
        colour each.
    """

    order: Places
    pairs: Places
    colours: Places
    common: Array
    effects: Places
    means: int = 0

    @property
    def field(self) -> int:
        """n, the means among them."""
        return len(self.colours)

    @cached_property
    def in_groups(self) -> bool:
        """Whether no coordinate of the field has more neighbours than its own few."""
        n = self.field
        graph = coo_array((np.ones(len(self.pairs)), self.pairs.T), shape=(n, n))
        return bool(sizes_of(graph.tocsr()).max() <= MOST_MEMBERS)

    @property
    def width(self) -> int:
        """Diagonals below the main one."""
        return int((self.pairs[:, 0] - self.pairs[:, 1]).max(initial=0))

    @property
    def numbers(self) -> int:
        """In a factor of the field's precision."""
        return (self.width + 1 + self.means) * self.field

    @property
    def differences(self) -> int:
        """Scores behind one Hessian of the field, but for that of the point itself."""
        return int(self.colours.max(initial=-1)) + 1

    def moves(self, h: Array) -> Array:
        """Of each colour's difference by how much each place moves, (colours, n); h > 0 (n,)."""
        moves = np.zeros((self.differences, self.field))
        moves[self.colours, np.arange(self.field)] = h
        return moves

    def entries(self, changes: Array, h: Array) -> Array:
        """Minus the Hessian of the field but for u uᵀ, (width + 1 + m, n), as
        :class:`.BorderedRoot` has its entries.

        ``changes`` (colours, n), by place, are those of the score by :meth:`moves`.
        """
        n, moves = self.field, self.moves(h)
        y = -changes - np.outer(moves @ self.common, self.common)
        i, j = self.pairs.T
        out = np.zeros((self.width + 1 + self.means, n))
        out[0] = y[self.colours, np.arange(n)] / h
        out[i - j, j] = 0.5 * (y[self.colours[j], i] / h[j] + y[self.colours[i], j] / h[i])
        for k in range(n - self.means, n):  # of others' moves a mean sees all of one colour
            out[k - n, :k] = y[self.colours[k], :k] / h[k]
        return out

    @property
    def joined(self) -> Places:
        """Coordinates of the means, (m,)."""
        return self.order[self.field - self.means : self.field]

    def with_means(self, chosen: Flags) -> Neighbours:
        """With some of the globals (g,) among the field's own coordinates."""
        n, m = self.field, int(chosen.sum())
        new = self.differences + np.arange(m)
        globals_ = self.order[n:]
        return replace(
            self,
            order=np.concatenate([self.order[:n], globals_[chosen], globals_[~chosen]]),
            colours=np.concatenate([self.colours, new]),
            common=np.concatenate([self.common, np.zeros(m)]),
            means=self.means + m,
        )


def find_neighbours(
    density: CountedDensity, start: Array, rng: np.random.Generator
) -> Neighbours | None:
    """Near ``start`` (D,); None where coordinates depend on many others.

    In a time series every coordinate has neighbours, in a hierarchy few or none: its groups are
    independent given the globals.
    """
    sd = np.full(len(start), START_SD)
    probe = Probe(density, start + sd * rng.standard_normal(len(start)), sd, rng)
    everything = np.arange(len(start))
    parts = int(np.clip(len(start) // MEMBERS, min(len(start), FEWEST_PARTS), PARTS))
    common, depends = _common_part(probe, probe.partition(everything, parts)[0])
    many = common is None or depends.sum() > HUB  # as where effects of two factors cross
    if many and parts < len(start) <= FINE_PARTS:
        common, depends = _common_part(probe, probe.partition(everything, len(start))[0])
    local = np.flatnonzero(~depends)
    if common is None or not len(local):
        return None
    near = _dependent(probe, local, common)
    if near is None:
        return None
    for governs in (hubs, crossing, strays):
        more = governs(near)
        local, near = local[~more], near[~more][:, ~more]
    globals_ = np.setdiff1d(everything, local)
    depends, among = _dependent_on(probe, globals_, local, common)
    more = of_globals(depends, among)
    if more.any() and sizes_of(near).max() <= MOST_MEMBERS:
        local, near = local[~more], near[~more][:, ~more]
        globals_ = np.setdiff1d(everything, local)
        depends, among = _dependent_on(probe, globals_, local, common)
    if len(globals_) > MOST_GLOBALS or not len(local):
        return None
    order = reverse_cuthill_mckee(near, symmetric_mode=True)
    near = near[order][:, order]
    row, column = near.nonzero()
    below = row > column
    found = Neighbours(
        np.concatenate([local[order], globals_]),
        np.stack([row[below], column[below]], axis=1),
        colours_of(near),
        common[local[order]],
        globals_[effects(depends, among)],
    )
    fits = found.numbers <= MOST_NUMBERS and found.differences <= MOST_COLOURS
    return found if fits else None


def _common_part(probe: Probe, moves: Array) -> tuple[Array | None, Flags]:
    """u (D,), zeros of none, and who depends on all in other ways as well, (D,).

    None in place of u where too many do. A constraint changes the scores of a field by a product,
    −u (uᵀ move), whatever else changes them: by medians over those that nothing else does.
    """
    changes = probe.changes(moves)
    depends = probe.on_all(changes)
    most = min(MOST_GLOBALS, len(depends) // 2)
    if depends.sum() <= most:
        return np.zeros(len(depends)), depends
    u = _product(probe, changes, moves, depends)
    if u is not None:
        depends = probe.on_all(changes + np.outer(moves @ u, u))
    return (None if depends.sum() > most else u), depends


def _product(probe: Probe, changes: Array, moves: Array, depends: Flags) -> Array | None:
    """u (D,), zero but where scores ``depends`` on all; None where no product is found."""
    own = changes[:, depends]
    if not np.isfinite(own).all():
        return None
    u = own[np.argmax(np.median(np.abs(own), axis=1))]
    with np.errstate(all="ignore"):
        for _ in range(3):  # the first u has wrong values where its own part was moved
            a = np.median(own / u, axis=1)
            acts = np.abs(a) > LEAST_CHANGE * np.abs(a).max()  # not where parts have none of it
            if not acts.any():
                return None
            u = np.median(own[acts] / a[acts, None], axis=0)
        rest = np.zeros_like(changes)
        rest[:, depends] = np.nan_to_num(own - np.outer(a, u), nan=np.inf)
        column = np.zeros(len(depends))
        column[depends] = np.where(probe.on_all(rest)[depends], 0.0, u)
        along = moves @ column
        strength = -float(np.median(a[acts] / along[acts]))
        exact = np.abs(a + strength * along) <= EXACTLY * np.abs(a)  # not where a global moves
    if not strength > 0 or np.mean(exact) <= SHARE:
        return None
    return np.sqrt(strength) * column


def _dependent(probe: Probe, local: Places, common: Array) -> csr_array | None:
    """Which locals depend on one another, symmetric (L, L); None where too many do."""

    def partition(parts: int) -> tuple[Flags, Places]:
        moves, part = probe.partition(local, parts)
        changes = probe.changes(moves) + np.outer(moves @ common, common)
        return probe.moved(changes)[:, local], part

    count = len(local)
    parts, rounds = (count, 1) if count <= FINE_PARTS * ROUNDS else (FINE_PARTS, ROUNDS)
    if parts > PARTS and partition(PARTS)[0].sum(axis=0).max() <= 1:
        return eye_array(count, format="csr")  # nobody has a neighbour
    found = [partition(parts) for _ in range(rounds)]
    # whose scores a move of each may have changed
    rows = [
        np.flatnonzero(np.logical_and.reduce([hits[part[j]] for hits, part in found]))
        for j in range(count)
    ]
    sizes = [len(row) for row in rows]
    if sum(sizes) > MOST_NUMBERS:
        return None
    pairs = np.concatenate(rows), np.repeat(np.arange(count), sizes)
    graph = coo_array((np.ones(sum(sizes)), pairs), shape=(count, count)).tocsr()
    return graph.multiply(graph.T).tocsr()  # chance is not mutual


def _dependent_on(
    probe: Probe, globals_: Places, local: Places, common: Array
) -> tuple[Flags, Flags]:
    """Which locals depend on each global, (g, L), and which globals do, (g, g)."""
    if not len(globals_):
        return np.zeros((0, len(local)), dtype=bool), np.zeros((0, 0), dtype=bool)
    moves, part = probe.partition(globals_, len(globals_))
    moved = probe.moved(probe.changes(moves) + np.outer(moves @ common, common))[part]
    return moved[:, local], moved[:, globals_]
