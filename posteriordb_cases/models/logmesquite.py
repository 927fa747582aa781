"""Log leaf weight of mesquite bushes linear in their log sizes: Gelman and Hill (2006)."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: leaf weight, canopy diameters diam1 and diam2, canopy_height, total_height, stem
    density, group (0 or 1); each (N,).
    """
    sizes = ("diam1", "diam2", "canopy_height", "total_height", "density")
    log_sizes = [np.log(data[name]) for name in sizes]
    return regression(np.log(data["weight"]), *log_sizes, data["group"])
