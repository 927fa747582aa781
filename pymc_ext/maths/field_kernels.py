"""A field's own law at one point after the other, as chains ask for it, compiled by numba and kept
on disk: the factor B from its rows at the places of a grid, products with it, and derivatives.

B (b + 1 + m, n) has its band, and the rows of a border of m, as `pymc_ext.maths.bordered` has them;
of a grid's rows its diagonal is in logs and the rest in shares of it.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pymc_ext.maths.grid_kernels import between, slopes_between

_kernel = numba.njit(error_model="numpy", cache=True, nogil=True)
_inline = numba.njit(error_model="numpy", cache=True)


@_inline
def _below(width, border, n, j):
    """How many entries of column j of B are below its diagonal in the band."""
    return min(width - 1, n - border - 1 - j) if j < n - border else 0


@_kernel
def forward(axes, starts, nearest, middle, entries, width, border, y, x):
    """x̂ + B⁻ᵀ x (n,), B⁻ᵀ x, B, and log det B, at y (1, g); x (n,)."""
    n = x.size
    B = between(axes, starts, nearest, entries, y).reshape(-1, n)
    log_det = 0.0
    for j in range(n):
        log_det += B[0, j]
        B[0, j] = math.exp(B[0, j])
        for k in range(1, B.shape[0]):
            B[k, j] *= B[0, j]
    solved = x.copy()
    for j in range(n - 1, -1, -1):
        for k in range(1, _below(width, border, n, j) + 1):
            solved[j] -= B[k, j] * solved[j + k]
        for i in range(max(n - border, j + 1), n):
            solved[j] -= B[width + i - (n - border), j] * solved[i]
        solved[j] /= B[0, j]
    return between(axes, starts, nearest, middle, y)[0] + solved, solved, B, log_det


@_kernel
def pullback(axes, starts, nearest, middle, entries, width, border, y, B, drawn, score):
    """B⁻¹ s (n,), which is ∂/∂x, and ∂/∂y (g,), of log p̃ − log det B, whose score in θ is s (n,);
    ``drawn`` is B⁻ᵀ x."""
    n = score.size
    solved = score.copy()
    for j in range(n):
        solved[j] /= B[0, j]
        for k in range(1, _below(width, border, n, j) + 1):
            solved[j + k] -= B[k, j] * solved[j]
        for i in range(max(n - border, j + 1), n):
            solved[i] -= B[width + i - (n - border), j] * solved[j]
    by = np.zeros(B.shape)  # by logs of the diagonal, and shares of it
    for j in range(n):
        by[0, j] = -drawn[j] * solved[j] * B[0, j] - 1.0
        for k in range(1, _below(width, border, n, j) + 1):
            by[k, j] = -drawn[j + k] * solved[j]
        for i in range(max(n - border, j + 1), n):
            by[width + i - (n - border), j] = -drawn[i] * solved[j]
        for k in range(1, B.shape[0]):
            by[0, j] += by[k, j] * B[k, j]
            by[k, j] *= B[0, j]
    by_y = slopes_between(axes, starts, nearest, middle, score.reshape(1, -1), y)[0]
    return solved, by_y + slopes_between(axes, starts, nearest, entries, by.reshape(1, -1), y)[0]
