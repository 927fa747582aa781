"""Variational families, Gaussian-process methods and Ops for PyMC: ``import pymc_ext as px``.

What lives here: ``models`` (what a PyMC model is held to), ``density`` (log p̃ with its score, of a
model or a callable), ``variational`` (the families), ``sampling`` (exact draws in a family's
coordinates), ``gp``, ``matching``, ``rows`` (data that are not held in memory), ``ops`` (PyTensor
Ops with their kernels) and ``maths`` (formulas, without a model). A public name is one line of
``__init__.pyi``, imported when it is first asked for: algorithms on a density that is not PyMC's, a
Stan program's say, load neither PyMC nor PyTensor.
"""

from __future__ import annotations

import trusted_posteriors_namesake  # noqa: F401  # refuses a pymc_ext that is not ours

# isort: split
import pymc_ext.requirements  # noqa: F401  # checks versions before anything imports PyMC
from pymc_ext.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
