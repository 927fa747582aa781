"""Draws as ArviZ holds them, whichever its version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["InferenceData", "group_names"]


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
