"""The only file of this package that knows ArviZ 0.x (InferenceData) from ArviZ 1.x (DataTree)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz as az
import numpy as np
from numpy.typing import NDArray

OLD = int(az.__version__.split(".")[0]) < 1


def from_groups(groups: Mapping[str, Mapping[str, Any]], **kwargs: Any) -> Any:
    """InferenceData or DataTree of arrays (chain, draw, *shape) by group and name.

    ``coords`` and ``dims`` as in ``az.from_dict``.
    """
    if OLD:
        return az.from_dict(**groups, **kwargs)  # type: ignore[arg-type]
    return az.from_dict(dict(groups), **kwargs)


def arviz_psislw(log_ratios: NDArray[np.floating]) -> tuple[Any, Any]:
    """Smoothed normalised log weights (..., N) and k̂ (...,) of log importance ratios (..., N).

    ArviZ 0.x takes log ratios; ArviZ 1.x takes minus log ratios (log likelihoods) and lives in
    `arviz_stats`.
    """
    if OLD:
        with np.errstate(over="ignore"):  # its weights of hopeless Pareto fits reach 0 as 1/inf
            return az.psislw(log_ratios)
    from arviz_stats.base import array_stats

    return array_stats.psislw(-log_ratios)
