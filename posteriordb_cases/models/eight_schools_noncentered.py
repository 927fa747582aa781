"""Eight schools, non-centred: Rubin (1981)."""

from collections.abc import Mapping

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data

RECOVERED_FROM = ("theta", "mu", "tau")  # the draws that `recover` needs


def model(data: Data) -> pm.Model:
    """Return the PyMC model; tau has a normalised half-Cauchy(5) prior.

    ``data``: J schools, estimated effects y (J,), their standard errors sigma (J,).
    """
    with pm.Model() as port:
        theta_trans = pm.Normal("theta_trans", 0, 1, shape=data["J"])
        mu = pm.Normal("mu", 0, np.float64(5))
        tau = pm.HalfCauchy("tau", np.float64(5))
        theta = pm.Deterministic("theta", mu + tau * theta_trans)
        pm.Normal("y", theta, data["sigma"], observed=data["y"])
    return port


def recover(draws: Mapping[str, np.ndarray], data: Data) -> dict[str, np.ndarray]:
    """theta_trans (N, J) of draws of theta, mu and tau."""
    mu, tau = draws["mu"][:, None], draws["tau"][:, None]
    return {"theta_trans": (draws["theta"] - mu) / tau}
