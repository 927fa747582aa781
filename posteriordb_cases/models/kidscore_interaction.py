"""Children's test scores by mother's high school, IQ and their interaction.

Gelman and Hill (2006).
"""

import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import half_cauchy, regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: children's test scores kid_score; mom_hs, 1 if the mother finished high school;
    mothers' mom_iq; each (N,).
    """
    mom_hs, mom_iq = data["mom_hs"], data["mom_iq"]
    return regression(data["kid_score"], mom_hs, mom_iq, mom_hs * mom_iq, noise_prior=half_cauchy)
