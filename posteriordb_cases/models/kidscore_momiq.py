"""Children's test scores by mother's IQ: Gelman and Hill (2006)."""

import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import half_cauchy, regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: children's test scores kid_score; mothers' mom_iq; each (N,).
    """
    return regression(data["kid_score"], data["mom_iq"], noise_prior=half_cauchy)
