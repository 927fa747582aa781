"""Linear regression without intercept, with wide normal and half-normal priors."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: predictors X (N, D), observations y (N,).
    """
    with pm.Model() as port:
        beta = pm.Normal("beta", 0, np.float64(10), shape=data["D"])
        sigma = pm.HalfNormal("sigma", np.float64(10))
        pm.Normal("y", data["X"] @ beta, sigma, observed=data["y"])
    return port
