"""The matrix A = I + u vᵀ with u, v (D, r): product, inverse and determinant in O(D r) a vector.

Rows are vectors: ``x`` has shape (N, D) and every function returns A x or A⁻¹ x row by row, as
PyTensor graphs. The small r × r system S = I_r + vᵀu carries both the Woodbury inverse
A⁻¹ = I − u S⁻¹ vᵀ and the determinant lemma det A = det S.
"""

from __future__ import annotations

import pytensor.tensor as pt
from pytensor.tensor import TensorVariable


def capacitance(u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """S = I_r + vᵀu, shape (r, r)."""
    return pt.eye(u.shape[1]) + v.T @ u


def multiply(x: TensorVariable, u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """A x for each row of ``x`` (N, D)."""
    return x + (x @ v) @ u.T


def solve(x: TensorVariable, u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """A⁻¹ x for each row of ``x`` (N, D), by Woodbury."""
    return x - pt.linalg.solve(capacitance(u, v), (x @ v).T).T @ u.T


def log_abs_det(u: TensorVariable, v: TensorVariable) -> TensorVariable:
    """log|det A| = log|det S|, a scalar."""
    return pt.linalg.slogdet(capacitance(u, v))[1]
