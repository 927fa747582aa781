"""Checks of the arrays users pass, and draws as InferenceData."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import ArrayLike
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.tensor import TensorVariable

from pymc_ext.arviz_versions import ArvizData, from_groups

Matrix = np.ndarray | TensorVariable  # TensorVariable: a variable of a model, or `pm.Data`
Inputs = ArrayLike | TensorVariable  # what users pass as a matrix
OWN_NAMES = ("chain", "draw", "class", "f", "mean", "y")  # of sample_predictions


def draw_latents(rng: np.random.Generator, mu: np.ndarray, cov: np.ndarray, n: int) -> np.ndarray:
    """n draws of N(mu, cov), (n, n*) or (n, n*, L); cov may be singular."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    z = rng.standard_normal((n, *mu.T.shape))
    return (
        mu + np.moveaxis(np.einsum("...ij,n...j->n...i", root, z), 1, -1)
        if mu.ndim > 1
        else (mu + z @ root.T)
    )


def posterior_draws(idata: ArvizData | xr.Dataset) -> xr.Dataset:
    """The group posterior, or the data set given; raises ValueError where there are no draws."""
    found = idata if isinstance(idata, xr.Dataset) else getattr(idata, "posterior", None)
    if found is None or not {"chain", "draw"} <= set(found.dims):
        raise ValueError(
            "idata must hold posterior draws (chain, draw): pass what pm.sample returned, got "
            f"{type(idata).__name__} without them"
        )
    return found


def row_labels(model: pm.Model, dims: str, n: int) -> dict[str, np.ndarray]:
    """Coords of n rows where the model has that dimension.

    Raises
    ------
    ValueError
        Its length differs, or the name is one of the result's own.
    """
    if dims in OWN_NAMES:
        raise ValueError(f"dims must not be {dims!r}, a name of the result's own: pass another")
    labels = model.coords.get(dims)
    if labels is None:
        return {}
    if len(labels) != n:
        raise ValueError(
            f"dimension {dims!r} of the model has {len(labels)} entries, Xnew has {n} rows: pass "
            "dims= another name"
        )
    return {dims: np.asarray(labels)}


def predictions(
    variables: dict[str, np.ndarray], rows: str, coords: Mapping[str, np.ndarray]
) -> ArvizData:
    """Group posterior_predictive of arrays (chain, draw, n*) or (chain, draw, n*, K)."""
    dims = {name: [rows, "class"][: v.ndim - 2] for name, v in variables.items()}
    return from_groups({"posterior_predictive": variables}, dims=dims, coords=dict(coords))


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
