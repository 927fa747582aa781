"""Which map: Gaussian ⊂ scales ⊂ gate ⊂ ..., each kept only where it pays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit

from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.moments import Structure
from pymc_ext.variational.hierarchical.training import Free

Array = NDArray[np.floating]
LEAST_SLOPE = 0.05
LEAST_SHARE = 0.05
MOST_GATED = 5.0


def free_scales(structure: Structure) -> Free:
    D = len(structure.order)
    none = np.zeros((D, D), dtype=bool)
    return Free(structure.scales, structure.squares, none, np.tri(D, dtype=bool), np.zeros(D, dtype=bool))


def means_into_gate(q: HierarchicalMap, free: Free) -> tuple[HierarchicalMap, Free]:
    """Linear dependence of a linked coordinate on its governor moves into the gate; H is freed."""
    root, mean, g0 = q.root.copy(), q.gated_mean.copy(), q.gate_at_zero
    free_root = free.root.copy()
    for j in np.flatnonzero(free.scales.any(axis=0)):
        i = np.flatnonzero(free.scales[:, j] & (np.abs(q.scales[:, j]) > LEAST_SLOPE))
        if len(i) == 0:
            continue
        w = solve_triangular(root[np.ix_(i, i)], root[i, j], lower=True)
        mean[i] += np.clip(w / (2 * g0[i] * (1 - g0[i]) * q.scales[i, j]), -MOST_GATED, MOST_GATED)
        root[i, j] = 0.0
        free_root[i, j] = False
    share = np.abs(root) / np.linalg.norm(root, axis=1, keepdims=True)
    gated = np.tril(share > LEAST_SHARE, -1) & free.linked[:, None] & ~free.scales
    return replace(q, root=root, gated_mean=mean), replace(free, root=free_root, gated=gated)
