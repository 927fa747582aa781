"""Stan's draws as ArviZ InferenceData: constrained, unconstrained, log densities, provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from stan_models.gaussian import StanGaussian
from stan_models.types import Array

Plain = int | float | str  # what an attribute of NetCDF holds
LOG_LIK = "log_lik"  # what Stan programs call their pointwise log likelihood, by convention
ArvizData = Any  # az.InferenceData of ArviZ 0.x, xarray.DataTree of ArviZ 1.x: no common class


def make_inference_data(groups: Mapping[str, xr.Dataset]) -> ArvizData:
    """`az.InferenceData` of the groups (ArviZ 0.x), or the `DataTree` of ArviZ 1."""
    if int(az.__version__.split(".")[0]) < 1:
        return az.InferenceData(**dict(groups))  # type: ignore[arg-type]
    return xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})


def variables(
    values: Mapping[str, NDArray], attrs: Mapping[str, Plain] | None = None
) -> xr.Dataset:
    """Arrays of shape (chain, draw, *shape) as a dataset with ArviZ's dimension names."""
    arrays = {name: _array(name, value) for name, value in values.items()}
    return xr.Dataset(arrays, attrs=dict(attrs or {}))


def constrained(
    values: Mapping[str, NDArray], attrs: Mapping[str, Plain] | None = None
) -> dict[str, xr.Dataset]:
    """Group ``posterior``; of ``log_lik``, where there is one, group ``log_likelihood`` instead, as
    ``arviz.from_cmdstanpy`` of ArviZ 0.x has it."""
    posterior = {name: value for name, value in values.items() if name != LOG_LIK}
    groups = {"posterior": variables(posterior, attrs)}
    if LOG_LIK in values:
        groups["log_likelihood"] = variables({LOG_LIK: values[LOG_LIK]})
    return groups


def _array(name: str, value: NDArray) -> xr.DataArray:
    extra = [f"{name}_dim_{i}" for i in range(value.ndim - 2)]
    dims = ["chain", "draw", *extra]
    coords = {dim: np.arange(size) for dim, size in zip(dims, value.shape, strict=True)}
    return xr.DataArray(value, dims=dims, coords=coords)


def unconstrained(theta: Array, names: list[str]) -> xr.Dataset:
    """Variable ``theta`` (chain, draw, unconstrained) labelled with Stan's unconstrained names."""
    dims = ["chain", "draw", "unconstrained"]
    coords = {
        "chain": np.arange(theta.shape[0]),
        "draw": np.arange(theta.shape[1]),
        "unconstrained": names,
    }
    return xr.Dataset({"theta": (dims, theta)}, coords=coords)


def variational_parameters(
    weights: Array, components: list[StanGaussian], names: list[str]
) -> xr.Dataset:
    """The mixture q = Σ_k weight_k N(mean_k, cov_k) on the unconstrained space."""
    return xr.Dataset(
        {
            "weight": (["component"], np.asarray(weights, dtype=float)),
            "mean": (["component", "unconstrained"], np.stack([c.mean for c in components])),
            "cov": (
                ["component", "unconstrained", "unconstrained2"],
                np.stack([c.cov for c in components]),
            ),
        },
        coords={
            "component": np.arange(len(components)),
            "unconstrained": names,
            "unconstrained2": names,
        },
    )


def optimization_trace(trace: list[tuple[int, float]]) -> xr.Dataset:
    """Variable ``elbo`` by ``iteration``."""
    iterations, elbos = zip(*trace, strict=True)
    return xr.Dataset(
        {"elbo": ("iteration", np.array(elbos))}, coords={"iteration": np.array(iterations)}
    )


def provenance(**facts: object) -> dict[str, Plain]:
    """Attributes that NetCDF can hold: numbers and text as they are, the rest as JSON."""
    kept = {name: value for name, value in facts.items() if value is not None}
    return {name: _plain(value) for name, value in kept.items()}


def _plain(value: object) -> Plain:
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str) else json.dumps(value, default=str)
