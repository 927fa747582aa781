"""Importance resampling: the draws of an approximation as draws of the posterior."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from bridge.methods.base import Fit, Problem
from bridge.targets.draws import InferenceData
from stan_models.inference_data import make_inference_data

__all__ = ["resampled"]


def resampled(
    problem: Problem, found: Fit, weights: np.ndarray, draws: int, seed: int
) -> InferenceData:
    """Draws with replacement, in proportion to their weights.

    Parameters
    ----------
    problem
        Whose posterior it is; of a PyMC model the draws get the dims and coords.
    found
        Draws of an approximation.
    weights
        One a draw, of any shape, summing to 1.
    draws
        How many to return, in one chain.
    seed
        Of the resampling.

    Returns
    -------
    InferenceData
        ``posterior`` on the constrained space, ``sample_stats`` with ``lp``.
    """
    rng = np.random.default_rng([seed, 1])
    rows = rng.choice(weights.size, draws, p=weights.ravel())
    theta = found.theta.reshape(-1, found.theta.shape[-1])[rows]
    values = found.target.constrain(theta)
    posterior = _dataset({name: value[None] for name, value in values.items()}, problem)
    stats = _dataset({"lp": found.lp.ravel()[rows][None]}, problem)
    return make_inference_data({"posterior": posterior, "sample_stats": stats})


def _dataset(values: Mapping[str, np.ndarray], problem: Problem) -> xr.Dataset:
    """Arrays (chain, draw, *shape) with the dims and coords of a PyMC model."""
    model = None if problem.has_program else problem.model
    known = {} if model is None else model.named_vars_to_dims
    coords = {} if model is None else {k: v for k, v in model.coords.items() if v is not None}
    arrays = {}
    for name, value in values.items():
        named = known.get(name) or [None] * (value.ndim - 2)
        labels = [dim or f"{name}_dim_{i}" for i, dim in enumerate(named)]
        arrays[name] = (["chain", "draw", *labels], value)
    sizes = dict(zip(("chain", "draw"), next(iter(values.values())).shape[:2], strict=True))
    dataset = xr.Dataset(arrays, coords={dim: np.arange(size) for dim, size in sizes.items()})
    used = {dim: list(coords[dim]) for dim in dataset.dims if dim in coords}
    return dataset.assign_coords(used)
