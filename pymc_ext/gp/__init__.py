"""Gaussian processes with any factorising likelihood: ``px.gp``.

`Approximate` has the verbs of `pm.gp.Marginal`. It takes a likelihood (`likelihoods`) and a rule
(`rules`) that replaces it by Gaussian sites; `solver` turns these into evidence and gradient, and
`ops` into a term of the model, for `pm.sample`, `pm.find_MAP`, `pm.fit` or `fit_hyperparameters`.
`sample_latents` and `annealed_evidence` are the slow truth to compare with.

To add a rule or a likelihood see `pymc_ext.gp.rules` and `pymc_ext.gp.likelihoods`; a prior is a
class with the attributes of `posterior.Prior`; an evidence formula a function in `evidence` and
its name in ``FORMULAS``; a way of learning a class in `learners` and its line in
`fit_hyperparameters`.

>>> with pm.Model() as classifier:
...     scale = pm.HalfNormal("scale")
...     cov = scale**2 * pm.gp.cov.ExpQuad(2, ls=1.0)
...     gp = px.gp.Approximate(cov_func=cov, likelihood=px.gp.BernoulliLogit())
...     _ = gp.marginal_likelihood("y", X=X, y=y)
>>> p, _ = gp.predict(X[:3], point={"scale": 1.0}, diag=True, pred_noise=True, model=classifier)
>>> p.shape
(3,)
"""

import pymc_ext.ops.compiler  # noqa: F401  # chooses PyTensor's backend before it compiles
from pymc_ext.gp.errors import ConvergenceError, HyperparameterError, ImproperPosteriorError
from pymc_ext.gp.learning import HyperparameterFit, fit_hyperparameters
from pymc_ext.gp.likelihoods import (
    BernoulliLogit,
    BernoulliProbit,
    Categorical,
    Gaussian,
    Likelihood,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from pymc_ext.gp.model import Approximate
from pymc_ext.gp.rules import CVI, EP, JaakkolaBound, Laplace, Matching, Rule
from pymc_ext.gp.sampling import AnnealedEvidence, annealed_evidence, sample_latents
from pymc_ext.gp.sites import GaussianSites

__all__ = [
    "CVI",
    "EP",
    "AnnealedEvidence",
    "Approximate",
    "BernoulliLogit",
    "BernoulliProbit",
    "Categorical",
    "ConvergenceError",
    "Gaussian",
    "GaussianSites",
    "HyperparameterError",
    "HyperparameterFit",
    "ImproperPosteriorError",
    "JaakkolaBound",
    "Laplace",
    "Likelihood",
    "Matching",
    "NegativeBinomial",
    "Poisson",
    "Rule",
    "StudentT",
    "annealed_evidence",
    "fit_hyperparameters",
    "sample_latents",
]
