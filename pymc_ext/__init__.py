"""Variational families, Gaussian-process methods and Ops for PyMC: ``import pymc_ext as px``."""

from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.variational.laplace import LaplaceVI
from pymc_ext.variational.mixed import DiagonalVI, MixedVI

__all__ = ["DiagonalVI", "LaplaceVI", "MixedVI", "NoModeError"]
