"""The variational families, a room each, and `core`, on which all of them stand.

`gaussian`: Laplace, parts of it refitted, mixtures; `bernstein`: flows; `logistic`: closed forms
for logistic models, read from a model's graph. A family is an algorithm on a density, which knows
nothing of PyMC, and a thin class that is its method of ``pm.fit``.

To add one: its algorithm in a file here, its class in another or ``AlgorithmVI`` around it, an
export in `pymc_ext`, a line in ``tests/contracts.py``; docs/extending.md has one in 25 lines.

>>> from pymc_ext.variational.gaussian.laplace import Laplace  # the algorithm of px.LaplaceVI
>>> density = px.CallableDensity(lambda x: -2 * x[:, 0] ** 2, lambda x: -4 * x, dimension=1)
>>> Laplace(random_seed=1).fit(density).q.std
array([0.5])
"""
