"""Summer temperature linear in the year: Bales et al. (2019), arXiv:1905.11916."""

import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model; sigma is flat.

    ``data``: years x (N,), temperatures y (N,), prior mean and sd of alpha (pmualpha, psalpha) and
    of beta (pmubeta, psbeta).
    """
    with pm.Model() as port:
        alpha = pm.Normal("alpha", data["pmualpha"], data["psalpha"])
        beta = pm.Normal("beta", data["pmubeta"], data["psbeta"])
        sigma = pm.HalfFlat("sigma")
        pm.Normal("y", alpha + beta * data["x"], sigma, observed=data["y"])
    return port
