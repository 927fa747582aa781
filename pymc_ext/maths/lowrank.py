"""The matrix A = I + u vᵀ with u, v (..., D, r): product, inverse and determinant in O(D r).

Rows are vectors: ``x`` has shape (..., N, D) and every function returns A x or A⁻¹ x row by row;
leading axes are batches. The small r × r matrix S = I_r + vᵀu carries both the Woodbury inverse
A⁻¹ = I − u S⁻¹ vᵀ and the determinant lemma det A = det S. Aᵀ is the same with u and v exchanged.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.types import Array


def transpose(x: Array) -> Array:
    """Transpose of the last two axes."""
    return np.swapaxes(x, -1, -2)


def capacitance(u: Array, v: Array) -> Array:
    """S = I_r + vᵀu, shape (..., r, r)."""
    return np.eye(u.shape[-1]) + transpose(v) @ u


def multiply(x: Array, u: Array, v: Array) -> Array:
    """A x for each row of ``x``."""
    return x + (x @ v) @ transpose(u)


def solve(x: Array, u: Array, v: Array) -> Array:
    """A⁻¹ x for each row of ``x``, by Woodbury."""
    weights = np.linalg.solve(capacitance(u, v), transpose(x @ v))
    return x - transpose(weights) @ transpose(u)


def log_abs_det(u: Array, v: Array) -> Array:
    """log|det A| = log|det S|, shape of the batch."""
    return np.linalg.slogdet(capacitance(u, v))[1]
