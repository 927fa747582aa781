"""Variational families, Gaussian-process methods and Ops for PyMC: ``import pymc_ext as px``.

What lives here: ``models`` (what a PyMC model is held to), ``density`` (log p̃ with its score, of a
model or a callable), ``variational`` (the families), ``sampling`` (exact draws in a family's
coordinates), ``gp``, ``matching``, ``ops`` (PyTensor Ops with their kernels) and ``maths`` (NumPy
alone). Names are imported when they are first asked for: algorithms on a density that is not
PyMC's, a Stan program's say, load neither PyMC nor PyTensor.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pymc_ext.requirements  # noqa: F401  # checks versions before anything imports PyMC

if TYPE_CHECKING:
    from pymc_ext import gp
    from pymc_ext.density import CallableDensity, DensityError
    from pymc_ext.density.model import PyMCDensity
    from pymc_ext.matching import MatchedClassifier, MatchingState, matched_targets
    from pymc_ext.maths.trust_region import NoModeError
    from pymc_ext.ops.bernstein import bernstein_map
    from pymc_ext.ops.expected_softplus import expected_softplus
    from pymc_ext.sampling.pymc import sample
    from pymc_ext.variational.basins.vi import BasinsVI
    from pymc_ext.variational.bernstein.latents import Logistic, Normal, StudentT
    from pymc_ext.variational.bernstein.polish.weighted import ImportanceWeighted, Polish
    from pymc_ext.variational.bernstein.shape import FlowShape
    from pymc_ext.variational.bernstein.vi import BernsteinVI
    from pymc_ext.variational.core.inference import AlgorithmVI
    from pymc_ext.variational.core.saved.codec import FileError, NotKeptError
    from pymc_ext.variational.core.saved.load import load
    from pymc_ext.variational.core.saved.posterior import SavedPosterior, save
    from pymc_ext.variational.core.steps import StepOptions
    from pymc_ext.variational.diagnosis import diagnose
    from pymc_ext.variational.gaussian.batch_match_vi import BatchMatchVI
    from pymc_ext.variational.gaussian.fixed_draws import FixedDraws
    from pymc_ext.variational.gaussian.laplace_vi import LaplaceVI
    from pymc_ext.variational.gaussian.mixed_vi import DiagonalVI, MixedVI
    from pymc_ext.variational.gaussian.mixture_vi import MixtureVI
    from pymc_ext.variational.gaussian.modes import ModeSearch
    from pymc_ext.variational.gaussian.monte_carlo_vi import MonteCarloVI
    from pymc_ext.variational.gaussian.pathfinder_vi import PathfinderVI
    from pymc_ext.variational.hierarchical.vi import HierarchicalVI
    from pymc_ext.variational.logistic.affine import AffinityError
    from pymc_ext.variational.logistic.jaakkola import JaakkolaVI
    from pymc_ext.variational.logistic.matching import MatchingVI, matched_start
    from pymc_ext.variational.logistic.viper import ViperVI
    from pymc_ext.variational.prior import prior_from

_VARIATIONAL = "pymc_ext.variational."
_HOMES = {
    "AffinityError": _VARIATIONAL + "logistic.affine",
    "AlgorithmVI": _VARIATIONAL + "core.inference",
    "BasinsVI": _VARIATIONAL + "basins.vi",
    "BatchMatchVI": _VARIATIONAL + "gaussian.batch_match_vi",
    "BernsteinVI": _VARIATIONAL + "bernstein.vi",
    "CallableDensity": "pymc_ext.density",
    "DensityError": "pymc_ext.density",
    "DiagonalVI": _VARIATIONAL + "gaussian.mixed_vi",
    "FileError": _VARIATIONAL + "core.saved.codec",
    "FixedDraws": _VARIATIONAL + "gaussian.fixed_draws",
    "HierarchicalVI": _VARIATIONAL + "hierarchical.vi",
    "ImportanceWeighted": _VARIATIONAL + "bernstein.polish.weighted",
    "JaakkolaVI": _VARIATIONAL + "logistic.jaakkola",
    "LaplaceVI": _VARIATIONAL + "gaussian.laplace_vi",
    "Logistic": _VARIATIONAL + "bernstein.latents",
    "MatchedClassifier": "pymc_ext.matching",  # needs scikit-learn, which the rest does not
    "MatchingState": "pymc_ext.matching",
    "MatchingVI": _VARIATIONAL + "logistic.matching",
    "MixedVI": _VARIATIONAL + "gaussian.mixed_vi",
    "MixtureVI": _VARIATIONAL + "gaussian.mixture_vi",
    "ModeSearch": _VARIATIONAL + "gaussian.modes",
    "MonteCarloVI": _VARIATIONAL + "gaussian.monte_carlo_vi",
    "NoModeError": "pymc_ext.maths.trust_region",
    "FlowShape": _VARIATIONAL + "bernstein.shape",
    "NotKeptError": _VARIATIONAL + "core.saved.codec",
    "Normal": _VARIATIONAL + "bernstein.latents",
    "PathfinderVI": _VARIATIONAL + "gaussian.pathfinder_vi",
    "Polish": _VARIATIONAL + "bernstein.polish.weighted",
    "PyMCDensity": "pymc_ext.density.model",
    "SavedPosterior": _VARIATIONAL + "core.saved.posterior",
    "StepOptions": _VARIATIONAL + "core.steps",
    "StudentT": _VARIATIONAL + "bernstein.latents",
    "ViperVI": _VARIATIONAL + "logistic.viper",
    "bernstein_map": "pymc_ext.ops.bernstein",
    "diagnose": _VARIATIONAL + "diagnosis",
    "expected_softplus": "pymc_ext.ops.expected_softplus",
    "gp": "pymc_ext.gp",
    "load": _VARIATIONAL + "core.saved.load",
    "matched_start": _VARIATIONAL + "logistic.matching",
    "matched_targets": "pymc_ext.matching",
    "prior_from": _VARIATIONAL + "prior",
    "sample": "pymc_ext.sampling.pymc",
    "save": _VARIATIONAL + "core.saved.posterior",
}

__all__ = [
    "AffinityError",
    "AlgorithmVI",
    "BasinsVI",
    "BatchMatchVI",
    "BernsteinVI",
    "CallableDensity",
    "DensityError",
    "DiagonalVI",
    "FileError",
    "FixedDraws",
    "FlowShape",
    "HierarchicalVI",
    "ImportanceWeighted",
    "JaakkolaVI",
    "LaplaceVI",
    "Logistic",
    "MatchedClassifier",
    "MatchingState",
    "MatchingVI",
    "MixedVI",
    "MixtureVI",
    "ModeSearch",
    "MonteCarloVI",
    "NoModeError",
    "Normal",
    "NotKeptError",
    "PathfinderVI",
    "Polish",
    "PyMCDensity",
    "SavedPosterior",
    "StepOptions",
    "StudentT",
    "ViperVI",
    "bernstein_map",
    "diagnose",
    "expected_softplus",
    "gp",
    "load",
    "matched_start",
    "matched_targets",
    "prior_from",
    "sample",
    "save",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(_HOMES[name])
    return home if name == "gp" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
