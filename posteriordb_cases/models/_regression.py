"""Normal linear regressions with flat coefficients, the form of Gelman and Hill's (2006) models."""

from collections.abc import Callable

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pytensor.tensor import TensorVariable


def regression(
    outcome: np.ndarray,
    *predictors: ArrayLike,
    noise_prior: Callable[[str], TensorVariable] = pm.HalfFlat,
) -> pm.Model:
    """Return outcome ~ normal(X beta, sigma), X's columns being 1 and the predictors (N,).

    beta is flat; ``noise_prior(name)`` makes sigma, flat on the positive numbers by default.
    """
    X = np.column_stack([np.ones(len(outcome)), *predictors])
    with pm.Model() as port:
        beta = pm.Flat("beta", shape=X.shape[1])
        sigma = noise_prior("sigma")
        pm.Normal("y", X @ beta, sigma, observed=outcome)
    return port


def half_cauchy(name: str) -> TensorVariable:
    """Return a half-Cauchy variable with scale 2.5."""
    return pm.HalfCauchy(name, np.float64(2.5))
