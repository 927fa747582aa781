"""The only file of this package that knows ArviZ 0.x (InferenceData) from ArviZ 1.x (DataTree)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import xarray as xr
from numpy.typing import ArrayLike

ArvizData = Any  # az.InferenceData of ArviZ 0.x, xarray.DataTree of ArviZ 1.x: no common class
OLD = int(version("arviz").split(".")[0]) < 1  # ArviZ 1.x takes 1.1 CPU s to import, with its plots


def from_groups(
    groups: Mapping[str, Mapping[str, ArrayLike]],
    coords: Mapping[str, ArrayLike] | None = None,
    dims: Mapping[str, list[str]] | None = None,
) -> ArvizData:
    """InferenceData or DataTree of arrays (chain, draw, *shape) by group and name.

    ``coords`` and ``dims`` as in ``az.from_dict``.
    """
    import arviz as az

    given = {"coords": coords, "dims": dims}
    options: dict[str, Any] = {k: dict(v) for k, v in given.items() if v is not None}
    if OLD:
        return az.from_dict(**groups, **options)  # type: ignore[arg-type]
    return az.from_dict(dict(groups), **options)


def add_group(idata: ArvizData, name: str, group: xr.Dataset) -> None:
    """Add a group of this name, in place; ``idata`` has none of that name."""
    if OLD:
        idata.add_groups({name: group})
    else:
        idata[name] = xr.DataTree(group)


def add_variables(idata: ArvizData, group: str, variables: Mapping[str, xr.Variable]) -> None:
    """Add variables to a group that there is, in place; what is not loaded stays so."""
    for name, variable in variables.items():
        idata[group][name] = variable


def moved(idata: ArvizData, names: Mapping[str, str], to: str) -> ArvizData:
    """The draws, in place, with variables of ``posterior`` in the group ``to`` instead.

    Parameters
    ----------
    idata
        The draws.
    names
        What a variable is to be called there, to what it is called now; with it the dimensions that
        are named after it.
    to
        A group that there is not.
    """
    apart = as_dataset(idata["posterior"])[list(names.values())]
    apart.attrs = {}
    new = {name: called for called, name in names.items()}
    for name in names.values():
        for dim in apart[name].dims:
            of_name = str(dim).startswith(f"{name}_dim_")
            new |= {str(dim): str(dim).replace(name, new[name], 1)} if of_name else {}
    without(idata, names.values())
    add_group(idata, to, apart.rename(new))
    return idata


def without(idata: ArvizData, names: Iterable[str]) -> ArvizData:
    """The draws, in place, with none of these variables in ``posterior``; some may be absent."""
    return with_posterior(
        idata, as_dataset(idata["posterior"]).drop_vars(list(names), errors="ignore")
    )


def with_posterior(idata: ArvizData, posterior: xr.Dataset) -> ArvizData:
    """The draws, in place, with these as their group ``posterior``."""
    if OLD:
        idata.posterior = posterior
    else:
        idata["posterior"] = xr.DataTree(posterior)
    return idata


def as_dataset(group: ArvizData) -> xr.Dataset:
    """The variables of one group, which ArviZ 1.x holds as a DataTree."""
    return group if OLD else group.to_dataset()
