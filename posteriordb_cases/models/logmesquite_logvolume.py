"""Log leaf weight of mesquite bushes linear in log canopy volume: Gelman and Hill (2006)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from posteriordb_cases.models._regression import regression


def model(data: Mapping[str, Any]) -> pm.Model:
    """Return the PyMC model.

    ``data``: leaf weight, canopy diameters diam1 and diam2, canopy_height; each (N,).
    """
    log_volume = np.log(data["diam1"] * data["diam2"] * data["canopy_height"])
    return regression(np.log(data["weight"]), log_volume)
