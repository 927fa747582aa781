"""What is asked of a model and of arguments before a fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.basic import Variable
from pytensor.tensor import TensorVariable

from pymc_ext.variational.plugin.types import Hyperparameters, Start

INSTEAD = {  # of keywords that a family lacks
    "hyperparameters": "it gives every variable a law; px.LaplaceVI, px.MixedVI and px.DiagonalVI "
    "learn some as point values",
    "n": "give it to pm.fit(n, method=...)",
    "seed": "give random_seed=",
}


def require_double_precision(inference: object) -> None:
    """ValueError under PyTensor's floatX='float32'."""
    if pytensor.config.floatX != "float64":
        raise ValueError(
            f"{type(inference).__name__} works in double precision: set PyTensor's floatX to "
            f"'float64', got {pytensor.config.floatX!r}"
        )


def check_start(model: pm.Model, start: Start | None) -> None:
    """Raise ValueError unless ``start`` names free variables and has their shapes, TypeError where
    it is no mapping."""
    if not isinstance(start, Mapping | None):
        raise TypeError(
            f"start must be a mapping of variable names to values, such as {{'mu': 0.5}}, got "
            f"{start!r}; the model has {[rv.name for rv in model.free_RVs]}"
        )
    free = {rv.name: rv.type.shape for rv in model.free_RVs}
    values = {model.rvs_to_values[rv].name for rv in model.free_RVs}
    for name, value in (start or {}).items():
        if name in free:
            shape, got = free[name], np.shape(value)
            if len(shape) != len(got) or any(
                n not in (None, m) for n, m in zip(shape, got, strict=True)
            ):
                raise ValueError(f"start of {name!r} must have shape {shape}, got {got}")
        elif name not in values:
            raise ValueError(
                f"start must name free variables of the model, got {name!r}; the model has "
                f"{list(free)}"
            )


def resolve_hyperparameters(
    model: pm.Model, hyperparameters: Hyperparameters
) -> list[TensorVariable]:
    """The model's free variables named in ``hyperparameters`` (variables or names), model order."""
    if isinstance(hyperparameters, str):
        hyperparameters = [hyperparameters]
    if isinstance(hyperparameters, Variable) or not isinstance(hyperparameters, Iterable):
        raise TypeError(
            "hyperparameters must be a sequence of free variables or of their names, got "
            f"{hyperparameters!r}"
        )
    names = [h if isinstance(h, str) else getattr(h, "name", repr(h)) for h in hyperparameters]
    free = [rv.name for rv in model.free_RVs]
    unknown = [name for name in names if name not in free]
    if unknown:
        raise ValueError(
            f"hyperparameters must be free variables of the model, got {unknown}; the model has "
            f"{free}"
        )
    if names and set(names) == set(free):
        raise ValueError(
            f"every free variable {free} is listed as a hyperparameter: leave at least one to be "
            "approximated, or use pm.find_MAP"
        )
    return [rv for rv in model.free_RVs if rv.name in names]
