"""Autoregression of order K, conditional on the first K values."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model; sigma has a normalised half-Cauchy(2.5) prior.

    ``data``: order K, time series y (T,).
    """
    K, y = data["K"], data["y"]
    lags = np.lib.stride_tricks.sliding_window_view(y[:-1], K)[:, ::-1]
    with pm.Model() as port:
        alpha = pm.Normal("alpha", 0, np.float64(10))
        beta = pm.Normal("beta", 0, np.float64(10), shape=K)
        sigma = pm.HalfCauchy("sigma", np.float64(2.5))
        pm.Normal("y", alpha + lags @ beta, sigma, observed=y[K:])
    return port
