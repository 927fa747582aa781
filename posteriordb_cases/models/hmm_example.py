"""Hidden Markov model with normal observations of unit variance."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._markov import log_likelihood, positive_ordered

SLOW = True  # see posteriordb_cases.models


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: observations y (N,); K = 2 states.
    """
    y = data["y"]
    start = np.array([3.0, 10.0])
    with pm.Model() as port:
        theta1 = pm.Dirichlet("theta1", np.ones(2))
        theta2 = pm.Dirichlet("theta2", np.ones(2))
        mu = pm.Normal("mu", start, 1, transform=positive_ordered, initval=start)
        log_density = pm.logp(pm.Normal.dist(mu, 1), y[:, None])
        likelihood = log_likelihood(pt.stack([theta1, theta2]), log_density, len(y))
        pm.Potential("y", likelihood)
    return port
