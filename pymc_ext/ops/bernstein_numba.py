"""The kernel of ``bernstein.c`` for PyTensor's numba backend."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numba
import numpy as np

from pymc_ext.pytensor_versions import register_funcify_and_cache_key

# PyTensor keeps compiled kernels on disk under a key that must change with the code
_SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
_inline = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy")


@_inline
def _basis(x, n, ratio, b):
    r = math.exp(-abs(x))
    value = math.exp(-n * math.log1p(r))
    for j in range(n):
        b[j if x <= 0.0 else n - j] = value
        value *= ratio[j] * r
    b[n if x <= 0.0 else 0] = value
    return r / (1.0 + r) if x <= 0.0 else 1.0 / (1.0 + r)


@_inline
def _log_sigmoid_slope(x):
    a = abs(x)
    return -a - 2.0 * math.log1p(math.exp(-a))


@_inline
def _ratios(n):
    ratio = np.empty(n)
    for j in range(n):
        ratio[j] = (n - j) / (j + 1)
    return ratio


@_inline
def _small_exponential(raw):
    # from above so that NaN stays NaN
    return math.exp(-708.0 if abs(raw) > 708.0 else -abs(raw))


@_inline
def _check(x, raw):
    if x.shape[0] != raw.shape[0] or raw.shape[1] == 0:
        raise ValueError("x must have one entry for each row of raw and raw at least one column")


@_inline
def _forward(x, raw):
    _check(x, raw)
    N, M = raw.shape
    value, log_derivative = np.empty(N), np.empty(N)
    ratio, b = _ratios(M - 1), np.empty(M)
    for i in range(N):
        u = _basis(x[i], M - 1, ratio, b)
        total, sum_value, after = 0.0, 0.0, 0.0
        for k in range(M - 1, -1, -1):
            inc = math.log1p(_small_exponential(raw[i, k]))
            inc += raw[i, k] if raw[i, k] > 0.0 else 0.0
            sum_value += inc * (after + u * b[k])
            total += inc * b[k]
            after += b[k]
        value[i] = sum_value
        log_derivative[i] = math.log(M * total) + _log_sigmoid_slope(x[i])
    return value, log_derivative


@_inline
def _backward(x, raw, g_value, g_log):
    _check(x, raw)
    N, M = raw.shape
    gx, graw = np.empty(N), np.empty((N, M))
    ratio, b = _ratios(M - 1), np.empty(M)
    for i in range(N):
        u = _basis(x[i], M - 1, ratio, b)
        total, first, after = 0.0, 0.0, 0.0
        for k in range(M - 1, -1, -1):
            e = _small_exponential(raw[i, k])
            inc = math.log1p(e) + (raw[i, k] if raw[i, k] > 0.0 else 0.0)
            graw[i, k] = g_value[i] * (after + u * b[k])
            total += inc * b[k]
            first += inc * b[k] * (k + 1 - (M + 1) * u)
            after += b[k]
        for k in range(M):
            e = _small_exponential(raw[i, k])
            slope = (1.0 if raw[i, k] > 0.0 else e) / (1.0 + e)
            graw[i, k] = (graw[i, k] + g_log[i] / total * b[k]) * slope
        gx[i] = g_value[i] * M * math.exp(_log_sigmoid_slope(x[i])) * total
        gx[i] += g_log[i] * first / total
    return gx, graw


def register(forward_op: type, backward_op: type) -> None:
    """Teach PyTensor's numba backend the two Ops."""
    for op_type, kernel in ((forward_op, _forward), (backward_op, _backward)):

        @register_funcify_and_cache_key(op_type)
        def funcify(op, node=None, *, _kernel=kernel, **kwargs):
            return _kernel, f"{type(op).__name__}-{_SOURCE}"
