"""How an algorithm becomes a method of ``pm.fit``; the only room that imports ``pymc.variational``.

- :class:`~.inference.AlgorithmVI` puts an algorithm under ``pm.fit``, and one of noisy steps
  :class:`~.stochastic_vi.StochasticVI`. What comes back is an :mod:`.approximation` of a
  :class:`~.groups.FittedGroup`, which takes any q; only :mod:`~..bernstein.graph` has a gradient
  through q, for the loop that JAX compiles.
- Other rooms take what they need of ``pymc.variational`` from :mod:`.pymc_variational`.

To add a method, write its algorithm (:mod:`pymc_ext.variational.core`) and hand it over:

>>> from pymc_ext.variational.gaussian.laplace import Laplace
>>> from pymc_ext.variational.plugin.inference import AlgorithmVI
>>> approx = pm.fit(method=AlgorithmVI(Laplace(), model=model), model=model, progressbar=False)
>>> approx.result.method
'laplace'
"""
