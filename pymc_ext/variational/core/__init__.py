"""What an algorithm is, and what it works with; nothing here loads PyMC before a model has.

- An :class:`~.algorithm.Algorithm` takes a density and gives a fitted q (:mod:`.posterior`) with
  its :mod:`.result`. It reports to a :mod:`.monitor`, counts by :mod:`.effort`, draws from
  :mod:`.seeds`; one of noisy steps is a :class:`~.steps.SteppingAlgorithm`.
- :mod:`.saved` keeps a q in a file. How an algorithm becomes a method of ``pm.fit``:
  :mod:`pymc_ext.variational.plugin`.

Names are imported when they are first asked for, so that limits are read without SciPy.

To add a family, write :meth:`Algorithm.run` with what this package exports (docs/extending.md has
one in 25 lines); it works at once, on a density and in PyMC:

>>> from pymc_ext.variational.gaussian.laplace import Laplace
>>> from pymc_ext.variational.plugin.inference import AlgorithmVI
>>> method = AlgorithmVI(Laplace(), model=model, random_seed=1)
>>> approx = pm.fit(method=method, model=model, progressbar=False)
>>> approx.result.method
'laplace'
"""

from pymc_ext.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
