"""Poisson regression on a Gaussian process with an exponentiated quadratic kernel."""

from collections.abc import Mapping

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from posteriordb_cases.models._data import Data

SLOW = True  # see posteriordb_cases.models
JITTER = 1e-10  # as in the Stan program
RECOVERED_FROM = ("f", "alpha", "rho")  # the draws that `recover` needs


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: inputs x (N,), counts k (N,).
    """
    N = data["N"]
    squares = np.subtract.outer(data["x"], data["x"]) ** 2
    with pm.Model() as port:
        rho = pm.Gamma("rho", np.float64(25), np.float64(4))
        alpha = pm.HalfNormal("alpha", np.float64(2))
        f_tilde = pm.Normal("f_tilde", 0, 1, shape=N)
        covariance = alpha**2 * pt.exp(-squares / (2 * rho**2)) + JITTER * np.eye(N)
        f = pm.Deterministic("f", pt.linalg.cholesky(covariance) @ f_tilde)
        pm.Poisson("k", pt.exp(f), observed=data["k"])
    return port


def recover(draws: Mapping[str, np.ndarray], data: Data) -> dict[str, np.ndarray]:
    """f_tilde (N, length of x) of draws of f, alpha and rho."""
    squares = np.subtract.outer(data["x"], data["x"]) ** 2
    alpha, rho = draws["alpha"][:, None, None], draws["rho"][:, None, None]
    root = np.linalg.cholesky(
        alpha**2 * np.exp(-squares / (2 * rho**2)) + JITTER * np.eye(data["N"])
    )
    return {"f_tilde": np.linalg.solve(root, draws["f"][..., None])[..., 0]}
