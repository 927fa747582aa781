"""The only file of this package that knows ArviZ 0.x (InferenceData) from ArviZ 1.x (DataTree)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz as az
import numpy as np
from numpy.typing import ArrayLike, NDArray

ArvizData = Any  # az.InferenceData of ArviZ 0.x, xarray.DataTree of ArviZ 1.x: no common class
OLD = int(az.__version__.split(".")[0]) < 1


def from_groups(
    groups: Mapping[str, Mapping[str, ArrayLike]],
    coords: Mapping[str, ArrayLike] | None = None,
    dims: Mapping[str, list[str]] | None = None,
) -> ArvizData:
    """InferenceData or DataTree of arrays (chain, draw, *shape) by group and name.

    ``coords`` and ``dims`` as in ``az.from_dict``.
    """
    given = {"coords": coords, "dims": dims}
    options: dict[str, Any] = {k: dict(v) for k, v in given.items() if v is not None}
    if OLD:
        return az.from_dict(**groups, **options)  # type: ignore[arg-type]
    return az.from_dict(dict(groups), **options)


def arviz_psislw(log_ratios: NDArray[np.floating]) -> tuple[NDArray, NDArray]:
    """Smoothed normalised log weights (..., N) and k̂ (...,) of log importance ratios (..., N).

    ArviZ 0.x takes log ratios; ArviZ 1.x takes minus log ratios (log likelihoods) and lives in
    `arviz_stats`.
    """
    if OLD:
        with np.errstate(over="ignore"):  # its weights of hopeless Pareto fits reach 0 as 1/inf
            return az.psislw(log_ratios)
    from arviz_stats.base import array_stats

    return array_stats.psislw(-log_ratios)
