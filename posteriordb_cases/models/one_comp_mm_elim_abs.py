"""Drug concentration in one compartment: first-order absorption, Michaelis-Menten elimination."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._ode import refine, solve

STEPS = 2  # between measurements; leaves an error below 1e-7 of the log density
FIRST = 16  # before the first one, shortest at t0 where elimination sets in

SLOW = True  # see posteriordb_cases.models


def model(data: Data) -> pm.Model:
    """Return the PyMC model; the priors are half-Cauchy(1).

    ``data``: times (N,), concentrations C_hat (N,), the D given at t0, the volume V.
    """
    t0, times = data["t0"], np.asarray(data["times"], float)
    first = t0 + (times[0] - t0) * np.linspace(0, 1, FIRST + 1) ** 3
    grid = np.append(first[:-1], refine(times, STEPS))
    with pm.Model() as port:
        k_a = pm.HalfCauchy("k_a", 1)
        K_m = pm.HalfCauchy("K_m", 1)
        V_m = pm.HalfCauchy("V_m", 1)
        sigma = pm.HalfCauchy("sigma", 1)
        fixed = [k_a, K_m, V_m / data["V"], pt.constant(np.float64(data["D"] / data["V"]))]
        (C,) = solve(_step, [pt.constant(np.float64(0))], grid, fixed, levels=4, power=1)
        pm.LogNormal("C_hat", pt.log(C[FIRST - 1 :: STEPS]), sigma, observed=data["C_hat"])
    return port


def _step(
    t: TensorVariable,
    h: TensorVariable,
    C: TensorVariable,
    k_a: TensorVariable,
    K_m: TensorVariable,
    rate: TensorVariable,
    dose: TensorVariable,
) -> tuple[TensorVariable]:
    """Implicit Euler step, exact in the absorption: positive and stable for every K_m.

    The new C solves C + h rate C / (K_m + C) = supply, that is
    C^2 + (K_m + h rate - supply) C - K_m supply = 0.
    """
    supply = C - dose * pt.exp(-k_a * t) * pt.expm1(-k_a * h)
    half = (supply - K_m - h * rate) / 2
    root = pt.sqrt(half**2 + K_m * supply)
    return (pt.switch(half > 0, half + root, K_m * supply / (root - pt.minimum(half, 0))),)
