"""Log leaf weight of mesquite bushes by log canopy volume and area: Gelman and Hill (2006)."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: leaf weight, canopy diameters diam1 and diam2, canopy_height, group (0 or 1); each
    (N,).
    """
    log_area = np.log(data["diam1"] * data["diam2"])
    log_volume = log_area + np.log(data["canopy_height"])
    return regression(np.log(data["weight"]), log_volume, log_area, data["group"])
