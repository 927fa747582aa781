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

from pymc_ext.maths.adam import ADAM, RMSPROP, adam_step, corrected
from pymc_ext.maths.namespace import Elementwise

_inline = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", cache=True)
_exact = numba.njit(fastmath={"contract"}, error_model="numpy", cache=True)  # order of sums kept
_kernel = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", cache=True, nogil=True)
LOG_2 = math.log(2.0)
SHIFT = 6755399441055744.0  # 1.5 · 2^52: the doubles around it are the integers
LONGEST, MEMORY = 3.0, 0.99  # of a gradient, in running means of the norm, and their memory
LARGEST = 708.0  # e^-708 is the smallest increment, so that none is exactly zero


def tail_functions(
    r: Elementwise, q: Elementwise, up: Elementwise, down: Elementwise
) -> tuple[tuple[Elementwise, ...], ...]:
    """−q, r, −q²/2, r²/2 of r = softplus(x) and q = softplus(−x), which all increase in x.

    Each with its first and second derivative in x; ``up`` σ(x) and ``down`` σ(−x) are those of r
    and −q. Tails are the sum of the first two, or of all four, each times a slope above zero.
    """
    bend = up * down
    return (
        (-q, down, -bend),
        (r, up, bend),
        (-0.5 * q * q, q * down, -(down * down + q * bend)),
        (0.5 * r * r, r * up, up * up + r * bend),
    )


_tail_functions = _inline(tail_functions)


@_exact
def _exponentials(a, shifted, bits, e):
    """e = exp(−min(|a|, 708)) elementwise, without a branch or a call.

    −|a| = k log 2 + f: a Taylor polynomial of degree 13 in f, times 2^k written into the exponent's
    bits. Adding SHIFT rounds to an integer, which then sits in the low bits. (LLVM turns the loops
    into vector instructions, which it cannot do with calls of exp.)
    """
    for k in range(a.size):
        x = -min(abs(a[k]), LARGEST)
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
def _basis(right, r, largest, ratio, b):
    """B_{n,j}(σ(x)) for j = 0..n into ``b``: r = e^−|x|, begun at the end where it is largest."""
    n, value = ratio.size, largest
    if right:
        for j in range(n):
            b[n - j] = value
            value *= ratio[j] * r
        b[0] = value
    else:
        for j in range(n):
            b[j] = value
            value *= ratio[j] * r
        b[n] = value


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
def push(x, raw, raw_bias, local, local_bias, shift, log_scale, slopes, keep):
    """y (N, d) and Σ_j log dy_j/dx_j (N,), and what :func:`push_pullback` needs where ``keep``.

    ``raw`` (N, d M), ``local`` (N, d w) and their biases come from the network; ``shift`` and
    ``log_scale`` (N, d) are t and λ without the bias; ``slopes`` is the number of tails' slopes.
    Kept are, for each component, the basis, the survival function, the increments and their
    derivatives (4, M + slopes; of the slopes the last two), and dy/dx before scaling with v.
    """
    N, d = x.shape
    M, w = raw.shape[1] // d, local.shape[1] // d
    K = M + slopes
    y, log_det = np.empty((N, d)), np.zeros(N)
    tape = np.empty((N * d if keep else 1, 4, K))
    sums = np.empty((N * d if keep else 1, 3))
    a, e, shifted = np.empty(K), np.empty(K), np.empty(K)
    bits, ratio = shifted.view(np.int64), _ratios(M - 1)
    scaled = w > 1 + slopes
    for i in range(N):
        for j in range(d):
            row = i * d + j if keep else 0
            b, tail, inc, sig = tape[row, 0], tape[row, 1], tape[row, 2], tape[row, 3]
            xi = x[i, j]
            for k in range(M):
                a[k] = raw[i, j * M + k] + raw_bias[j * M + k]
            for k in range(slopes):
                a[M + k] = local[i, j * w + 1 + k] + local_bias[j * w + 1 + k]
            _exponentials(a, shifted, bits, e)
            for k in range(K):
                inc[k] = max(a[k], 0.0) + _log1p(e[k])
                sig[k] = (1.0 if a[k] > 0.0 else e[k]) / (1.0 + e[k])
            er = math.exp(-abs(xi))
            lr = math.log1p(er)
            up, down = 1.0 / (1.0 + er), er / (1.0 + er)
            dr, dl = (up, down) if xi > 0.0 else (down, up)
            _basis(xi > 0.0, er, math.exp(-(M - 1) * lr), ratio, b)
            after = 0.0
            for k in range(M - 1, -1, -1):
                tail[k] = after + dr * b[k]
                after += b[k]
            total, value, first = 0.0, 0.0, 0.0
            for k in range(M):
                value += inc[k] * tail[k]
                q = inc[k] * b[k]
                total += q
                first += q * (k + 1.0 - (M + 1.0) * dr)
            slope = M * total * dr * dl
            log_slope = math.log(M * total) - abs(xi) - 2.0 * lr
            if slopes > 0:
                tails = _tail_functions(max(xi, 0.0) + lr, max(-xi, 0.0) + lr, dr, dl)
                for k in range(slopes):
                    value += inc[M + k] * tails[k][0]
                    slope += inc[M + k] * tails[k][1]
                log_slope = math.log(slope)
            scale = log_scale[i, j]
            if scaled:
                scale += local[i, j * w + w - 1] + local_bias[j * w + w - 1]
            offset = local[i, j * w] + local_bias[j * w]
            grown = math.exp(scale)
            y[i, j] = shift[i, j] + grown * (offset + value)
            log_det[i] += log_slope + scale
            sums[row, 0], sums[row, 1], sums[row, 2] = grown, total, first
    return y, log_det, tape, sums


@_kernel
def push_pullback(x, y, shift, w, slopes, tape, sums, g_y, g_log):
    """Cotangents of y (N, d) and of the log determinant (N,) back to x, raw, local and λ.

    Returns those of x (N, d), raw (N, d M), local (N, d w) and λ (N, d); that of t is that of y.
    """
    N, d = x.shape
    M = tape.shape[2] - slopes
    gx, graw = np.empty((N, d)), np.empty((N, d * M))
    glocal, gscale = np.zeros((N, d * w)), np.empty((N, d))
    scaled = w > 1 + slopes
    for i in range(N):
        gl = g_log[i]
        for j in range(d):
            row, at, xi = i * d + j, j * w, x[i, j]
            b, tail, inc, sig = tape[row, 0], tape[row, 1], tape[row, 2], tape[row, 3]
            grown, total, first = sums[row, 0], sums[row, 1], sums[row, 2]
            er = math.exp(-abs(xi))
            up, down = 1.0 / (1.0 + er), er / (1.0 + er)
            dr, dl = (up, down) if xi > 0.0 else (down, up)
            uv = dr * dl
            gv = g_y[i, j] * grown
            slope, curve = M * total * uv, 0.0  # v', and v'' of the tails
            h_poly = gl / total
            if slopes > 0:
                lr = math.log1p(er)
                tails = _tail_functions(max(xi, 0.0) + lr, max(-xi, 0.0) + lr, dr, dl)
                for k in range(slopes):
                    slope += inc[M + k] * tails[k][1]
                    curve += inc[M + k] * tails[k][2]
                h = gl / slope  # of the slope itself
                for k in range(slopes):
                    glocal[i, at + 1 + k] = (h * tails[k][1] + gv * tails[k][0]) * sig[M + k]
                h_poly = h * M * uv
                curve *= h
            # d log(total uv) / dx = first / total, so that d poly / dx = M uv first
            gx[i, j] = gv * slope + h_poly * first + curve
            for k in range(M):
                graw[i, j * M + k] = (gv * tail[k] + h_poly * b[k]) * sig[k]
            glocal[i, at] = gv
            gscale[i, j] = g_y[i, j] * (y[i, j] - shift[i, j]) + gl
            if scaled:
                glocal[i, at + w - 1] = gscale[i, j]
    return gx, graw, glocal, gscale


@_inline
def _put(rows, into):
    """Copies (N, K). A slice assignment compiles numba's sentence on shapes, for three seconds."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            into[i, j] = rows[i, j]


@_inline
def _add(rows, into):
    """Adds (N, K) in place; an expression of arrays takes numba three times as long to compile."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            into[i, j] += rows[i, j]


@_inline
def _times(rows, into):
    """Multiplies (N, K) in place."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            into[i, j] *= rows[i, j]


@_kernel
def network(seen, x, par, keep, at, hidden, d, M, w, slopes, scaled):
    """One network and the components that it conditions.

    Parameters
    ----------
    seen, x
        What the network sees (N, K), and the logits of its d components (N, d).
    keep
        Whether what the pullback needs is kept.
    par, at
        All parameters, and where in them this network's begin, in this order:
        W and b of each hidden layer, W and b of ``raw`` and of ``local``, the two skips.
        A network that sees nothing has none of the weights: its place is −1.
    hidden
        Widths of the hidden layers.
    d, M, w, slopes, scaled
        Components, order, entries of ``local``, slopes of the tails, whether there are skips.

    Returns
    -------
    tuple
        y (N, d), log determinant (N,), raw (N, d M), local (N, d w), shift and log scale (N, d),
        units and their slopes (N, Σ widths), and what :func:`push` keeps.
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
            _put(h, units[:, begin : begin + n])
            _put(slope, unit_slopes[:, begin : begin + n])
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
    y, log_det, tape, sums = push(
        x, raw, raw_bias, local, local_bias, shift, log_scale, slopes, keep
    )
    return y, log_det, raw, local, shift, log_scale, units, unit_slopes, tape, sums


@_kernel
def network_pullback(
    seen, x, par, at, hidden, d, M, w, slopes, scaled,
    y, shift, units, unit_slopes, tape, sums, g_y, g_log, gradient,
):  # fmt: skip
    """Cotangents of x (N, d) and of what was seen (N, K); gradients go into ``gradient`` (P,).

    Arguments are those of :func:`network`, its results, and the cotangents of y (N, d) and of log
    dy/dx (N,).
    """
    N, K = seen.shape
    L = hidden.size
    g_x, g_raw, g_local, g_scale = push_pullback(x, y, shift, w, slopes, tape, sums, g_y, g_log)
    _add_rows(g_raw, gradient[at[2 * L + 1] : at[2 * L + 1] + d * M])
    _add_rows(g_local, gradient[at[2 * L + 3] : at[2 * L + 3] + d * w])
    g_seen = np.zeros((N, K))
    if scaled:
        skip, skip_scale = at[2 * L + 4], at[2 * L + 5]
        _put(np.dot(seen.T, g_y), gradient[skip : skip + K * d].reshape((K, d)))
        _put(np.dot(seen.T, g_scale), gradient[skip_scale : skip_scale + K * d].reshape((K, d)))
        _add(np.dot(g_y, par[skip : skip + K * d].reshape((K, d)).T), g_seen)
        _add(np.dot(g_scale, par[skip_scale : skip_scale + K * d].reshape((K, d)).T), g_seen)
    if at[2 * L] < 0:
        return g_x, g_seen
    end = units.shape[1]
    n = hidden[L - 1] if L > 0 else K
    last = np.ascontiguousarray(units[:, end - n :]) if L > 0 else seen
    at_raw, at_local = at[2 * L], at[2 * L + 2]
    _put(np.dot(last.T, g_raw), gradient[at_raw : at_raw + n * d * M].reshape((n, d * M)))
    _put(np.dot(last.T, g_local), gradient[at_local : at_local + n * d * w].reshape((n, d * w)))
    g = np.dot(g_raw, par[at_raw : at_raw + n * d * M].reshape((n, d * M)).T)
    _add(np.dot(g_local, par[at_local : at_local + n * d * w].reshape((n, d * w)).T), g)
    for i in range(L - 1, -1, -1):
        n = hidden[i]
        end -= n
        _times(unit_slopes[:, end : end + n], g)
        _add_rows(g, gradient[at[2 * i + 1] : at[2 * i + 1] + n])
        before = np.ascontiguousarray(units[:, end - hidden[i - 1] : end]) if i > 0 else seen
        m = before.shape[1]
        _put(np.dot(before.T, g), gradient[at[2 * i] : at[2 * i] + m * n].reshape((m, n)))
        g = np.dot(g, par[at[2 * i] : at[2 * i] + m * n].reshape((m, n)).T)
    _add(g, g_seen)
    return g_x, g_seen


@_kernel
def network_solve(
    x, par, at, hidden, d, M, w, slopes, scaled, y, shift, unit_slopes, tape, sums, by_x, r
):  # fmt: skip
    """h (N, d) with (∂y/∂x)ᵀ h = r, and the cotangent (N, K) that h has in what was seen.

    Back substitution: y_j depends on x_j and on what its network sees, which is made of the x
    before j. ``by_x`` (N, K) is the derivative of what is seen in its own x; other arguments are
    those of :func:`network`, and its results.
    """
    N, K = by_x.shape
    L = hidden.size
    ones, zeros = np.ones((N, d)), np.zeros(N)
    slope, g_raw, g_local, g_scale = push_pullback(x, y, shift, w, slopes, tape, sums, ones, zeros)
    h, g_seen = np.empty((N, d)), np.zeros((N, K))
    sees = at[2 * L] >= 0
    n = hidden[L - 1] if L > 0 else K
    if sees:
        W_raw = par[at[2 * L] : at[2 * L] + n * d * M].reshape((n, d * M))
        W_local = par[at[2 * L + 2] : at[2 * L + 2] + n * d * w].reshape((n, d * w))
    else:
        W_raw, W_local = np.zeros((n, d * M)), np.zeros((n, d * w))
    skip, skip_scale = at[2 * L + 4], at[2 * L + 5]
    for j in range(d - 1, -1, -1):
        own = K - d + j
        for i in range(N):
            h[i, j] = (r[i, j] - by_x[i, own] * g_seen[i, own]) / slope[i, j]
            if scaled:
                by_scale = h[i, j] * g_scale[i, j]
                for k in range(own):
                    g_seen[i, k] += h[i, j] * par[skip + k * d + j]
                    g_seen[i, k] += by_scale * par[skip_scale + k * d + j]
        if not sees or own == 0:
            continue
        of_raw, of_local = np.empty((N, M)), np.empty((N, w))
        for i in range(N):
            for k in range(M):
                of_raw[i, k] = h[i, j] * g_raw[i, j * M + k]
            for k in range(w):
                of_local[i, k] = h[i, j] * g_local[i, j * w + k]
        g = np.dot(of_raw, np.ascontiguousarray(W_raw[:, j * M : (j + 1) * M]).T)
        _add(np.dot(of_local, np.ascontiguousarray(W_local[:, j * w : (j + 1) * w]).T), g)
        end = unit_slopes.shape[1]
        for i in range(L - 1, -1, -1):
            width = hidden[i]
            end -= width
            _times(unit_slopes[:, end : end + width], g)
            m = hidden[i - 1] if i > 0 else K
            g = np.dot(g, par[at[2 * i] : at[2 * i] + m * width].reshape((m, width)).T)
        _add(g, g_seen)
    return h, g_seen


@_inline
def _add_rows(rows, into):
    """Sum of ``rows`` (N, K) into ``into`` (K,)."""
    for j in range(rows.shape[1]):
        into[j] = 0.0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            into[j] += rows[i, j]


_corrected, _adam_step = _inline(corrected), _inline(adam_step)


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
        b1, b2 = ADAM if adaptive else RMSPROP
        move, growth = rate, 1.0
        if adaptive:
            state[0] += 1.0
            move, growth = _corrected(rate, state[0], b1, b2)
        for i in range(x.size):
            g = gradient[i] * scale
            first[i], second[i], step = _adam_step(g, first[i], second[i], move, growth, b1, b2)
            x[i] -= step
    for i in range(x.size):
        average[i] += weight * (x[i] - average[i])
    return good
