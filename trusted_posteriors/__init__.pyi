import posteriordb_cases
import pymc_ext
import stan_models
from bridge import *  # noqa: F403
from bridge import fit as fit
from pymc_ext import *  # type: ignore[assignment] # noqa: F403

cases = posteriordb_cases
px = pymc_ext
stan = stan_models

__version__: str
