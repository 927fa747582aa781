"""Eight schools, centred: Rubin (1981)."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model; tau has a normalised half-Cauchy(5) prior.

    ``data``: J schools, estimated effects y (J,), their standard errors sigma (J,).
    """
    with pm.Model() as port:
        mu = pm.Normal("mu", 0, np.float64(5))
        tau = pm.HalfCauchy("tau", np.float64(5))
        theta = pm.Normal("theta", mu, tau, shape=data["J"])
        pm.Normal("y", theta, data["sigma"], observed=data["y"])
    return port
