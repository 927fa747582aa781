"""Update rules: how the Gaussian sites of a Gaussian process are found, one file each.

`CVI`, the default: variational, for every likelihood, its evidence a bound. `EP`: tilted moments,
not for `Categorical`; it may not converge where the likelihood is not log-concave. `Laplace`: the
mode, the fastest of those that iterate. `Matching`: closed form, one regression, crude on some tens
of rows. `JaakkolaBound`: logistic only, too narrow. `anderson` accelerates a fixed-point iteration.

To add one: a file with a subclass of `Rule` that has ``update`` (the map whose fixed point is
wanted), ``solve``, the formulas it is ``allowed`` and its ``default`` one, and ``slopes`` of the
map where that formula is not ``stationary`` at the fixed point; export it here and in
`pymc_ext.gp`; add a line to ``RULES`` of ``tests/pymc_ext/gp/problems.py``, which every contract
runs over.

>>> class Undecided(px.gp.CVI):  # the prior is the posterior
...     def solve(self, prior, lik, y, phi, start=None):
...         sites = px.gp.GaussianSites.flat(len(y))
...         return FixedPoint(sites, prior.condition(sites), iterations=1, residual=0.0)
>>> from pymc_ext.gp.solver import Solver
>>> solver = Solver(px.gp.BernoulliProbit(), Undecided())
>>> solver.solve(np.ones(1), np.empty(0), (np.zeros(1), np.eye(1))).fixed_point.posterior.mean
array([0.])
"""

from pymc_ext.gp.rules.cvi import CVI
from pymc_ext.gp.rules.ep import EP
from pymc_ext.gp.rules.jaakkola import JaakkolaBound
from pymc_ext.gp.rules.laplace import Laplace
from pymc_ext.gp.rules.matching import Matching
from pymc_ext.gp.rules.rule import FixedPoint, Rule, Slopes

__all__ = ["CVI", "EP", "FixedPoint", "JaakkolaBound", "Laplace", "Matching", "Rule", "Slopes"]
