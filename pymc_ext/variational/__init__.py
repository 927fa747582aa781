"""Families of approximate posteriors: algorithms on a density, and their methods of ``pm.fit``.

- :mod:`.gaussian`: Gaussians and their mixtures, for any density with scores; seconds at most.
  ``LaplaceVI`` first; ``MixedVI`` where the mode is not the mean; ``MixtureVI`` for several modes.
- :mod:`.hierarchical`: a map with the conditional laws of hierarchical models, links found by it.
- :mod:`.logistic`: Gaussians for logistic and softmax models alone, in closed form.
- :mod:`.bernstein`: flows, for what no map of these holds; seconds on top of one, minutes without.
- :mod:`.basins`: a map for every basin of the posterior, weighted by the mass there.
- :mod:`.missed`: a search for mass that a fit misses; :mod:`.ill_posed`: for what makes any fit
  wrong, an improper posterior or a log density that jumps.
- :mod:`.elbo`: the ELBO on given draws, of any family. :mod:`.core`: what all algorithms share.
- :mod:`.plugin`: how one becomes a method of ``pm.fit``; the only room that imports
  ``pymc.variational``.

To add a family: a file with its :class:`~.core.algorithm.Algorithm` and plug-in, one export in
``pymc_ext/__init__.pyi``, one line in ``tests/contracts.py``, whose tests then run on it.

>>> with model:
...     approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
>>> approx.sample(100).posterior["beta"].shape
(1, 100, 2)
"""
