"""Gaussian processes with any factorising likelihood: ``px.gp``."""

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
