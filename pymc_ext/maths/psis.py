"""ArviZ's Pareto-smoothed importance sampling, with one meaning under ArviZ 0.x and 1.x."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
from numpy.typing import NDArray


def psislw(log_ratios: NDArray[np.floating]) -> tuple[Any, Any]:
    """Smoothed normalised log weights (..., N) and k̂ (...,) of log importance ratios (..., N).

    ArviZ 0.x takes log ratios; ArviZ 1.x takes minus log ratios (log likelihoods) and lives in
    `arviz_stats`.
    """
    if int(az.__version__.split(".")[0]) >= 1:
        from arviz_stats.base import array_stats

        return array_stats.psislw(-log_ratios)
    with np.errstate(over="ignore"):  # its weights of hopeless Pareto fits reach 0 as 1/inf
        return az.psislw(log_ratios)
