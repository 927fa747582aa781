"""Party identification in an election year: Gelman and Hill (2006)."""

import pymc as pm

from posteriordb_cases.models._data import Data
from posteriordb_cases.models._regression import regression


def model(data: Data) -> pm.Model:
    """Return the PyMC model.

    ``data``: party partyid7, ideology real_ideo, race_adj, age group age_discrete (1 to 4),
    education educ1, gender and income, each (N,).
    """
    ages = [data["age_discrete"] == group for group in (2, 3, 4)]
    others = [data[name] for name in ("educ1", "gender", "income")]
    return regression(data["partyid7"], data["real_ideo"], data["race_adj"], *ages, *others)
