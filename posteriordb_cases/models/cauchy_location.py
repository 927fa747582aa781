"""Location of Cauchy observations with known scale: Dürr et al. (2024)."""

from collections.abc import Mapping
from typing import Any

import pymc as pm


def model(data: Mapping[str, Any]) -> pm.Model:
    """Return the PyMC model.

    ``data``: observations y (N,), their known scale.
    """
    with pm.Model() as port:
        xi = pm.Normal("xi", 0, 1)
        pm.Cauchy("y", xi, data["scale"], observed=data["y"])
    return port
