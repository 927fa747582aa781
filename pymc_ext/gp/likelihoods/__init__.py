"""Factorising likelihoods p(y_i | f_i) for Gaussian processes, one file a kind of data."""

from pymc_ext.gp.likelihoods.base import Expectations, Likelihood, Tilted
from pymc_ext.gp.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from pymc_ext.gp.likelihoods.categorical import Categorical
from pymc_ext.gp.likelihoods.counts import NegativeBinomial, Poisson
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
