"""Few differences of scores for all of a sparse Hessian: those of many columns in one.

Columns without a common row are told apart in one difference; a symmetric matrix has each entry
twice, so that a full row, as that of what all groups share, is known from its column (Curtis,
Powell & Reid 1974, doi:10.1093/imamat/13.1.117; Powell & Toint 1979, doi:10.1137/0716078). A
hierarchy of a thousand groups needs as many as one of two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array

Columns = NDArray[np.integer]  # (C, k): of each difference the column that each row tells, −1 none
NOTHING = 1e-7  # of an entry's scale: rounding of differences


def each_column(size: int) -> Columns:
    """One difference for each column: for a full matrix."""
    return np.tile(np.arange(size)[:, None], (1, size))


def few_columns(H: Array) -> Columns:
    """As few differences as a greedy search finds for matrices (M, k, k) and those of their
    pattern.

    Examples
    --------
    >>> arrow = np.eye(5)
    >>> arrow[0] = arrow[:, 0] = 1
    >>> few_columns(arrow[None]).tolist()
    [[0, 0, 0, 0, 0], [-1, 1, 2, 3, 4]]
    """
    scale = np.sqrt(np.abs(np.diagonal(H, axis1=1, axis2=2)))
    pattern = np.any(np.abs(H) > NOTHING * scale[:, :, None] * scale[:, None, :], axis=0)
    size = len(pattern)
    np.fill_diagonal(pattern, True)
    fullest = np.argsort(-pattern.sum(axis=0), kind="stable")
    best = each_column(size)
    for alone in range(size):  # columns that have a difference of their own
        if alone >= len(best):
            break
        rest = np.sort(fullest[alone:])
        told = _told_apart(pattern, rest)
        if alone + len(told) < len(best):
            own = np.tile(fullest[:alone, None], (1, size))
            best = np.vstack([own, told])
    return best


def _told_apart(pattern: NDArray[np.bool_], rest: NDArray[np.integer]) -> Columns:
    """Columns ``rest``, of which no two in a difference share a row among these."""
    found: list[Columns] = []
    for j in rest:
        rows = rest[pattern[rest, j]]
        for told in found:
            if np.all(told[rows] < 0):
                break
        else:
            told = np.full(len(pattern), -1)
            found.append(told)
        told[rows] = j
    return np.array(found)


def hessian_from(columns: Columns, differences: Array, h: Array) -> Array:
    """The symmetric matrix (k, k) of ``differences`` (C, k) of :func:`steps_of` ``h``."""
    H, known = np.zeros((2, len(h), len(h)))
    at, row = np.nonzero(columns >= 0)
    column = columns[at, row]
    H[row, column], known[row, column] = differences[at, row] / h[column], 1
    return np.asarray((H + H.T) / np.maximum(known + known.T, 1))


def steps_of(columns: Columns, h: Array) -> Array:
    """By how much each coordinate moves in each difference, (C, k), of steps ``h`` (k,)."""
    step = np.zeros(columns.shape)
    at, row = np.nonzero(columns >= 0)
    step[at, columns[at, row]] = h[columns[at, row]]
    return step
