"""The kernel of ``bernstein.c`` in vectorised NumPy: reference, and fallback without a compiler.

Notation as there: M the order, n = M - 1, b_j the basis of degree n, inc the increments.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from pymc_ext.maths.types import Array

MAX_EXPONENT = 708.0  # e^-708 is the smallest increment, so that none is exactly zero


def ratios(n: int) -> Array:
    """(n - j) / (j + 1) for j = 0..n-1, the factors between neighbouring binomials."""
    j = np.arange(n)
    return (n - j) / (j + 1)


def basis(x: Array, n: int) -> Array:
    """b_j = binom(n, j) u^j (1-u)^(n-j), u = sigmoid(x); (N,) -> (N, n + 1)."""
    r = np.exp(-np.abs(x))
    first = np.exp(-n * np.log1p(r))[:, None]
    b = np.cumprod(np.hstack([first, r[:, None] * ratios(n)]), axis=1)
    return np.where(x[:, None] <= 0, b, b[:, ::-1])


def softplus_and_slope(raw: Array) -> tuple[Array, Array]:
    """log(1 + e^raw) and its derivative; the first never below e^-708."""
    e = np.exp(-np.minimum(np.abs(raw), MAX_EXPONENT))
    return np.maximum(raw, 0) + np.log1p(e), np.where(raw > 0, 1.0, e) / (1 + e)


def log_sigmoid_slope(x: Array) -> Array:
    """log u (1 - u) with u = sigmoid(x)."""
    a = np.abs(x)
    return -a - 2 * np.log1p(np.exp(-a))


def survival(b: Array, x: Array) -> Array:
    """P(Bin(M, u) >= k) for k = 1..M from the basis of degree M - 1."""
    after = np.zeros_like(b)
    after[:, :-1] = np.cumsum(b[:, :0:-1], axis=1)[:, ::-1]
    return after + expit(x)[:, None] * b


def bernstein(x: Array, raw: Array) -> tuple[Array, Array]:
    """Value and log derivative with respect to x; (N,), (N, M) -> (N,), (N,)."""
    M = raw.shape[1]
    b = basis(x, M - 1)
    increments, _ = softplus_and_slope(raw)
    with np.errstate(divide="ignore"):
        log_sum = np.log(M * np.sum(increments * b, axis=1))
    return np.sum(increments * survival(b, x), axis=1), log_sum + log_sigmoid_slope(x)


def bernstein_pullback(x: Array, raw: Array, g_value: Array, g_log: Array) -> tuple[Array, Array]:
    """Cotangents of (value, log derivative) to cotangents of (x, raw)."""
    M = raw.shape[1]
    b = basis(x, M - 1)
    increments, slope = softplus_and_slope(raw)
    q = increments * b
    total = np.sum(q, axis=1)
    first = np.sum(q * (np.arange(1, M + 1) - (M + 1) * expit(x)[:, None]), axis=1)
    gx = g_value * M * np.exp(log_sigmoid_slope(x)) * total + g_log * first / total
    return gx, (g_value[:, None] * survival(b, x) + (g_log / total)[:, None] * b) * slope
