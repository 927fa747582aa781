"""Unconstrained values of draws of a model's free variables, as a function of all at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytensor
from pytensor.graph.replace import clone_replace

from pymc_ext.maths.types import Array
from pymc_ext.over_draws import over_draws
from pymc_ext.pytensor_modes import run_or_compile

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.compile import Function
    from pytensor.tensor import TensorVariable

    from pymc_ext.pymc_versions import Transform

__all__ = ["flat_unconstrained", "unconstrain_function"]


def unconstrain_function(model: pm.Model) -> Function:
    """From values of ``model.free_RVs`` in their order, (N, *shape) each, to their unconstrained
    ones, (N, entries) each; not finite outside the support."""
    rvs = model.free_RVs
    inputs = {rv: rv.type.clone()(name=rv.name) for rv in rvs}
    values = clone_replace([_forward(rv, model.rvs_to_transforms[rv]) for rv in rvs], inputs)
    # not by pt.tensor, which takes a name such as 1|group for a type that is misspelt
    batched = {
        x: x.type.clone(shape=(None, *x.type.shape))(name=f"{x.name}_draws")
        for x in inputs.values()
    }
    rows = next(iter(batched.values())).shape[0]
    flat = [v.reshape((rows, -1)) for v in over_draws(values, batched, rows)]
    inputs_of_rows = list(batched.values())
    compiled = partial(pytensor.function, inputs_of_rows, flat, on_unused_input="ignore")
    return run_or_compile(compiled)


def flat_unconstrained(names: tuple[str, ...], parts: Sequence[Array]) -> Array:
    """The parts of these variables side by side, (N, D).

    Raises
    ------
    ValueError
        A draw lies outside the support.
    """
    for name, part in zip(names, parts, strict=True):
        bad = int(np.sum(~np.isfinite(part).all(axis=1)))
        if bad:
            raise ValueError(f"{bad} of {len(part)} draws of {name} lie outside its support")
    return np.concatenate([np.asarray(part, float) for part in parts], axis=1)


def _forward(rv: TensorVariable, transform: Transform | None) -> TensorVariable:
    return rv if transform is None else transform.forward(rv, *rv.owner.inputs)
