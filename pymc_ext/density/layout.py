"""How a PyMC model's free variables lie in one flat unconstrained vector θ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from pymc_ext.density.protocol import element_names


class Entry(NamedTuple):
    """A value variable's name, its place in θ, its shape and dtype; PyMC's ``group.ordering``."""

    name: str
    where: slice
    shape: tuple[int, ...]
    dtype: str


def layout_of(model: pm.Model, rvs: Sequence[TensorVariable]) -> list[Entry]:
    """The value variables of ``rvs``, raveled one after the other."""
    point, begin, layout = model.initial_point(), 0, []
    for rv in rvs:
        name = str(model.rvs_to_values[rv].name)
        value = np.asarray(point[name])
        where = slice(begin, begin + value.size)
        layout.append(Entry(name, where, value.shape, str(value.dtype)))
        begin += value.size
    return layout


def pieces(
    model: pm.Model, layout: Iterable[Entry], flat: TensorVariable
) -> dict[TensorVariable, TensorVariable]:
    """Value variable -> its entries of the flat vector."""
    values = {v.name: v for v in model.value_vars}
    found = {}
    for name, where, shape, dtype in layout:
        piece = flat[where].reshape(shape).astype(dtype)
        found[values[name]] = pt.specify_shape(piece, shape) if shape else piece
    return found


def labelled(
    model: pm.Model, name: str, shape: tuple[int, ...], dims: Sequence[str | None]
) -> list[str]:
    """Names of the elements of an array with these dims, by the model's coords where it has them.

    Those of ``pm.Normal("beta", dims="site")`` are ``beta[north]``, ``beta[south]``. Coords that
    name two elements alike, or are not as many as they (a simplex has one value less on the
    unconstrained space), leave them their numbers.
    """
    axes: list[Sequence[object]] = []
    for axis, length in enumerate(shape):
        known = model.coords.get(dims[axis]) if axis < len(dims) else None
        usable = known is not None and len(known) == len(set(map(str, known))) == length
        axes.append(known if known is not None and usable else range(length))
    return element_names(name, axes)
