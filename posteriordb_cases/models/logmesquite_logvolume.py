"""Log leaf weight of mesquite bushes linear in log canopy volume: Gelman and Hill (2006)."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: leaf weight, canopy diameters diam1 and diam2, canopy_height; each (N,).
    """
    log_volume = np.log(data["diam1"] * data["diam2"] * data["canopy_height"])
    return regression(np.log(data["weight"]), log_volume)
