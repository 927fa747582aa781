"""GARCH(1, 1) with flat priors on the region of finite variance."""

import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from posteriordb_cases.models._data import Data

SLOW = True  # see posteriordb_cases.models


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: time series y (T,), scale sigma1 of its first value.
    """
    y, first = data["y"], data["sigma1"] ** 2
    with pm.Model() as port:
        mu = pm.Flat("mu")
        alpha0 = pm.HalfFlat("alpha0")
        alpha1 = pm.Uniform("alpha1", 0, 1)
        beta1 = pm.Uniform("beta1", 0, 1 - alpha1)
        pm.Potential("flat_beta1", pt.log1p(-alpha1))  # beta1's density 1 / (1 - alpha1) made 1
        innovations = alpha0 + alpha1 * (y[:-1] - mu) ** 2
        variance = _recurrence(pt.concatenate([pt.atleast_1d(first), innovations]), beta1, len(y))
        pm.Normal("y", mu, pt.sqrt(variance), observed=y)
    return port


def _recurrence(u: TensorVariable, decay: TensorVariable, length: int) -> TensorVariable:
    """x[t] = u[t] + decay x[t - 1], all t at once: every pass doubles the number of terms."""
    reach = 1
    while reach < length:
        u = pt.concatenate([u[:reach], u[reach:] + decay * u[:-reach]])
        decay, reach = decay**2, 2 * reach
    return u
