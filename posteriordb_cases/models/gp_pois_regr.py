"""Poisson regression on a Gaussian process with an exponentiated quadratic kernel."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model(data: Mapping[str, Any]) -> pm.Model:
    """Return the PyMC model.

    ``data``: inputs x (N,), counts k (N,).
    """
    N = data["N"]
    squares = np.subtract.outer(data["x"], data["x"]) ** 2
    with pm.Model() as port:
        rho = pm.Gamma("rho", np.float64(25), np.float64(4))
        alpha = pm.HalfNormal("alpha", np.float64(2))
        f_tilde = pm.Normal("f_tilde", 0, 1, shape=N)
        covariance = alpha**2 * pt.exp(-squares / (2 * rho**2)) + 1e-10 * np.eye(N)
        f = pm.Deterministic("f", pt.linalg.cholesky(covariance) @ f_tilde)
        pm.Poisson("k", pt.exp(f), observed=data["k"])
    return port
