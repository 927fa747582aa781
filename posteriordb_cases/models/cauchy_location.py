"""Location of Cauchy observations with known scale: Dürr et al. (2024)."""

import pymc as pm

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: observations y (N,), their known scale.
    """
    with pm.Model() as port:
        xi = pm.Normal("xi", 0, 1)
        pm.Cauchy("y", xi, data["scale"], observed=data["y"])
    return port
