"""Log price of diamonds on 24 highly correlated predictors: Bales et al. (2019)."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model; Intercept is that of the centred predictors.

    ``data``: log prices Y (N,), design matrix X (N, K) with ones in the first column.
    """
    centred = data["X"][:, 1:] - data["X"][:, 1:].mean(axis=0)
    three, ten = np.float64(3), np.float64(10)
    with pm.Model() as port:
        b = pm.Normal("b", 0, 1, shape=data["K"] - 1)
        intercept = pm.StudentT("Intercept", three, mu=np.float64(8), sigma=ten)
        sigma = pm.HalfStudentT("sigma", three, sigma=ten)
        pm.Normal("Y", intercept + centred @ b, sigma, observed=data["Y"])
    return port
