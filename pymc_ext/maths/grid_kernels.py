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


@_inline
def _weight(corner, weights, slopes, along):
    """Of a corner, or its derivative along an axis, −1 for none."""
    weight = 1.0
    for k in range(weights.shape[0] - 1, -1, -1):
        weight *= slopes[k, corner % 4] if k == along else weights[k, corner % 4]
        corner //= 4
    return weight


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
            weight = _weight(corner, weights, slopes, -1)
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
                out[n, j] += along * _weight(corner, weights, slopes, j)
    return out


@_inline
def _share(shares, corner, without):
    """The weight of a corner, whose sides are its binary digits, but for that along ``without``."""
    weight = 1.0
    for j in range(shares.size - 1, -1, -1):
        if j != without:
            weight *= shares[j] if corner % 2 else 1.0 - shares[j]
        corner //= 2
    return weight


@_inline
def _quantile(first, width, values, slopes, begin, middles, starts, z, t, at, shares, rates, by):
    """t of normal z given those before it, ∂t/∂z and its derivative; ``by`` (2, k) has the
    derivatives of t and of log ∂t/∂z in those before it.

    The table begins at row ``begin`` of ``values`` and ``slopes``, (…, K), its knots at ``first``.
    ``at``, ``shares`` and ``rates`` are room for k.
    """
    k, last = starts.size - 1, values.shape[1] - 1
    inside = min(max(z, first), first + last * width)
    i = min(int((inside - first) // width), last - 1)
    u = (inside - first) / width - i
    v = 1.0 - u
    for j in range(k):
        axis = middles[starts[j] : starts[j + 1]]
        at[j] = _after(axis, t[j])
        length = axis[at[j] + 1] - axis[at[j]]
        shares[j] = (t[j] - axis[at[j]]) / length
        rates[j] = 1.0 / length if 0.0 <= shares[j] <= 1.0 else 0.0  # beyond the middles as there
        shares[j] = min(max(shares[j], 0.0), 1.0)
        by[0, j] = by[1, j] = 0.0
    out = slope = bend = 0.0
    for corner in range(2**k):
        row, size, left = begin, 1, corner
        for j in range(k - 1, -1, -1):
            row += size * (at[j] + left % 2)
            size *= starts[j + 1] - starts[j]
            left //= 2
        a, b = values[row, i], values[row, i + 1]
        c, d = slopes[row, i] * width, slopes[row, i + 1] * width
        value = (1.0 + 2.0 * u) * v * v * a + u * u * (3.0 - 2.0 * u) * b + u * v * (v * c - u * d)
        rate = (6.0 * u * v * (b - a) + v * (1.0 - 3.0 * u) * c + u * (3.0 * u - 2.0) * d) / width
        weight = _share(shares, corner, -1)
        out, slope = out + weight * value, slope + weight * rate
        bend += weight * ((6.0 - 12.0 * u) * (b - a) + (6.0 * u - 4.0) * c + (6.0 * u - 2.0) * d)
        left = corner
        for j in range(k - 1, -1, -1):
            by_t = _share(shares, corner, j) * (rates[j] if left % 2 else -rates[j])
            by[0, j] += by_t * value
            by[1, j] += by_t * rate
            left //= 2
    bend /= width * width
    for j in range(k):
        if inside != z:  # a straight line beyond the knots
            by[0, j] += (z - inside) * by[1, j]
        by[1, j] /= slope
    if inside != z:
        out, bend = out + (z - inside) * slope, 0.0
    return out, slope, bend


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
    at, shares, rates = np.empty(G, dtype=np.int64), np.empty(G), np.empty(G)
    for n in range(N):
        for k in range(G):
            t[n, k], slope, bend = _quantile(
                first, width, values, slopes, begins[k], middles, starts[k, : k + 1], z[n, k],
                t[n], at[:k], shares[:k], rates[:k], before[n, k, :, :k],
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
