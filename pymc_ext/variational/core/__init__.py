"""What families share: the base of their algorithms, and all that ``pm.fit`` asks of them.

Without PyMC: `algorithm` (from a density to a fitted q), `posterior` (what q can do), `result` and
`effort` (what a fit says and costs), `monitor` (losses, callbacks), `seeds`. With PyMC, and only
here: `inference` (an algorithm as a method of ``pm.fit``), `approximation`, `groups`, `traces`,
`pymc_loop`. To write a family, see docs/extending.md: what it needs is imported from this package.

>>> from pymc_ext.variational.core import Algorithm, Effort, Fitted, FitResult, fresh_draws
"""

from pymc_ext.variational.core.algorithm import Algorithm, Fitted
from pymc_ext.variational.core.effort import Effort
from pymc_ext.variational.core.posterior import Posterior, fresh_draws
from pymc_ext.variational.core.result import FitResult

__all__ = ["Algorithm", "Effort", "FitResult", "Fitted", "Posterior", "fresh_draws"]
