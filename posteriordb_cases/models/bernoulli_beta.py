"""Bernoulli trials with a beta prior."""

import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: outcomes y (N,), parameters prior_successes and prior_failures of the beta prior.
    """
    with pm.Model() as port:
        p = pm.Beta("p", data["prior_successes"], data["prior_failures"])
        pm.Bernoulli("y", p, observed=data["y"])
    return port
