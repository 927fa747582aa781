"""Globals and groups of locals, found from scores alone at a cost that hardly grows with D.

Some coordinates are moved together and the scores that change are seen: a coordinate's score
changes with every other one that it depends on, and, but for rounding, with no other. A score that
changes whichever of 64 random parts of the coordinates is moved is a global's. Locals depend on
the globals, which stay where they are in what follows, and on few others: several random partitions
tell which, as in group testing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pymc_ext.density import CountedDensity
from pymc_ext.variational.fields.probe import (
    MOST_GLOBALS,
    MOST_MEMBERS,
    PARTS,
    Flags,
    Places,
    Probe,
)
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian

ROUNDS = 4  # partitions: one local of a pair passes by chance once in 10⁶, both never
MOST_HITS = 6  # parts that move a local's score; one with more is left alone, as in a chain


@dataclass(frozen=True)
class Structure:
    """Which coordinates everything depends on, and which of the others depend on one another.

    Parameters
    ----------
    globals
        Coordinates, (k,).
    groups
        For each size, the groups' coordinates, (groups, size); together all others.
    """

    globals: Places
    groups: tuple[Places, ...]

    @property
    def order(self) -> Places:
        """Coordinates by place: globals, then groups by size, (D,)."""
        return np.concatenate([self.globals, *(members.ravel() for members in self.groups)])

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Size of the groups and how many there are."""
        return [(members.shape[1], len(members)) for members in self.groups]


def find_structure(
    density: CountedDensity, q: LowRankGaussian, rng: np.random.Generator
) -> Structure | None:
    """Globals and groups at a draw of q; None where most coordinates depend on most others."""
    D = q.dimension
    probe = Probe(density, q.forward(rng.standard_normal((1, D)))[0][0], q.std, rng)
    everything = np.arange(D)
    found = np.flatnonzero(probe.on_all(probe.changes(probe.partition(everything, PARTS)[0])))
    if not 0 < len(found) <= min(MOST_GLOBALS, D // 2):
        return None
    local = np.setdiff1d(everything, found)
    rounds = [_round(probe, local) for _ in range(ROUNDS)]
    parts = np.stack([part for part, _ in rounds])  # (ROUNDS, L)
    hits = np.stack([hits for _, hits in rounds])  # (ROUNDS, PARTS, L)
    groups = _components(_pairs(parts, hits), len(local))
    return Structure(found, tuple(local[members] for members in groups))


def _round(probe: Probe, local: Places) -> tuple[Places, Flags]:
    """A partition: the part of each local, (L,), and whose scores each part moves, (PARTS, L).

    A coordinate is counted as moved by a part whose move has no density.
    """
    moves, part = probe.partition(local, PARTS)
    return part, probe.moved(probe.changes(moves))[:, local]


def _pairs(parts: Places, hits: Flags) -> Places:
    """Locals that depend on one another, (P, 2).

    ``parts`` (ROUNDS, L) and ``hits`` (ROUNDS, PARTS, L) are of :func:`_round`.
    """
    count = hits.sum(axis=1)
    linked = np.flatnonzero((count > 1).any(axis=0) & (count <= MOST_HITS).all(axis=0))
    places: dict[tuple[int, ...], list[int]] = {}
    for j, key in enumerate(map(tuple, parts.T.tolist())):
        places.setdefault(key, []).append(j)
    found = {
        (int(i), j)
        for i in linked
        for key in product(*(np.flatnonzero(hits[k, :, i]).tolist() for k in range(ROUNDS)))
        for j in places.get(key, ())
        if i != j
    }
    both = [(i, j) for i, j in found if i < j and (j, i) in found]  # chance is not mutual
    return np.array(both, dtype=int).reshape(-1, 2)


def _components(pairs: Places, count: int) -> list[Places]:
    """Connected locals by the size of their group, (groups, size) each, small groups first."""
    ones = np.ones(len(pairs), dtype=bool)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    total, label = connected_components(graph, directed=False)
    size = np.bincount(label, minlength=total)
    label = np.where(size[label] > MOST_MEMBERS, total + np.arange(count), label)
    label = np.unique(label, return_inverse=True)[1]
    size = np.bincount(label)
    ordered = np.lexsort((label, size[label]))
    out: list[Places] = []
    first = 0
    for s in np.unique(size):
        n = int(np.sum(size == s)) * int(s)
        out.append(ordered[first : first + n].reshape(-1, s))
        first += n
    return out
