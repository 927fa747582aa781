"""Draws of the latents at new inputs, and of predictions, as InferenceData."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from pymc_ext.arviz_versions import ArvizData, from_groups
from pymc_ext.gp.points import Point, function_of, numbers_at
from pymc_ext.maths.types import Array

OWN_NAMES = ("chain", "draw", "class", "f", "mean", "y")  # of sample_predictions


def latents_at(
    outputs: list[TensorVariable],
    point: Point,
    model: pm.Model,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Draws of f (1, draws, n*) and φ of each, for graphs of f's mean and covariance and of φ."""
    mu, cov, phi = numbers_at(outputs, point, model)
    return draw_latents(rng, mu, cov, draws)[None], np.broadcast_to(phi, (1, draws, len(phi)))


def latents_over(
    outputs: list[TensorVariable],
    posterior: xr.Dataset,
    model: pm.Model,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """The same, (chain, draw, n*) and (chain, draw, P), one for each draw of hyperparameters."""
    above = set(ancestors(outputs))
    given = [v for v in model.free_RVs if v in above and v.name in posterior]
    function = function_of(
        outputs, given, model, "idata.posterior",
        lambda names: f"idata.posterior lacks {names}: pass draws of all hyperparameters, got "
        f"{sorted(map(str, posterior.data_vars))}",
        edges=True,  # rounded draws
    )  # fmt: skip
    values = {v.name: np.asarray(posterior[v.name]) for v in given}
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    f, phi = [], []
    for index in np.ndindex(shape):
        mu, cov, p = function({name: v[index] for name, v in values.items()})
        f.append(draw_latents(rng, mu, cov, 1)[0])
        phi.append(p)
    return np.reshape(f, (*shape, *f[0].shape)), np.reshape(phi, (*shape, -1))


def draw_latents(rng: np.random.Generator, mu: Array, cov: Array, n: int) -> Array:
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


def row_labels(model: pm.Model, dims: str, n: int) -> dict[str, NDArray]:
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


def predictions(variables: dict[str, Array], rows: str, coords: Mapping[str, NDArray]) -> ArvizData:
    """Group posterior_predictive of arrays (chain, draw, n*) or (chain, draw, n*, K)."""
    dims = {name: [rows, "class"][: v.ndim - 2] for name, v in variables.items()}
    return from_groups({"posterior_predictive": variables}, dims=dims, coords=dict(coords))
