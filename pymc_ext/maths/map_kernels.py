r"""One point of a hierarchical map, and the pullback there, compiled by numba and kept on disk.

As :mod:`pymc_ext.variational.hierarchical.map` has it for rows of points, where each operation of
NumPy costs more than the numbers of one point: a chain asks for one at a time. Rows of C, H and Q
are sparse, each matrix as (starts (D + 1,), columns, values).
"""

from __future__ import annotations

import math

import numba
import numpy as np

_kernel = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", cache=True, nogil=True)
_inline = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", cache=True)
LOG_2PI = math.log(2 * math.pi)
STATE = 6  # rows that a pullback needs of a point: w, e^a, g, ∂w/∂x, dy/dv and d log(dy/dv) / dv


@_inline
def _row(i, matrix, x):
    """Row i of a sparse matrix times x."""
    starts, columns, values = matrix
    total = 0.0
    for k in range(starts[i], starts[i + 1]):
        total += values[k] * x[columns[k]]
    return total


@_inline
def _row_of_squares(i, matrix, x):
    """The same times x² − 1."""
    starts, columns, values = matrix
    total = 0.0
    for k in range(starts[i], starts[i + 1]):
        at = x[columns[k]]
        total += values[k] * (at * at - 1.0)
    return total


@_inline
def _add_row(i, matrix, factor, out):
    """Add ``factor`` times row i."""
    starts, columns, values = matrix
    for k in range(starts[i], starts[i + 1]):
        out[columns[k]] += factor * values[k]


@_inline
def _add_row_along(i, matrix, factor, x, out):
    """The same, entry by entry times 2 x."""
    starts, columns, values = matrix
    for k in range(starts[i], starts[i + 1]):
        out[columns[k]] += factor * values[k] * 2.0 * x[columns[k]]


@_kernel
def forward(v, order, center, root, log_det, offset, mean, sense, gate, shut, C, H, Q, linked,
            bent, skew, tails, start, slope):  # fmt: skip
    """θ (D,), log q, and the state (STATE, D) at v (D,).

    ``gate`` is g₀, ``shut`` the least x that is told apart; ``linked`` are the places that depend
    on others, those they depend on first; ``bent`` those whose marginal is bent, with ε, δ₋ and δ₊
    (2, B), S and S′ at −ε.
    """
    D = v.size
    state, y, theta = np.empty((STATE, D)), v.copy(), np.empty(D)
    w, scale, open_, by_x, slopes, scores = state
    log_q = -0.5 * D * LOG_2PI - log_det
    for i in range(D):
        log_q -= 0.5 * v[i] * v[i]
        slopes[i], scores[i], scale[i] = 1.0, 0.0, 1.0
    for b in range(bent.size):
        i = bent[b]
        u = math.asinh(v[i]) - skew[b]
        delta = tails[1, b] if u >= 0 else tails[0, b]
        s, length = math.sinh(delta * u), math.sqrt(1.0 + v[i] * v[i])
        c = math.sqrt(1.0 + s * s)
        y[i] = (s / delta - start[b]) / slope[b]
        slopes[i] = c / (length * slope[b])
        scores[i] = (delta * s / c - v[i] / length) / length
        log_q -= math.log(slopes[i])
    for i in range(D):
        w[i], open_[i] = y[i], gate[i]
        by_x[i] = (1.0 - gate[i]) * sense[i] * y[i]
    for p in range(linked.size):
        i = linked[p]
        x = max(_row(i, C, w) + offset[i], -shut)
        g = 1.0 / (1.0 + math.exp(-2.0 * x))
        a = 0.5 * sense[i] * math.log(g / gate[i])
        e, inner = math.exp(a), _row(i, H, w) + mean[i]
        scaled = e * y[i]
        w[i] = scaled + g * inner + _row_of_squares(i, Q, w)
        scale[i], open_[i] = e, g
        by_x[i] = (1.0 - g) * (sense[i] * scaled + 2.0 * g * inner)
        log_q -= a
    for i in range(D):
        total = 0.0
        for j in range(i + 1):
            total += root[i, j] * w[j]
        theta[order[i]] = center[i] + total
    return theta, log_q, state


@_kernel
def pullback(score, state, order, root, sense, C, H, Q, linked):
    """Score in v (D,) of log p̃(T(v)) + log|det ∂T/∂v|, from that of log p̃ at T(v), (D,)."""
    D = score.size
    w, scale, open_, by_x, slopes, scores = state
    by_w = np.zeros(D)
    for i in range(D):
        h = score[order[i]]
        for j in range(i + 1):
            by_w[j] += root[i, j] * h
    for p in range(linked.size - 1, -1, -1):  # what depends on a place has been added by then
        i = linked[p]
        h = by_w[i]
        _add_row(i, C, by_x[i] * h + sense[i] * (1.0 - open_[i]), by_w)
        _add_row(i, H, open_[i] * h, by_w)
        _add_row_along(i, Q, h, w, by_w)
    for i in range(D):
        by_w[i] = slopes[i] * scale[i] * by_w[i] + scores[i]
    return by_w
