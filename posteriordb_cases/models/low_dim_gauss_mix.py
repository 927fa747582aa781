"""Mixture of two normal distributions, the means in increasing order."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model; theta is the weight of the component with the smaller mean.

    ``data``: observations y (N,).
    """
    two, five = np.float64(2), np.float64(5)
    with pm.Model() as port:
        mu = pm.Normal("mu", 0, two, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
        sigma = pm.HalfNormal("sigma", two, shape=2)
        theta = pm.Beta("theta", five, five)
        weights = pt.stack([theta, 1 - theta])
        pm.NormalMixture("y", weights, mu=mu, sigma=sigma, observed=data["y"])
    return port
