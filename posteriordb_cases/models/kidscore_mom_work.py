"""Children's test scores by mother's work as a factor, level 1 being the intercept.

Gelman and Hill (2006).
"""

from collections.abc import Mapping
from typing import Any

import pymc as pm

from posteriordb_cases.models._regression import regression


def model(data: Mapping[str, Any]) -> pm.Model:
    """Return the PyMC model.

    ``data``: children's test scores kid_score; mothers' work mom_work, 1 (none) to 4 (full
    time); each (N,).
    """
    levels = [data["mom_work"] == level for level in (2, 3, 4)]
    return regression(data["kid_score"], *levels)
