"""Hares and lynxes in a year: the Lotka-Volterra equations with lognormal errors."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._ode import refine, solve

STEPS = 2  # a year; leaves an error below 1e-7 of the log density

SLOW = True  # see posteriordb_cases.models


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: years ts (N,) since the first counts, first counts y_init (2,) of hares and lynxes in
    thousands, counts y (N, 2).
    """
    location, scale = np.array([1, 0.05, 1, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])
    grid = refine(np.append(0.0, data["ts"]), STEPS)
    with pm.Model() as port:
        theta = pm.TruncatedNormal("theta", location, scale, lower=0)
        z_init = pm.LogNormal("z_init", np.log(np.float64(10)), 1, shape=2)
        sigma = pm.LogNormal("sigma", -1, 1, shape=2)
        start = pt.log(z_init)
        path = solve(
            _step, [start[0], start[1]], grid, [theta[i] for i in range(4)], levels=5, power=2
        )
        log_z = pt.stack([component[STEPS - 1 :: STEPS] for component in path], axis=1)
        pm.LogNormal("y_init", start, sigma, observed=data["y_init"])
        pm.LogNormal("y", log_z, sigma, observed=data["y"])
    return port


def _step(
    t: TensorVariable,
    h: TensorVariable,
    u: TensorVariable,
    v: TensorVariable,
    *theta: TensorVariable,
) -> tuple[TensorVariable, TensorVariable]:
    """Move the logarithms of hares and lynxes: half a step of u, a step of v, half one of u."""
    birth, loss, death, gain = theta
    u = u + h / 2 * (birth - loss * pt.exp(v))
    v = v + h * (gain * pt.exp(u) - death)
    return u + h / 2 * (birth - loss * pt.exp(v)), v
