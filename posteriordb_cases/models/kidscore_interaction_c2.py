"""Children's test scores by mother's high school less 1/2, IQ less 100, and their interaction.

Gelman and Hill (2006).
"""

import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: children's test scores kid_score; mom_hs, 1 if the mother finished high school;
    mothers' mom_iq; each (N,).
    """
    hs, iq = data["mom_hs"] - 0.5, data["mom_iq"] - 100
    return regression(data["kid_score"], hs, iq, hs * iq)
