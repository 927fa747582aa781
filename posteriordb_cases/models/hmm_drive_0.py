"""Hidden Markov model of a basketball player's movement: drives to the hoop and other play."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._markov import log_likelihood, positive_ordered

SLOW = True  # see posteriordb_cases.models


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: inverse speed u (N,), distance to the hoop v (N,), Dirichlet parameters alpha (2, 2)
    of the transitions; K = 2 states.
    """
    u, v = data["u"][:, None], data["v"][:, None]
    rates = dict(mu=np.array([0.0, 3.0]), sigma=1, transform=positive_ordered)
    with pm.Model() as port:
        theta1 = pm.Dirichlet("theta1", data["alpha"][0])
        theta2 = pm.Dirichlet("theta2", data["alpha"][1])
        phi = pm.Normal("phi", **rates, initval=np.array([1.0, 3.0]))
        lambda_ = pm.Normal("lambda", **rates, initval=np.array([1.0, 3.0]))
        log_density = pm.logp(pm.Exponential.dist(phi), u) + pm.logp(
            pm.Exponential.dist(lambda_), v
        )
        pm.Potential("u_v", log_likelihood(pt.stack([theta1, theta2]), log_density, len(u)))
    return port
