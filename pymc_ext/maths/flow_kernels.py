r"""The hot loops of a Bernstein flow in numbers, compiled by numba once and kept on disk.

None knows a dimension or a model when it is compiled: the first flow on a machine compiles them,
all later ones load them. Notation of one component: logit x, increments inc_k = softplus(raw_k),

.. math:: v(x) = \sum_k inc_k P(\mathrm{Bin}(M, \sigma(x)) \ge k) + s_R r - s_L l
          + \tfrac12 (q_R r^2 - q_L l^2), \quad r = \mathrm{softplus}(x), l = \mathrm{softplus}(-x),

y = t + e^λ (ϑ_0 + v). A row ``local`` holds ϑ_0, then the raw s_L, s_R, q_L, q_R, as many as the
tails have, then λ's own part where there is one.
"""

from __future__ import annotations

import math

import numba
import numpy as np

_inline = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", cache=True)
_exact = numba.njit(fastmath={"contract"}, error_model="numpy", cache=True)  # order of sums kept
_kernel = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", cache=True, nogil=True)
LOG_2 = math.log(2.0)
SHIFT = 6755399441055744.0  # 1.5 · 2^52: the doubles around it are the integers
LONGEST, MEMORY = 3.0, 0.99  # of a gradient, in running means of the norm, and their memory
LARGEST = 708.0  # e^-708 is the smallest increment, so that none is exactly zero


@_inline
def _softplus(a):
    return max(a, 0.0) + math.log1p(math.exp(-abs(a)))


@_inline
def _sigmoid(a):
    e = math.exp(-abs(a))
    return (1.0 if a > 0.0 else e) / (1.0 + e)


@_exact
def _exponentials(raw, row, bias, at, a, shifted, bits, e):
    """a = raw + bias and e = exp(−min(|a|, 708)) of M entries, without a branch or a call.

    −|a| = k log 2 + f: a Taylor polynomial of degree 13 in f, times 2^k written into the exponent's
    bits. Adding SHIFT rounds to an integer, which then sits in the low bits. (LLVM turns the loops
    into vector instructions, which it cannot do with calls of exp.)
    """
    for k in range(a.size):
        x = raw[row, at + k] + bias[at + k]
        a[k] = x
        x = -min(abs(x), LARGEST)
        s = x * 1.4426950408889634 + SHIFT
        shifted[k] = s
        n = s - SHIFT
        f = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
        p = 1.0 / 6227020800.0
        p = p * f + 1.0 / 479001600.0
        p = p * f + 1.0 / 39916800.0
        p = p * f + 1.0 / 3628800.0
        p = p * f + 1.0 / 362880.0
        p = p * f + 1.0 / 40320.0
        p = p * f + 1.0 / 5040.0
        p = p * f + 1.0 / 720.0
        p = p * f + 1.0 / 120.0
        p = p * f + 1.0 / 24.0
        p = p * f + 1.0 / 6.0
        p = p * f + 0.5
        p = p * f + 1.0
        e[k] = p * f + 1.0
    for k in range(a.size):
        bits[k] = (bits[k] + 1023) << 52
    for k in range(a.size):
        e[k] *= shifted[k]


@_inline
def _log1p(e):
    """log(1 + e) for 0 <= e <= 1: 2 atanh(e / (2 + e)), a minimax polynomial in its square."""
    s = e / (2.0 + e)
    t = s * s
    p = 0.08522081781390699
    p = p * t + 0.0416225325593041
    p = p * t + 0.06055084364034609
    p = p * t + 0.06650187016337313
    p = p * t + 0.07693307021152004
    p = p * t + 0.09090870416252403
    p = p * t + 0.11111112040373837
    p = p * t + 0.14285714272727057
    p = p * t + 0.20000000000092874
    p = p * t + 0.33333333333333076
    p = p * t + 1.0
    return 2.0 * s * p


@_inline
def _ratios(n):
    """(n − j) / (j + 1) for j = 0..n−1, the factors between neighbouring binomials."""
    ratio = np.empty(n)
    for j in range(n):
        ratio[j] = (n - j) / (j + 1)
    return ratio


@_inline
def _basis(x, ratio, b):
    """B_{n,j}(σ(x)) for j = 0..n into ``b``; σ(x)."""
    n = ratio.size
    r = math.exp(-abs(x))
    value = math.exp(-n * math.log1p(r))
    if x <= 0.0:
        for j in range(n):
            b[j] = value
            value *= ratio[j] * r
        b[n] = value
        return r / (1.0 + r)
    for j in range(n):
        b[n - j] = value
        value *= ratio[j] * r
    b[0] = value
    return 1.0 / (1.0 + r)


@_inline
def _survival(b, u, tail):
    """P(Bin(M, u) >= k) for k = 1..M into ``tail``, from the basis of degree M − 1."""
    after = 0.0
    for k in range(b.size - 1, -1, -1):
        tail[k] = after + u * b[k]
        after += b[k]


@_kernel
def activate(a, bias):
    """Units softplus(a + bias) − log 2 and their slopes; (N, H), (H,) -> (N, H), (N, H)."""
    out, slope = np.empty_like(a), np.empty_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            x = a[i, j] + bias[j]
            e = math.exp(-abs(x))
            out[i, j] = max(x, 0.0) + math.log1p(e) - LOG_2
            slope[i, j] = (1.0 if x > 0.0 else e) / (1.0 + e)
    return out, slope


@_kernel
def push(x, raw, raw_bias, local, local_bias, shift, log_scale, slopes):
    """y (N, d) and Σ_j log dy_j/dx_j (N,).

    ``raw`` (N, d M), ``local`` (N, d w) and their biases come from the network; ``shift`` and
    ``log_scale`` (N, d) are t and λ without the bias; ``slopes`` is the number of tails' slopes.
    """
    N, d = x.shape
    M, w = raw.shape[1] // d, local.shape[1] // d
    y, log_det, b = np.empty((N, d)), np.zeros(N), np.empty(M)
    a, e, shifted, tail = np.empty(M), np.empty(M), np.empty(M), np.empty(M)
    bits, ratio = shifted.view(np.int64), _ratios(M - 1)
    scaled = w > 1 + slopes
    for i in range(N):
        for j in range(d):
            xi = x[i, j]
            u = _basis(xi, ratio, b)
            _exponentials(raw, i, raw_bias, j * M, a, shifted, bits, e)
            _survival(b, u, tail)
            total, value = 0.0, 0.0
            for k in range(M):
                inc = max(a[k], 0.0) + _log1p(e[k])
                value += inc * tail[k]
                total += inc * b[k]
            r, q = _softplus(xi), _softplus(-xi)
            slope = M * total * u * (1.0 - u if u < 0.5 else _sigmoid(-xi))
            if slopes >= 2:
                left = _softplus(local[i, j * w + 1] + local_bias[j * w + 1])
                right = _softplus(local[i, j * w + 2] + local_bias[j * w + 2])
                value += right * r - left * q
                dr, dl = _sigmoid(xi), _sigmoid(-xi)
                slope += right * dr + left * dl
                if slopes == 4:
                    bend_l = _softplus(local[i, j * w + 3] + local_bias[j * w + 3])
                    bend_r = _softplus(local[i, j * w + 4] + local_bias[j * w + 4])
                    value += 0.5 * (bend_r * r * r - bend_l * q * q)
                    slope += bend_r * r * dr + bend_l * q * dl
                log_slope = math.log(slope)
            else:
                log_slope = math.log(M * total) - r - q
            scale = log_scale[i, j]
            if scaled:
                scale += local[i, j * w + w - 1] + local_bias[j * w + w - 1]
            offset = local[i, j * w] + local_bias[j * w]
            y[i, j] = shift[i, j] + math.exp(scale) * (offset + value)
            log_det[i] += log_slope + scale
    return y, log_det


@_kernel
def push_pullback(x, raw, raw_bias, local, local_bias, shift, log_scale, slopes, g_y, g_log):
    """Cotangents of y (N, d) and of the log determinant (N,) back to x, raw, local and λ.

    Returns those of x (N, d), raw (N, d M), local (N, d w) and λ (N, d); that of t is that of y.
    """
    N, d = x.shape
    M, w = raw.shape[1] // d, local.shape[1] // d
    gx, graw = np.empty((N, d)), np.empty_like(raw)
    glocal, gscale, b = np.zeros_like(local), np.empty((N, d)), np.empty(M)
    a, e, shifted, tail = np.empty(M), np.empty(M), np.empty(M), np.empty(M)
    bits, ratio = shifted.view(np.int64), _ratios(M - 1)
    scaled = w > 1 + slopes
    for i in range(N):
        gl = g_log[i]
        for j in range(d):
            xi, row, at = x[i, j], j * M, j * w
            u = _basis(xi, ratio, b)
            _exponentials(raw, i, raw_bias, row, a, shifted, bits, e)
            _survival(b, u, tail)
            total, value, first = 0.0, 0.0, 0.0
            for k in range(M):
                inc = max(a[k], 0.0) + _log1p(e[k])
                value += inc * tail[k]
                total += inc * b[k]
                first += inc * b[k] * (k + 1.0 - (M + 1.0) * u)
            dr, dl = _sigmoid(xi), _sigmoid(-xi)
            uv = dr * dl
            poly = M * total * uv  # slope of the polynomial
            scale = log_scale[i, j]
            if scaled:
                scale += local[i, at + w - 1] + local_bias[at + w - 1]
            es = math.exp(scale)
            gv = g_y[i, j] * es
            slope, curve = poly, 0.0  # v', and v'' of the tails
            if slopes >= 2:
                al = local[i, at + 1] + local_bias[at + 1]
                ar = local[i, at + 2] + local_bias[at + 2]
                left, right = _softplus(al), _softplus(ar)
                r, q = _softplus(xi), _softplus(-xi)
                value += right * r - left * q
                slope += right * dr + left * dl
                curve += (right - left) * uv
                bend_l = bend_r = 0.0
                if slopes == 4:
                    cl = local[i, at + 3] + local_bias[at + 3]
                    cr = local[i, at + 4] + local_bias[at + 4]
                    bend_l, bend_r = _softplus(cl), _softplus(cr)
                    value += 0.5 * (bend_r * r * r - bend_l * q * q)
                    slope += bend_r * r * dr + bend_l * q * dl
                    curve += bend_r * (dr * dr + r * uv) - bend_l * (dl * dl + q * uv)
                h = gl / slope  # of the slope itself
                glocal[i, at + 1] = (h * dl - gv * q) * _sigmoid(al)
                glocal[i, at + 2] = (h * dr + gv * r) * _sigmoid(ar)
                if slopes == 4:
                    glocal[i, at + 3] = (h * q * dl - 0.5 * gv * q * q) * _sigmoid(cl)
                    glocal[i, at + 4] = (h * r * dr + 0.5 * gv * r * r) * _sigmoid(cr)
                h_poly, h_curve = h * M * uv, h * curve
            else:
                h_poly, h_curve = gl / total, 0.0
            # d log(total uv) / dx = first / total, so that d poly / dx = M uv first
            gx[i, j] = gv * slope + h_poly * first + h_curve
            for k in range(M):
                slope_k = (1.0 if a[k] > 0.0 else e[k]) / (1.0 + e[k])
                graw[i, row + k] = (gv * tail[k] + h_poly * b[k]) * slope_k
            glocal[i, at] = gv
            offset = local[i, at] + local_bias[at]
            gscale[i, j] = gv * (offset + value) + gl
            if scaled:
                glocal[i, at + w - 1] = gscale[i, j]
    return gx, graw, glocal, gscale


@_kernel
def stage(seen, x, par, at, hidden, d, M, w, slopes, scaled):
    """One network and the components that it conditions.

    Parameters
    ----------
    seen, x
        What the network sees (N, K), and the logits of its d components (N, d).
    par, at
        All parameters, and where in them this stage's begin, in the order of :func:`offsets_of`:
        W and b of each hidden layer, W and b of ``raw`` and of ``local``, the two skips.
        A network that sees nothing has none of the weights: its place is −1.
    hidden
        Widths of the hidden layers.
    d, M, w, slopes, scaled
        Components, order, entries of ``local``, slopes of the tails, whether there are skips.

    Returns
    -------
    tuple
        y (N, d), log determinant (N,), units and their slopes (N, Σ widths), raw (N, d M), local
        (N, d w), shift and log scale (N, d).
    """
    N, K = seen.shape
    L = hidden.size
    units, unit_slopes = np.empty((N, hidden.sum())), np.empty((N, hidden.sum()))
    raw, local = np.zeros((N, d * M)), np.zeros((N, d * w))
    if at[2 * L] >= 0:
        h, begin = seen, 0
        for i in range(L):
            n = hidden[i]
            W = par[at[2 * i] : at[2 * i] + h.shape[1] * n].reshape((h.shape[1], n))
            bias = par[at[2 * i + 1] : at[2 * i + 1] + n]
            h, slope = activate(np.dot(h, W), bias)
            units[:, begin : begin + n] = h
            unit_slopes[:, begin : begin + n] = slope
            begin += n
        n = h.shape[1]
        raw = np.dot(h, par[at[2 * L] : at[2 * L] + n * d * M].reshape((n, d * M)))
        local = np.dot(h, par[at[2 * L + 2] : at[2 * L + 2] + n * d * w].reshape((n, d * w)))
    shift, log_scale = np.zeros((N, d)), np.zeros((N, d))
    if scaled:
        skip, skip_scale = at[2 * L + 4], at[2 * L + 5]
        shift = np.dot(seen, par[skip : skip + K * d].reshape((K, d)))
        log_scale = np.dot(seen, par[skip_scale : skip_scale + K * d].reshape((K, d)))
    raw_bias = par[at[2 * L + 1] : at[2 * L + 1] + d * M]
    local_bias = par[at[2 * L + 3] : at[2 * L + 3] + d * w]
    y, log_det = push(x, raw, raw_bias, local, local_bias, shift, log_scale, slopes)
    return y, log_det, units, unit_slopes, raw, local, shift, log_scale


@_kernel
def stage_pullback(
    seen, x, par, at, hidden, d, M, w, slopes, scaled,
    units, unit_slopes, raw, local, shift, log_scale, g_y, g_log, gradient,
):  # fmt: skip
    """Cotangents of x (N, d) and of what was seen (N, K); gradients go into ``gradient`` (P,).

    Arguments are those of :func:`stage`, its results, and the cotangents of y (N, d) and of the log
    determinant (N,).
    """
    N, K = seen.shape
    L = hidden.size
    raw_bias = par[at[2 * L + 1] : at[2 * L + 1] + d * M]
    local_bias = par[at[2 * L + 3] : at[2 * L + 3] + d * w]
    g_x, g_raw, g_local, g_scale = push_pullback(
        x, raw, raw_bias, local, local_bias, shift, log_scale, slopes, g_y, g_log
    )
    _add_rows(g_raw, gradient[at[2 * L + 1] : at[2 * L + 1] + d * M])
    _add_rows(g_local, gradient[at[2 * L + 3] : at[2 * L + 3] + d * w])
    g_seen = np.zeros((N, K))
    if scaled:
        skip, skip_scale = at[2 * L + 4], at[2 * L + 5]
        gradient[skip : skip + K * d] = np.dot(seen.T, g_y).ravel()
        gradient[skip_scale : skip_scale + K * d] = np.dot(seen.T, g_scale).ravel()
        g_seen += np.dot(g_y, par[skip : skip + K * d].reshape((K, d)).T)
        g_seen += np.dot(g_scale, par[skip_scale : skip_scale + K * d].reshape((K, d)).T)
    if at[2 * L] < 0:
        return g_x, g_seen
    end = units.shape[1]
    n = hidden[L - 1] if L > 0 else K
    last = np.ascontiguousarray(units[:, end - n :]) if L > 0 else seen
    at_raw, at_local = at[2 * L], at[2 * L + 2]
    gradient[at_raw : at_raw + n * d * M] = np.dot(last.T, g_raw).ravel()
    gradient[at_local : at_local + n * d * w] = np.dot(last.T, g_local).ravel()
    g = np.dot(g_raw, par[at_raw : at_raw + n * d * M].reshape((n, d * M)).T)
    g += np.dot(g_local, par[at_local : at_local + n * d * w].reshape((n, d * w)).T)
    for i in range(L - 1, -1, -1):
        n = hidden[i]
        end -= n
        g = g * unit_slopes[:, end : end + n]
        _add_rows(g, gradient[at[2 * i + 1] : at[2 * i + 1] + n])
        before = np.ascontiguousarray(units[:, end - hidden[i - 1] : end]) if i > 0 else seen
        m = before.shape[1]
        gradient[at[2 * i] : at[2 * i] + m * n] = np.dot(before.T, g).ravel()
        g = np.dot(g, par[at[2 * i] : at[2 * i] + m * n].reshape((m, n)).T)
    return g_x, g_seen + g


@_inline
def _add_rows(rows, into):
    """Sum of ``rows`` (N, K) into ``into`` (K,)."""
    for j in range(rows.shape[1]):
        into[j] = 0.0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            into[j] += rows[i, j]


@_kernel
def adam(x, average, first, second, gradient, mask, rate, weight, state, adaptive, max_norm):
    """One guarded step in place; True if it was taken.

    x, average, first, second, gradient, mask (P,); ``state`` (2,): steps so far and the running
    limit of the gradient's norm. ``adaptive``: Adam; otherwise RMSprop. ``max_norm`` <= 0:
    gradients are shortened to the running limit, LONGEST times the mean of the norms so far.
    """
    total = 0.0
    for i in range(x.size):
        gradient[i] *= mask[i]
        total += gradient[i] * gradient[i]
    norm = math.sqrt(total)
    good = norm < np.inf  # false for NaN too
    if good:
        limit = max_norm
        if max_norm <= 0.0:
            limit = state[1] if state[1] > 0.0 else LONGEST * norm
            state[1] = limit + (1.0 - MEMORY) * (LONGEST * min(norm, limit) - limit)
        scale = min(1.0, limit / max(norm, 1e-30))
        b1, b2 = (0.9, 0.999) if adaptive else (0.0, 0.9)
        c1 = c2 = 1.0
        if adaptive:
            state[0] += 1.0
            c1, c2 = 1.0 - b1 ** state[0], 1.0 - b2 ** state[0]
        for i in range(x.size):
            g = gradient[i] * scale
            second[i] = b2 * second[i] + (1.0 - b2) * g * g
            first[i] = b1 * first[i] + (1.0 - b1) * g
            x[i] -= rate * first[i] / c1 / (math.sqrt(second[i] / c2) + 1e-8)
    for i in range(x.size):
        average[i] += weight * (x[i] - average[i])
    return good
