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


def entry_names(layout: Iterable[tuple[str, slice, tuple[int, ...], str]]) -> list[str]:
    """Name of each entry of θ: ``"mu"``, ``"theta[3]"``, ``"log_sd_log__"``."""
    return [entry for name, _, shape, _ in layout for entry in element_names(name, shape)]
