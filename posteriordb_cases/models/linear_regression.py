"""Linear regression with a lognormal noise scale: the toy regression of Dürr et al. (2024)."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: predictors x (N, K), observations y (N,).
    """
    with pm.Model() as port:
        w = pm.Normal("w", 0, np.float64(10), shape=data["K"])
        b = pm.Normal("b", 0, np.float64(10))
        sigma = pm.LogNormal("sigma", 0.5, 1)
        pm.Normal("y", b + data["x"] @ w, sigma, observed=data["y"])
    return port
