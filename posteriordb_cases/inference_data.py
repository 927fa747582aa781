"""Draws as ArviZ data: the only file of this package that knows ArviZ 0.x from ArviZ 1.x."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz as az
import numpy as np

ArvizData = Any  # az.InferenceData of ArviZ 0.x, xarray.DataTree of ArviZ 1.x: no common class


def posterior_data(posterior: Mapping[str, np.ndarray]) -> ArvizData:
    """InferenceData (ArviZ 0.x) or DataTree (1.x) with the group ``posterior``."""
    if int(az.__version__.split(".")[0]) < 1:
        return az.from_dict(posterior=dict(posterior))
    return az.from_dict({"posterior": dict(posterior)})
