"""Values between places of a grid and quantiles given earlier ones, row by row, compiled by numba
and kept on disk: each depends on few of many numbers, a different few for each row.

Axes are given one after the other, with the place where each begins and one more, (g + 1,).
"""

from __future__ import annotations

import math

import numba
import numpy as np

_kernel = numba.njit(error_model="numpy", cache=True, nogil=True)
_inline = numba.njit(error_model="numpy", cache=True)


@_inline
def _after(axis, t):
    """The place before t, between the first and the last but one."""
    i = np.searchsorted(axis, t, side="right") - 1
    return min(max(i, 0), axis.size - 2)


@_inline
def _cubic_weights(axis, t, place, weights, slopes):
    """Four places, their weights at t and derivatives: see `pymc_ext.maths.cubics`."""
    last = axis.size - 1
    inside = min(max(t, axis[0]), axis[last])
    left = _after(axis, inside)
    place[0], place[1] = max(left - 1, 0), left
    place[2], place[3] = left + 1, min(left + 2, last)
    h = axis[left + 1] - axis[left]
    u = (inside - axis[left]) / h
    v = 1.0 - u
    at_left = h / (axis[left + 1] - axis[place[0]])
    at_right = h / (axis[place[3]] - axis[left])
    up, down = u * v * v * at_left, -u * u * v * at_right
    weights[0], weights[3] = -up, down
    weights[1], weights[2] = (1.0 + 2.0 * u) * v * v - down, u * u * (3.0 - 2.0 * u) + up
    up, down = v * (1.0 - 3.0 * u) * at_left, u * (3.0 * u - 2.0) * at_right
    slopes[0], slopes[3] = -up, down
    slopes[1], slopes[2] = -6.0 * u * v - down, 6.0 * u * v + up
    for corner in range(4):
        slopes[corner] /= h
        weights[corner] += (t - inside) * slopes[corner]


@_inline
def _all_weights(axes, starts, y, places, weights, slopes):
    for k in range(y.size):
        axis = axes[starts[k] : starts[k + 1]]
        _cubic_weights(axis, y[k], places[k], weights[k], slopes[k])


@_inline
def _row_of(corner, starts, nearest, places):
    """Of a corner, whose four places along the last axis are its last digits."""
    at, size = 0, 1
    for k in range(places.shape[0] - 1, -1, -1):
        at += size * places[k, corner % 4]
        size *= starts[k + 1] - starts[k]
        corner //= 4
    return nearest[at]


@_kernel
def between(axes, starts, nearest, rows, y):
    """Of ``rows`` (T, R) at y (N, g), (N, R); ``nearest`` is the row of each place of the box."""
    N, g = y.shape
    out = np.zeros((N, rows.shape[1]))
    places = np.empty((g, 4), dtype=np.int64)
    weights, slopes = np.empty((g, 4)), np.empty((g, 4))
    for n in range(N):
        _all_weights(axes, starts, y[n], places, weights, slopes)
        for corner in range(4**g):
            weight, left = 1.0, corner
            for k in range(g - 1, -1, -1):
                weight *= weights[k, left % 4]
                left //= 4
            if weight != 0.0:
                row = rows[_row_of(corner, starts, nearest, places)]
                for r in range(row.size):
                    out[n, r] += weight * row[r]
    return out


@_kernel
def slopes_between(axes, starts, nearest, rows, by, y):
    """∂/∂y (N, g) of a function, from its derivatives ``by`` (N, R) in what `between` gives."""
    N, g = y.shape
    out = np.zeros((N, g))
    places = np.empty((g, 4), dtype=np.int64)
    weights, slopes = np.empty((g, 4)), np.empty((g, 4))
    for n in range(N):
        _all_weights(axes, starts, y[n], places, weights, slopes)
        for corner in range(4**g):
            row, along = rows[_row_of(corner, starts, nearest, places)], 0.0
            for r in range(row.size):
                along += by[n, r] * row[r]
            for j in range(g):
                weight, left = along, corner
                for k in range(g - 1, -1, -1):
                    weight *= slopes[k, left % 4] if k == j else weights[k, left % 4]
                    left //= 4
                out[n, j] += weight
    return out


@_inline
def _quantile(first, width, values, slopes, begin, middles, starts, z, t, by):
    """t of normal z given those before it, ∂t/∂z and its derivative; ``by`` (2, k) has the
    derivatives of t and of log ∂t/∂z in those before it.

    The table begins at row ``begin`` of ``values`` and ``slopes``, (…, K), its knots at ``first``.
    """
    k, last = starts.size - 1, values.shape[1] - 1
    inside = min(max(z, first), first + last * width)
    i = min(int((inside - first) // width), last - 1)
    u = (inside - first) / width - i
    v = 1.0 - u
    # of the cubic by both values and both slopes: itself, its first and its second derivative
    cubic = np.array((
        ((1.0 + 2.0 * u) * v * v, u * u * (3.0 - 2.0 * u), u * v * v * width, -u * u * v * width),
        (-6.0 * u * v / width, 6.0 * u * v / width, v * (1.0 - 3.0 * u), u * (3.0 * u - 2.0)),
        ((12.0 * u - 6.0) / width**2, (6.0 - 12.0 * u) / width**2, (6.0 * u - 4.0) / width,
         (6.0 * u - 2.0) / width),
    ))  # fmt: skip
    at, share = np.empty(k, dtype=np.int64), np.empty(k)
    length = np.empty(k)  # between the middles, infinite beyond them
    for j in range(k):
        axis = middles[starts[j] : starts[j + 1]]
        at[j] = _after(axis, t[j])
        length[j] = axis[at[j] + 1] - axis[at[j]]
        share[j] = (t[j] - axis[at[j]]) / length[j]
        if share[j] < 0.0 or share[j] > 1.0:
            share[j], length[j] = min(max(share[j], 0.0), 1.0), np.inf
    found = np.zeros(3)
    by[:] = 0.0
    for corner in range(2**k):
        row, size, weight, left = 0, 1, 1.0, corner
        for j in range(k - 1, -1, -1):
            row += size * (at[j] + left % 2)
            size *= starts[j + 1] - starts[j]
            weight *= share[j] if left % 2 else 1.0 - share[j]
            left //= 2
        row += begin
        here = cubic[:, 0] * values[row, i] + cubic[:, 1] * values[row, i + 1]
        here += cubic[:, 2] * slopes[row, i] + cubic[:, 3] * slopes[row, i + 1]
        found += weight * here
        for j in range(k):
            rate, left = 1.0 / length[j], corner
            for other in range(k - 1, -1, -1):
                if other == j:
                    rate *= 1.0 if left % 2 else -1.0
                else:
                    rate *= share[other] if left % 2 else 1.0 - share[other]
                left //= 2
            by[0, j] += rate * here[0]
            by[1, j] += rate * here[1]
    if inside != z:  # a straight line beyond the knots
        found[0] += (z - inside) * found[1]
        found[2] = 0.0
        by[0] += (z - inside) * by[1]
    by[1] /= found[1]
    return found[0], found[1], found[2]


@_kernel
def quantiles(first, width, values, slopes, begins, middles, starts, z):
    """t of normals z (N, G), log det ∂t/∂z (N,), and what `pulled_back` needs of either, (N, G, 2)
    and (N, G, 2, G).

    Coordinate k has its table from row ``begins[k]`` on, the middles of those before it from
    ``starts[k]`` (G + 1,) on.
    """
    N, G = z.shape
    t, log_det = np.empty((N, G)), np.zeros(N)
    own, before = np.zeros((N, G, 2)), np.zeros((N, G, 2, G))
    for n in range(N):
        for k in range(G):
            t[n, k], slope, bend = _quantile(
                first, width, values, slopes, begins[k], middles, starts[k, : k + 1], z[n, k],
                t[n], before[n, k, :, :k],
            )  # fmt: skip
            log_det[n] += math.log(slope)
            own[n, k, 0], own[n, k, 1] = slope, bend / slope
    return t, log_det, own, before


@_kernel
def pulled_back(own, before, by_t):
    """∂/∂z of f(t) + log det ∂t/∂z, from ∂f/∂t (N, G)."""
    out, by = np.empty_like(by_t), by_t.copy()
    N, G = by_t.shape
    for n in range(N):
        for k in range(G - 1, -1, -1):
            out[n, k] = by[n, k] * own[n, k, 0] + own[n, k, 1]
            for j in range(k):
                by[n, j] += by[n, k] * before[n, k, 0, j] + before[n, k, 1, j]
    return out
