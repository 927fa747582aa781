"""The inverse of a flow, for log q at points that it did not draw: one component after the other.

Component j of y depends on x_1..x_j alone and increases in x_j, so that x_j is the root of one
increasing function once those before it are known; all rows at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize.elementwise import bracket_root, find_root

from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.triangular import TriangularFlow

FARTHEST = 700.0  # logits beyond which σ is 0 or 1 in doubles


def invert(flow: TriangularFlow, y: Array, size: int) -> tuple[Array, NDArray[np.bool_]]:
    """x (N, D) with flow(x) = y, and where it exists; ``size`` rows at a time."""
    x, inside = np.zeros_like(y), np.ones(len(y), dtype=bool)
    for j in range(y.shape[1]):
        for i in range(0, len(y), size):
            rows = slice(i, i + size)
            x[rows, j], found = _solve(flow, j, x[rows], y[rows, j])
            inside[rows] &= found
    return x, inside


def _solve(flow: TriangularFlow, j: int, x: Array, y: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Component j of x given those before, and where there is one."""
    value, every = flow.component(j, x), np.arange(len(y))

    def distance(at: Array, rows: NDArray[np.integer]) -> Array:
        rows = np.broadcast_to(rows, at.shape).astype(int).ravel()
        return (value(at.ravel(), rows) - y[rows]).reshape(at.shape)

    found = np.ones(len(y), dtype=bool)
    if not flow.shape.slopes:  # bounded tails: y may lie beyond what the flow reaches
        ends = [distance(np.full(len(y), end), every) for end in (-FARTHEST, FARTHEST)]
        found = (ends[0] < 0) & (ends[1] > 0)
    out, keep = np.zeros(len(y)), np.flatnonzero(found)
    if len(keep):
        bracket = bracket_root(distance, -np.ones(len(keep)), np.ones(len(keep)), args=(keep,))
        root = find_root(distance, bracket.bracket, args=(keep,), tolerances={"xatol": 1e-13})
        out[keep] = np.where(root.success, root.x, 0.0)
        found[keep] = root.success
    return out, found
