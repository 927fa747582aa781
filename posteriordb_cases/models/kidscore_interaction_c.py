"""Children's test scores by mother's high school and IQ, both centred, and their interaction.

Gelman and Hill (2006).
"""

import numpy as np
import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: children's test scores kid_score; mom_hs, 1 if the mother finished high school;
    mothers' mom_iq; each (N,).
    """
    hs = data["mom_hs"] - np.mean(data["mom_hs"])
    iq = data["mom_iq"] - np.mean(data["mom_iq"])
    return regression(data["kid_score"], hs, iq, hs * iq)
