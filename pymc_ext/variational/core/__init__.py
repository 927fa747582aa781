"""What an algorithm is, and what it works with; nothing here loads PyMC.

- An :class:`~.algorithm.Algorithm` takes a density and gives a fitted q (:mod:`.posterior`) with
  its :mod:`.result`. It reports to a :mod:`.monitor`, counts by :mod:`.effort`, draws from
  :mod:`.seeds`; one of noisy steps is a :class:`~.steps.SteppingAlgorithm`.
- :mod:`.saved` keeps a q in a file. How an algorithm becomes a method of ``pm.fit``:
  :mod:`pymc_ext.variational.plugin`.

To add a family, write :meth:`Algorithm.run` with what this package exports (docs/extending.md has
one in 25 lines); it works at once, on a density and in PyMC:

>>> from pymc_ext.variational.gaussian.laplace import Laplace
>>> from pymc_ext.variational.plugin.inference import AlgorithmVI
>>> method = AlgorithmVI(Laplace(), model=model, random_seed=1)
>>> approx = pm.fit(method=method, model=model, progressbar=False)
>>> approx.result.method
'laplace'
"""

from pymc_ext.variational.core.algorithm import Algorithm, Fitted
from pymc_ext.variational.core.effort import Effort
from pymc_ext.variational.core.posterior import Posterior, fresh_draws
from pymc_ext.variational.core.result import FitResult

__all__ = ["Algorithm", "Effort", "FitResult", "Fitted", "Posterior", "fresh_draws"]
