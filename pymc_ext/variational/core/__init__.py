"""What every family shares: the engine's base class, and its way under ``pm.fit``.

- An engine is an :class:`~.algorithm.Algorithm`: a density in, a fitted q (:mod:`.posterior`) with
  its :mod:`.result` out. It reports to a :mod:`.monitor`, counts by :mod:`.effort`, draws from
  :mod:`.seeds`; one of noisy steps is a :class:`~.steps.SteppingAlgorithm`. None loads PyMC.
- :class:`~.inference.AlgorithmVI` puts an engine under ``pm.fit``, and one of noisy steps
  :class:`~.stochastic_vi.StochasticVI`. What comes back is an :mod:`.approximation` of a
  :class:`~.groups.FittedGroup`, which takes any q; only :mod:`~..bernstein.graph` has a gradient
  through q, for the loop that JAX compiles.
- Other rooms take what they need of ``pymc.variational`` from :mod:`.pymc_variational`.

To add a family, write :meth:`Algorithm.run` with what this package exports (docs/extending.md has
one in 25 lines); it works at once, on a density and in PyMC:

>>> from pymc_ext.variational.gaussian.laplace import Laplace
>>> from pymc_ext.variational.core.inference import AlgorithmVI
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
