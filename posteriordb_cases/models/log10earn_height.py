"""log10 earnings linear in height: Gelman and Hill (2006), ch. 4."""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: yearly earnings earn in dollars; height in inches; each (N,).
    """
    return regression(np.log10(data["earn"]), data["height"])
