"""The draws of a run on disk: NetCDF, complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bridge.errors import DiskFullError
from bridge.methods.method import Fit

_MAX_STORED_DRAWS = 4_000  # of a run, evenly spaced; as many as NUTS makes by default
_MAX_STORED_LOSSES = 2_000  # block means: four times what a page shows of a curve
_MARGIN = 1_000_000  # bytes: headers, and what other workers write meanwhile


def store(fit: Fit, path: Path) -> None:
    """Write the groups posterior, sample_stats and optimization_trace of a fit.

    Raises
    ------
    DiskFullError
        There is no room for them.
    """
    groups = _groups(fit)
    path.parent.mkdir(parents=True, exist_ok=True)
    _require_room(path.parent, sum(data.nbytes for data in groups.values()))
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".nc.part")
    os.close(handle)
    try:
        modes: tuple[Literal["w", "a"], ...] = ("w", "a", "a")
        for mode, (group, data) in zip(modes, groups.items(), strict=True):
            data.to_netcdf(name, group=group, mode=mode, engine="h5netcdf")
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def _require_room(folder: Path, needed: int) -> None:
    """Ask before writing: HDF5 ends the whole process where a file it has open cannot grow."""
    free = shutil.disk_usage(folder).free
    if free < needed + _MARGIN:
        raise DiskFullError(
            f"no room for the draws of a run: {folder} has {free / 1e6:.1f} MB left, expected "
            f"{(needed + _MARGIN) / 1e6:.1f}; make room and give the same command again, it goes "
            "on where it stopped"
        )


def _groups(fit: Fit) -> dict[str, xr.Dataset]:
    chains, n, dimension = fit.theta.shape
    step = max(1, -(-chains * n // _MAX_STORED_DRAWS))
    theta, lp = fit.theta[:, ::step], fit.lp[:, ::step]
    flat = fit.target.constrain(theta.reshape(-1, dimension))
    posterior = {
        k: _labelled(k, v.reshape(*theta.shape[:2], *v.shape[1:])) for k, v in flat.items()
    }
    stats = {"lp": (("chain", "draw"), lp)}
    if fit.lq is not None:
        stats["lq"] = (("chain", "draw"), fit.lq[:, ::step])
    return {
        "posterior": xr.Dataset(posterior),
        "sample_stats": xr.Dataset(stats),
        "optimization_trace": xr.Dataset(_trace(fit)),
    }


def _labelled(name: str, values: NDArray) -> tuple[tuple[str, ...], NDArray]:
    return ("chain", "draw", *(f"{name}_dim_{i}" for i in range(values.ndim - 2))), values


def _trace(fit: Fit) -> dict[str, tuple[str, NDArray]]:
    """Block means of the losses, each with the iteration its block starts at."""
    losses, iterations = fit.losses, fit.loss_iterations
    if losses is None:
        return {}
    if iterations is None:
        iterations = np.arange(losses.size)
    size = -(-losses.size // _MAX_STORED_LOSSES)
    starts = np.arange(0, losses.size, size)
    means = np.array([losses[i : i + size].mean() for i in starts])
    return {"loss": ("iteration", means), "iteration": ("iteration", iterations[starts])}
