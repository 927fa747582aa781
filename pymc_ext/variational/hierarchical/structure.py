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
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pymc_ext.density import CountedDensity
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian

Places = NDArray[np.integer]
PARTS = 64  # of a partition; a local on k globals sees 64 (1 − e^(−k/64)) of them, half for k = 44
SHARE = 0.75  # of the parts from which on a coordinate is a global: beyond 88 it sees so many
MOST_GLOBALS = 88
ROUNDS = 4  # partitions: one local of a pair passes by chance once in 10⁶, both never
MOST_HITS = 6  # parts that move a local's score; one with more is left alone, as in a chain
MOST_MEMBERS = 8  # of a group; larger ones are left without links
STEP = 0.5  # sds by which coordinates move: where the density is, and far above rounding
LEAST_CHANGE = 1e-6  # of a score times its sd; what depends on a neighbour changes by about one


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
    probe = _Probe(density, q, rng)
    everything = np.arange(D)
    _, moved = probe.partition(everything)
    found = np.flatnonzero(moved.sum(axis=0) > SHARE * PARTS)
    if not 0 < len(found) <= min(MOST_GLOBALS, D // 2):
        return None
    local = np.setdiff1d(everything, found)
    rounds = [probe.partition(local) for _ in range(ROUNDS)]
    parts = np.stack([part for part, _ in rounds])  # (ROUNDS, L)
    hits = np.stack([moved[:, local] for _, moved in rounds])  # (ROUNDS, PARTS, L)
    groups = _components(_pairs(parts, hits), len(local))
    return Structure(found, tuple(local[members] for members in groups))


class _Probe:
    """Scores at one draw of q, before and after moves."""

    def __init__(
        self, density: CountedDensity, q: LowRankGaussian, rng: np.random.Generator
    ) -> None:
        self.density, self.sd, self.rng = density, q.std, rng
        self.point, _ = q.forward(rng.standard_normal((1, q.dimension)))

    def partition(self, coordinates: Places) -> tuple[Places, NDArray[np.bool_]]:
        """The part of each of some coordinates (L,), and whose scores each part moves, (PARTS, D).

        A coordinate is counted as moved by a part whose move has no density.
        """
        part = self.rng.permutation(np.arange(len(coordinates)) % PARTS)
        size = STEP * self.sd[coordinates] * self.rng.uniform(0.5, 1.0, len(coordinates))
        moves = np.zeros((PARTS, len(self.sd)))
        moves[part, coordinates] = size * self.rng.choice([-1.0, 1.0], len(coordinates))
        with np.errstate(all="ignore"):
            _, before = self.density.log_density_gradient(self.point)
            _, after = self.density.log_density_gradient(self.point + moves)
            return part, ~(np.abs(after - before) * self.sd <= LEAST_CHANGE)


def _pairs(parts: Places, hits: NDArray[np.bool_]) -> Places:
    """Locals that depend on one another, (P, 2).

    ``parts`` (ROUNDS, L) and ``hits`` (ROUNDS, PARTS, L) are of :meth:`_Probe.partition`.
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
