"""What a comparison left in a folder: its records, stored draws and traces of the objective."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bridge.comparison.folder import records_file
from bridge.comparison.records import Records
from bridge.errors import RecordsError
from bridge.methods.table import METHODS
from pymc_ext.maths.types import Array

__all__ = ["Trace", "Traces", "open_group", "read_records", "read_traces", "scalars"]

_log = logging.getLogger(__name__)
Trace = tuple[NDArray[np.integer], Array]  # iterations and losses, (n,) each


class Traces(NamedTuple):
    """What the losses of a method are, and those of each seed."""

    objective: str
    seeds: list[Trace]


def read_records(folder: Path) -> pd.DataFrame:
    """The runs that a comparison or sweep left in ``folder``, all of the same settings.

    By posterior, method in the order of `bridge.methods.table.METHODS`, and seed. ``cpu_seconds``,
    which do not depend on what else the machine had to do, are wall seconds in records of versions
    that did not take them.

    Where there are runs of several settings (draws, database), those of the settings with most runs
    are taken; ``attrs["left_out"]`` counts the others.

    Raises
    ------
    RecordsError
        There are no records.
    """
    path = records_file(folder)
    frame = Records(path).frame()
    if frame.empty:
        raise RecordsError(
            f"{path} holds no run yet: `python -m bridge sweep --out {folder}` makes some"
        )
    counts = frame["settings"].value_counts()
    chosen = frame[frame["settings"] == counts.index[0]]
    order = {name: number for number, name in enumerate(METHODS)}
    chosen = chosen.sort_values(
        ["case_name", "method"],
        key=lambda c: c if c.name == "case_name" else c.map(order).fillna(len(order)),
        kind="stable",
        ignore_index=True,
    )
    chosen["cpu_seconds"] = _fit_seconds(chosen)
    for name in _changed(chosen):
        _log.warning("runs of %s before and after it changed are in one report: make the "
                     "comparison again with all methods, or in another folder", name)  # fmt: skip
    chosen.attrs["left_out"] = len(frame) - len(chosen)
    if len(counts) > 1:
        _log.warning("reporting the runs with settings %s; left out: %d runs of other settings",
                     counts.index[0], chosen.attrs["left_out"])  # fmt: skip
    return chosen


def _changed(frame: pd.DataFrame) -> list[str]:
    """Cases whose runs are of different programs, data, ports or reference draws."""
    if "case_sha256" not in frame:  # of an older version
        return []
    kinds = frame.groupby("case_name")["case_sha256"].nunique()
    return [str(name) for name in kinds.index[kinds > 1]]


def _fit_seconds(frame: pd.DataFrame) -> pd.Series:
    """CPU seconds of each fit; wall seconds in records of versions that did not take them."""
    columns = frame.reindex(columns=["cpu_seconds", "seconds"])
    cpu, wall = (pd.to_numeric(columns[name], errors="coerce") for name in columns)
    return cpu.fillna(wall)


def open_group(path: Path, group: str) -> xr.Dataset:
    """One group of a stored run."""
    try:
        return xr.open_dataset(path, group=group, engine="h5netcdf")
    except (OSError, ValueError) as error:
        raise RecordsError(
            f"cannot read the stored draws {path}: {error}; they belong to a recorded run: give "
            "another folder with --out, or remove this one to run everything again"
        ) from error


def scalars(dataset: xr.Dataset) -> Iterator[tuple[str, NDArray]]:
    """(label, draws) of every scalar of a posterior group, labels as ArviZ writes them."""
    for name, variable in dataset.data_vars.items():
        values = variable.values.reshape(-1, *variable.shape[2:])
        for index in np.ndindex(values.shape[1:]):
            label = f"{name}[{', '.join(map(str, index))}]" if index else str(name)
            yield label, values[(slice(None), *index)]


def read_traces(runs: pd.DataFrame, folder: Path) -> dict[str, Traces]:
    """Stored losses of each seed by method, of the methods that have some."""
    traces: dict[str, Traces] = {}
    columns = runs.reindex(columns=["method", "draws_file", "objective"])
    for method, file, objective in columns.itertuples(index=False):
        data = open_group(folder / file, "optimization_trace")
        if "loss" in data:
            values = (data["iteration"].values, data["loss"].values)
            of = objective if isinstance(objective, str) else _objective(method)
            traces.setdefault(method, Traces(of, [])).seeds.append(values)
    return traces


def _objective(method: str) -> str:
    """Of records of versions that did not say."""
    return METHODS[method].objective if method in METHODS else "loss"
