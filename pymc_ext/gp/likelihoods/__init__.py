"""Factorising likelihoods p(y_i | f_i) for Gaussian processes, one file a kind of data.

Labels: `BernoulliProbit` (tilted moments in closed form), `BernoulliLogit`; `Categorical` has one
latent a class. Counts: `Poisson`, and `NegativeBinomial` where they vary more. Numbers: `Gaussian`,
and `StudentT` for outliers. `tilted` and `quadrature` integrate what has no closed form.

To add one: a subclass of `Likelihood` with its log density, three derivatives in the latent, its
``scale`` (where quadrature must look), moments, draws and a check of the data; closed forms
override the quadrature. Export it here and in `pymc_ext.gp`; add a line to ``LIKELIHOODS`` of
``tests/pymc_ext/gp/problems.py``, which has each function checked against SciPy, differences and
integrals, and every rule run on it.

>>> class Robust(px.gp.StudentT):
...     def __init__(self, sigma=1.0):
...         super().__init__(nu=4.0, sigma=sigma)
>>> Robust().predict(np.zeros(1), np.ones(1), np.array([4.0, 1.0]))  # mean and variance of y
(array([0.]), array([3.]))
"""

from pymc_ext.gp.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from pymc_ext.gp.likelihoods.categorical import Categorical
from pymc_ext.gp.likelihoods.counts import NegativeBinomial, Poisson
from pymc_ext.gp.likelihoods.likelihood import Expectations, Likelihood, Tilted
from pymc_ext.gp.likelihoods.real import Gaussian, StudentT

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "Categorical",
    "Expectations",
    "Gaussian",
    "Likelihood",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
    "Tilted",
]
