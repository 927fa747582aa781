"""Which coordinates are globals although not nearly all depend on them: scales of one of several
fields, effects that cross others, and what governs either."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from pymc_ext.variational.fields.graph import colours_of, sizes_of
from pymc_ext.variational.fields.probe import MOST_MEMBERS, Flags

# Neighbours of a hub, as a scale is of one of several fields, or any global of few groups: so many,
# or a third of few coordinates, and so many times as many as of the median coordinate. A site of a
# map has 20 at most.
HUB, TIMES_MEDIAN = 20, 2


def hubs(near: csr_array) -> Flags:
    """Who has so many neighbours that it is a global of them, (L,)."""
    degrees = np.diff(near.indptr)  # itself included
    return np.asarray(degrees > max(_few(len(degrees)), TIMES_MEDIAN * np.median(degrees)))


def crossing(near: csr_array) -> Flags:
    """Effects without which the others are groups, as of items where each person answers many,
    (L,); none where a Hessian takes more differences so.

    By degree, the highest first: of two factors that cross all effects of the smaller one, and then
    the scale of the others; of few regions the mean and the scale of all.
    """
    left = np.arange(near.shape[0])
    taken, found = 0, left
    fewest = len(np.unique(colours_of(near))) + 1
    while taken + 1 < fewest:
        graph = near[left][:, left]
        largest = int(sizes_of(graph).max())
        if largest <= MOST_MEMBERS and taken + largest < fewest:
            found, fewest = left, taken + largest
        left, taken = np.delete(left, np.argmax(np.diff(graph.indptr))), taken + 1
    without = np.ones(near.shape[0], dtype=bool)
    without[found] = False
    return without


def strays(near: csr_array) -> Flags:
    """Who is in no field, where there is one and these are few: they govern hubs, or are alone,
    (L,)."""
    few = sizes_of(near) <= MOST_MEMBERS
    return few if few.sum() <= HUB and not few.all() else np.zeros_like(few)


def of_globals(depends: Flags, among: Flags) -> Flags:
    """Who governs globals and no local, as the scale of effects that cross others does, (L,).

    ``depends`` (g, L) of locals on globals, ``among`` (g, g) of those on one another. It lacks a
    global that nearly all others depend on, and those that it depends on are independent of one
    another given all else, as effects of one scale.
    """
    lacking = ~depends
    few = lacking.sum(axis=1) <= _few(depends.shape[1])
    apart = among & ~np.eye(len(among), dtype=bool)
    alone = np.array([not apart[np.ix_(own, own)].any() for own in depends.T], dtype=bool)
    return lacking[few].any(axis=0) & (depends.sum(axis=0) > 1) & alone


def effects(depends: Flags, among: Flags) -> Flags:
    """Which globals depend on one that no local does, as effects on their scale, (g,)."""
    governs = depends.any(axis=1)
    return np.asarray(governs & among[~governs].any(axis=0))


def _few(count: int) -> float:
    return min(HUB, count / 3)
