"""Leaf weight of mesquite bushes linear in their sizes: Gelman and Hill (2006)."""

import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: leaf weight, canopy diameters diam1 and diam2, canopy_height, total_height, stem
    density, group (0 or 1); each (N,).
    """
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    predictors = [data[name] for name in names]
    return regression(data["weight"], *predictors)
