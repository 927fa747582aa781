"""Update rules for Gaussian sites, one file each."""

from pymc_ext.gp.rules.base import FixedPoint, Rule, Slopes
from pymc_ext.gp.rules.cvi import CVI
from pymc_ext.gp.rules.ep import EP
from pymc_ext.gp.rules.jaakkola import JaakkolaBound
from pymc_ext.gp.rules.laplace import Laplace
from pymc_ext.gp.rules.matching import Matching

__all__ = ["CVI", "EP", "FixedPoint", "JaakkolaBound", "Laplace", "Matching", "Rule", "Slopes"]
