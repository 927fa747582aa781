"""Bernoulli trials with a beta prior."""

from collections.abc import Mapping
from typing import Any

import pymc as pm


def model(data: Mapping[str, Any]) -> pm.Model:
    """Return the PyMC model.

    ``data``: outcomes y (N,), parameters prior_successes and prior_failures of the beta prior.
    """
    with pm.Model() as port:
        p = pm.Beta("p", data["prior_successes"], data["prior_failures"])
        pm.Bernoulli("y", p, observed=data["y"])
    return port
