"""The real numbers that draws are judged by: of arrays by name, columns that are always finite."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density.protocol import Labels
from pymc_ext.maths.types import Array


def scalars(values: Mapping[str, NDArray], shape: tuple[int, ...]) -> dict[str, Array]:
    """Real values by name (chains · draws, *size) by chain, (chains, draws, *size) each."""
    real = {k: np.asarray(v) for k, v in values.items() if np.asarray(v).dtype.kind == "f"}
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in real.items()}


def columns_of(values: Mapping[str, Array], labels: Labels) -> tuple[list[Array], list[str]]:
    """Those that are always finite of values (chains, draws, *shape), as (chains, draws, K) a name,
    and their names."""
    columns, names = list[Array](), list[str]()
    for name, value in values.items():
        flat = value.reshape(*value.shape[:2], -1)
        defined = np.isfinite(flat).all(axis=(0, 1))
        columns.append(flat[..., defined])
        every = labels(name, value.shape[2:])
        names += [every[i] for i in np.flatnonzero(defined)]
    return columns, names


def once(values: Array, coordinates: int) -> list[int]:
    """Places of values (chains, draws, K) without those that are one of the first ``coordinates``
    again, as parameters without bounds are."""
    first = {value: i for i, value in enumerate(values[0, 0, :coordinates])}
    twins = ((k, first.get(values[0, 0, k])) for k in range(coordinates, values.shape[-1]))
    again = {
        k for k, i in twins if i is not None and np.array_equal(values[..., k], values[..., i])
    }
    return [k for k in range(values.shape[-1]) if k not in again]
