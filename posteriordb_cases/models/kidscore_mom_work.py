"""Children's test scores by mother's work as a factor, level 1 being the intercept.

Gelman and Hill (2006).
"""

import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: children's test scores kid_score; mothers' work mom_work, 1 (none) to 4 (full
    time); each (N,).
    """
    levels = [data["mom_work"] == level for level in (2, 3, 4)]
    return regression(data["kid_score"], *levels)
