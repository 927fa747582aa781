"""Variational families, Gaussian-process methods and Ops for PyMC: ``import pymc_ext as px``."""

import pymc_ext.requirements  # checks versions before anything imports PyMC

# isort: split
import pymc_ext.ops.compiler  # noqa: F401  # chooses PyTensor's backend before anything compiles

# isort: split
from pymc_ext import gp
from pymc_ext.matching import MatchingState, matched_targets
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.ops.bernstein import bernstein_map
from pymc_ext.ops.expected_softplus import expected_softplus
from pymc_ext.variational.bernstein.latents import Logistic, Normal, StudentT
from pymc_ext.variational.bernstein.polish.weighted import ImportanceWeighted
from pymc_ext.variational.bernstein.vi import BernsteinVI
from pymc_ext.variational.gaussian.laplace import LaplaceVI
from pymc_ext.variational.gaussian.mixed import DiagonalVI, MixedVI
from pymc_ext.variational.gaussian.mixture import MixtureVI
from pymc_ext.variational.gaussian.monte_carlo import MonteCarloVI
from pymc_ext.variational.logistic.affine import AffinityError
from pymc_ext.variational.logistic.jaakkola import JaakkolaVI
from pymc_ext.variational.logistic.matching import MatchingVI, matched_start
from pymc_ext.variational.logistic.viper import ViperVI

__all__ = [
    "AffinityError",
    "BernsteinVI",
    "DiagonalVI",
    "ImportanceWeighted",
    "JaakkolaVI",
    "LaplaceVI",
    "Logistic",
    "MatchedClassifier",
    "MatchingState",
    "MatchingVI",
    "MixedVI",
    "MixtureVI",
    "MonteCarloVI",
    "NoModeError",
    "Normal",
    "StudentT",
    "ViperVI",
    "bernstein_map",
    "expected_softplus",
    "gp",
    "matched_start",
    "matched_targets",
]


def __getattr__(name: str) -> object:
    if name == "MatchedClassifier":  # needs scikit-learn, which the rest does not
        from pymc_ext import matching

        return matching.MatchedClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
