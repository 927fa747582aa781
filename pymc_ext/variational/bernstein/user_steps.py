"""What ``pm.fit`` lets a user put in place of a flow's own steps: an optimiser, or the normals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray

from pymc_ext.variational.bernstein.approximation import BernsteinApproximation
from pymc_ext.variational.bernstein.training.loops import Normals, Update

Array = NDArray[np.floating]


def normals_from(z: Any) -> Normals:
    """Normals that are a graph's value, such as a shared variable, at every step."""
    draw = pytensor.function([], z)
    return lambda steps: np.stack([np.asarray(draw(), dtype=float) for _ in range(steps)])


def update_from(
    approx: BernsteinApproximation,
    trained: Sequence[Any],
    obj_optimizer: Callable[..., Any],
    max_norm: float | None,
) -> Update:
    """A step of one of PyMC's optimisers, such as ``pm.adam()``, on the vector of parameters.

    The optimiser sees the shared variables of the flow and ``trained`` ones, with their gradients
    as inputs; its own state stays in its shared variables.
    """
    params = [*approx.group.params, *trained]
    gradients = [p.type(f"gradient_of_{p.name}") for p in params]
    kept: Any = gradients
    if max_norm is not None:
        kept = pm.total_norm_constraint(gradients, max_norm)
    with approx.building():
        step = pytensor.function(
            gradients, [], updates=dict(obj_optimizer(kept, params)), **approx.compile_kwargs
        )
    shapes = [np.shape(p.get_value(borrow=True)) for p in params]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def split(vector: Array) -> list[Array]:
        parts = np.split(vector, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def update(vector: Array, gradient: Array) -> None:
        for p, value in zip(params, split(vector), strict=True):
            p.set_value(value.astype(p.dtype))
        step(*(g.astype(p.dtype) for g, p in zip(split(gradient), params, strict=True)))
        vector[...] = np.concatenate([np.ravel(p.get_value(borrow=True)) for p in params])

    return update
