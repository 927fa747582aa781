"""Fisher steps of all that one row of the map holds: slopes of its log scale, and its means."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import NUMBERS_TOGETHER

Mask = NDArray[np.bool_]
Columns = NDArray[np.integer]
LONGEST_MEAN = 0.3  # sds of one full step of a mean
ROUNDING = (
    1e-9  # of information, which two columns that are one in a neck may otherwise make singular
)
RIDGE = 0.005  # information lent to a parameter: a batch may have none
FEW_GOVERNORS = 8  # in all, up to which one product over all pairs of them costs less than rows do
# Means of a row up to which all are solved for together; of more each pair alone, straight and
# through the gate: a batch of 50 draws tells no hundreds of numbers.
FEW_MEANS = 9


def slope_equations(
    shut: Array, opening: Array, by_log_scale: Array, w: Array, place: Columns
) -> tuple[Array, Array]:
    """Information of the slopes and offset of each row's log scale, (R, P + 1, P + 1), and the
    gradient in them, (R, P + 1).

    From 1 − g, g − g₀ and the gradient in a (N, R), w of the governors (N, G), and which of them
    are each row's (R, P). ∂a_i/∂(C_i·, d_i) are the features.
    """
    n, (R, P) = len(w), place.shape
    if w.shape[1] > FEW_GOVERNORS:
        features = np.empty((R, P + 1, n))
        features[:, :-1] = w.T[place] * shut.T[:, None]
        features[:, -1] = -opening.T
        right = features @ np.ascontiguousarray(by_log_scale.T)[:, :, None]
        return 2 * features @ features.swapaxes(1, 2) / n, right[:, :, 0] / n
    information, right = np.empty((R, P + 1, P + 1)), np.empty((R, P + 1))
    row = np.arange(R)[:, None]
    pairs = (w[:, :, None] * w[:, None]).reshape(n, -1)
    squares = ((shut * shut).T @ pairs).reshape(R, w.shape[1], -1)
    information[:, :-1, :-1] = squares[row[:, :, None], place[:, :, None], place[:, None]]
    crossed = ((shut * opening).T @ w)[row, place]
    information[:, -1, :-1] = information[:, :-1, -1] = -crossed
    information[:, -1, -1] = np.einsum("ni,ni->i", opening, opening)
    right[:, :-1] = ((shut * by_log_scale).T @ w)[row, place]
    right[:, -1] = -np.einsum("ni,ni->i", opening, by_log_scale)
    return 2 * information / n, right / n


def mean_steps(
    h: Array, gate: Array, precision: Array, w: Array, place: Columns, real: Mask
) -> tuple[Array, Array]:
    """Steps of each row's mean along some w, straight and through the gate, (R, P) each.

    Both are felt in a neck, where only their difference counts, and felt much: from separate steps
    the middle would be pushed about by what the neck says. The ridge is as large as the information
    of one normal draw, no share of the neck's, which would be all that is known of the middle.

    Parameters
    ----------
    h
        Gradient in each row's w, its dependents carried along, (N, R).
    gate, precision
        g of each row, and the inverse of its variance given all before, (N, R).
    w
        Ones, and what means may depend on, (N, 1 + G).
    place, real
        Columns of ``w`` of each row, padded, and which are real, (R, P).
    """
    if place.shape[1] > FEW_MEANS:
        return _by_pairs(h, gate, precision, w, place, real)
    equations = _by_products if w.shape[1] <= FEW_GOVERNORS else _by_features
    P = place.shape[1]
    information, right = equations(h, gate, precision, w, place)
    kept = np.tile(real, 2)
    information *= kept[:, :, None] & kept[:, None]
    right *= kept
    diagonal = np.einsum("rpp->rp", information)
    diagonal *= 1 + ROUNDING
    diagonal += RIDGE
    step = _within(np.linalg.solve(information, right[:, :, None])[:, :, 0])
    return step[:, :P], step[:, P:]


def _by_products(
    h: Array, gate: Array, precision: Array, w: Array, place: Columns
) -> tuple[Array, Array]:
    """Information (R, 2P, 2P) and gradient (R, 2P), from all products of few columns."""
    (R, P), (n, K) = place.shape, w.shape
    row = np.arange(R)[:, None]
    pairs = (w[:, :, None] * w[:, None]).reshape(n, -1)
    information, right, weighted = np.empty((R, 2 * P, 2 * P)), np.empty((R, 2 * P)), precision
    straight, through = slice(P), slice(P, 2 * P)
    for blocks in (((straight, straight),), ((straight, through), (through, straight)),
                   ((through, through),)):  # fmt: skip
        found = (weighted.T @ pairs).reshape(R, K, K)
        for block in blocks:
            information[:, *block] = found[row[:, None], place[:, :, None], place[:, None]]
        weighted = weighted * gate
    right[:, straight] = (h.T @ w)[row, place]
    right[:, through] = ((h * gate).T @ w)[row, place]
    return information / n, right / n


def _by_features(
    h: Array, gate: Array, precision: Array, w: Array, place: Columns
) -> tuple[Array, Array]:
    """The same from each row's own columns, some rows at a time."""
    (R, P), n = place.shape, len(h)
    together = max(1, NUMBERS_TOGETHER // (2 * P * n))
    information, right = np.empty((R, 2 * P, 2 * P)), np.empty((R, 2 * P))
    for first in range(0, R, together):
        some = slice(first, first + together)
        straight = w.T[place[some]]
        features = np.concatenate([straight, straight * gate.T[some, None]], axis=1)
        information[some] = (features * precision.T[some, None]) @ features.swapaxes(1, 2)
        right[some] = (features @ h.T[some, :, None])[:, :, 0]
    return information / n, right / n


def _by_pairs(
    h: Array, gate: Array, precision: Array, w: Array, place: Columns, real: Mask
) -> tuple[Array, Array]:
    """:func:`mean_steps` with each column of ``w`` by itself."""
    n, square = len(h), w * w
    weighted = precision * gate
    a, b, c = (x.T @ square / n for x in (precision, weighted, weighted * gate))
    a, c = (x * (1 + ROUNDING) + RIDGE for x in (a, c))
    f, g = (x.T @ w / n for x in (h, h * gate))
    determinant = a * c - b * b
    steps = (c * f - b * g) / determinant, (a * g - b * f) / determinant
    own = np.arange(len(place))[:, None], place
    step = _within(np.concatenate([part[own] * real for part in steps], axis=1))
    return step[:, : place.shape[1]], step[:, place.shape[1] :]


def _within(step: Array) -> Array:
    """Each row (R, K) shortened to `LONGEST_MEAN` in its largest entry.

    Cut one by one, entries that cancel in a neck would no longer.
    """
    largest = np.abs(step).max(axis=1, keepdims=True)
    return step * np.minimum(1, LONGEST_MEAN / np.maximum(largest, LONGEST_MEAN))
