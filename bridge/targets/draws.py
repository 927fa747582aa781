"""Draws as ArviZ holds them, whichever its version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pymc_ext.density.protocol import element_names

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["InferenceData", "group_names", "labels_by_coords"]


class InferenceData(Protocol):
    """`arviz.InferenceData` of ArviZ 0.x, or the `xarray.DataTree` of ArviZ 1: groups by name."""

    def __getitem__(self, group: str, /) -> xr.Dataset:
        """The variables of ``posterior``, ``sample_stats`` and so on."""

    def to_netcdf(self, filename: str, /) -> object:
        """Write all groups to a file."""


def group_names(idata: InferenceData) -> list[str]:
    """Names of the groups: a method in ArviZ 0.x, paths such as ``/posterior`` in ArviZ 1."""
    groups = idata.groups  # type: ignore[attr-defined]
    names = [name.strip("/") for name in (groups() if callable(groups) else groups)]
    return [name for name in names if name]  # the root of a tree is none


def labels_by_coords(x: xr.DataArray, from_one: bool = False) -> list[str]:
    """Names of the scalars of a variable (chain, draw, *shape), by its coords; by numbers where it
    has none or they name two alike, or from 1 on where it is a Stan program's (``from_one``)."""
    axes: list[Iterable[object]] = []
    for dim in x.dims[2:]:
        known = x[dim].to_index() if dim in x.coords and not from_one else None
        numbers = range(1, x.sizes[dim] + 1) if from_one else range(x.sizes[dim])
        axes.append(numbers if known is None or not known.is_unique else known)
    return element_names(str(x.name), axes)
