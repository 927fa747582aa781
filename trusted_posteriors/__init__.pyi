import posteriordb_cases
import stan_models
from bridge import *  # noqa: F403
from pymc_ext import *  # noqa: F403

cases = posteriordb_cases
stan = stan_models
