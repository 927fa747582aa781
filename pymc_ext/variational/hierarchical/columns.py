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
# Full rows that are looked for: means, slopes and scales that all groups share. Of more, as of
# items that all persons answer, those that are as full as one another together.
MOST_ALONE = 20
NOTHING = 1e-7  # of an entry's scale: rounding of differences


def each_column(size: int) -> Columns:
    """One difference for each column: for a full matrix."""
    return np.tile(np.arange(size)[:, None], (1, size))


def not_zero(H: Array) -> NDArray[np.bool_]:
    """Where one of symmetric matrices (M, k, k) has an entry, (k, k); the diagonal in any case."""
    scale = np.sqrt(np.abs(np.diagonal(H, axis1=1, axis2=2)))
    pattern = np.any(np.abs(H) > NOTHING * scale[:, :, None] * scale[:, None, :], axis=0)
    pattern |= pattern.T
    np.fill_diagonal(pattern, True)
    return pattern


def few_columns(pattern: NDArray[np.bool_]) -> Columns:
    """As few differences as a greedy search finds for symmetric matrices with these entries (k, k).

    Examples
    --------
    >>> arrow = np.eye(5, dtype=bool)
    >>> arrow[0] = arrow[:, 0] = True
    >>> few_columns(arrow).tolist()
    [[0, 0, 0, 0, 0], [-1, 1, 2, 3, 4]]
    """
    size = len(pattern)
    best = each_column(size)
    if pattern.all():
        return best
    entries = pattern.sum(axis=0)
    fullest = np.argsort(-entries, kind="stable")
    fewer = np.flatnonzero(np.diff(entries[fullest])) + 1  # where rows are less full than before
    for alone in sorted({*range(MOST_ALONE), *fewer.tolist()}):  # with differences of their own
        if alone >= len(best):
            break
        rest = np.sort(fullest[alone:])
        told = _told_apart(pattern, rest, len(best) - alone)
        if told is not None:
            own = np.tile(fullest[:alone, None], (1, size))
            best = np.vstack([own, told])
    return best


def _told_apart(
    pattern: NDArray[np.bool_], rest: NDArray[np.integer], fewer: int
) -> Columns | None:
    """Columns ``rest``, of which no two in a difference share a row among these; None where that
    takes not ``fewer`` differences."""
    found: list[Columns] = []
    for j in rest:
        rows = rest[pattern[rest, j]]
        for told in found:
            if np.all(told[rows] < 0):
                break
        else:
            told = np.full(len(pattern), -1)
            found.append(told)
            if len(found) >= fewer:
                return None
        told[rows] = j
    return np.array(found)


def hessian_from(columns: Columns, differences: Array, h: Array) -> Array:
    """The symmetric matrix (k, k) of ``differences`` (C, k) of :func:`steps_of` ``h`` (k,)."""
    H, known = told(columns, differences) / h, told(columns, np.ones_like(differences))
    return np.asarray((H + H.T) / np.maximum(known + known.T, 1))


def told(columns: Columns, differences: Array) -> Array:
    """What ``differences`` (C, k) tell of each column, (k, k), zero where they tell nothing."""
    found = np.zeros((columns.shape[1], columns.shape[1]))
    at, row = np.nonzero(columns >= 0)
    found[row, columns[at, row]] = differences[at, row]
    return found


def steps_of(columns: Columns, h: Array) -> Array:
    """By how much each coordinate moves in each difference, (C, k), of steps ``h`` (k,)."""
    step = np.zeros(columns.shape)
    at, row = np.nonzero(columns >= 0)
    step[at, columns[at, row]] = h[columns[at, row]]
    return step
