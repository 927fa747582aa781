"""Graphs of neighbours: their groups, and colours by which few differences tell a Hessian."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from pymc_ext.variational.fields.probe import Places

MOST_COLOURS = 200  # differences behind one Hessian


def sizes_of(near: csr_array) -> Places:
    """Members of the group of each, none of whom depends on others, (L,)."""
    labels = connected_components(near, directed=False)[1]
    return np.bincount(labels)[labels]


def colours_of(near: csr_array) -> Places:
    """A colour for each place, so that none has two neighbours of one; greedy, (n,)."""
    within_two = (near @ near).tocsr()
    colours = np.full(near.shape[0], -1)
    for j in range(len(colours)):
        around = within_two.indices[within_two.indptr[j] : within_two.indptr[j + 1]]
        taken = np.zeros(MOST_COLOURS + 2, dtype=bool)
        taken[np.minimum(colours[around][colours[around] >= 0], MOST_COLOURS)] = True
        colours[j] = int(np.argmin(taken))
    return colours
