"""Checks of the arrays users pass."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.tensor import TensorVariable

from pymc_ext.maths.types import Array

Matrix = Array | TensorVariable  # TensorVariable: a variable of a model, or `pm.Data`
Inputs = ArrayLike | TensorVariable  # what users pass as a matrix


def as_matrix(X: Inputs, name: str, columns: int | None = None) -> Matrix:
    """A (n, d) variable, or copy of an array; raises ValueError on other shapes and on NaN."""
    if np.ma.is_masked(X):
        X = np.ma.filled(np.ma.asarray(X, dtype=float), np.nan)
    if not isinstance(X, TensorVariable):
        X = np.array(X, dtype=float)  # the caller's may change later
        if X.ndim == 2 and not np.isfinite(X).all():
            bad = np.argwhere(~np.isfinite(X))[0]
            raise ValueError(f"{name} must be finite, got {X[tuple(bad)]} in row {bad[0]}")
    if X.ndim != 2:
        shape = X.shape if isinstance(X, np.ndarray) else f"{X.ndim} axes"
        column = f"; use {name}[:, None] for d = 1" if X.ndim == 1 else ""
        raise ValueError(f"{name} must be 2-D (n, d), got {shape}{column}")
    if n_rows(X) == 0 and name != "Xnew":
        raise ValueError(f"{name} must have at least one row, got shape {X.shape}")
    if columns is not None and n_columns(X) not in (None, columns):
        raise ValueError(f"{name} must have {columns} columns as X, got {n_columns(X)}")
    return X


def fixed_columns(X: Matrix) -> Matrix:
    """X, its columns checked at run time too: `pm.set_data` may bring others."""
    return pt.specify_shape(X, (None, n_columns(X))) if isinstance(X, SharedVariable) else X


def n_rows(x: Matrix) -> int | None:
    return _length(x, 0)


def n_columns(x: Matrix) -> int | None:
    return _length(x, 1)


def _length(x: Matrix, axis: int) -> int | None:
    held = isinstance(x, SharedVariable)
    value = cast("SharedVariable", x).get_value(borrow=True) if held else x
    return value.shape[axis] if isinstance(value, np.ndarray) else None
