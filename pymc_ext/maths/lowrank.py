"""The matrix A = I + u vᵀ with u, v (..., D, r): product, inverse and determinant in O(D r).

Rows are vectors: ``x`` has shape (..., N, D) and every function returns A x or A⁻¹ x row by row, as
PyTensor graphs; leading axes are batches. The small r × r matrix S = I_r + vᵀu carries both the
Woodbury inverse A⁻¹ = I − u S⁻¹ vᵀ and the determinant lemma det A = det S.
"""

from __future__ import annotations

import pytensor.tensor as pt
from pytensor.tensor import TensorVariable


def transpose(x: TensorVariable) -> TensorVariable:
    """Transpose of the last two axes."""
    return pt.swapaxes(x, -1, -2)


def capacitance(u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """S = I_r + vᵀu, shape (..., r, r)."""
    return pt.eye(u.shape[-1]) + transpose(v) @ u


def multiply(x: TensorVariable, u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """A x for each row of ``x``."""
    return x + (x @ v) @ transpose(u)


def solve(x: TensorVariable, u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """A⁻¹ x for each row of ``x``, by Woodbury."""
    weights = pt.linalg.solve(capacitance(u, v), transpose(x @ v), b_ndim=2)
    return x - transpose(weights) @ transpose(u)


def log_abs_det(u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """log|det A| = log|det S|, shape of the batch."""
    return pt.linalg.slogdet(capacitance(u, v))[1]
