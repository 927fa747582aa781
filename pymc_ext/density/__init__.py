"""The one thing every family needs of a model: its log density and score, over rows of draws.

A density is any object with ``dimension``, ``log_density`` and ``log_density_gradient``
(:class:`Density`), on the **unconstrained** space, log-Jacobian included:

- :class:`PyMCDensity`: of a ``pm.Model``, compiled once (value and score together);
- :class:`CallableDensity`: of NumPy functions, or of one JAX function, which gives its gradient;
- ``stan_models.StanDensity``: of a compiled Stan program, as it stands;
- :class:`DensityInCoordinates`: of v where θ = T(v), for any of these and any q with a pullback.

To add one, write these three members; nothing is registered. Algorithms count what they ask of a
density by wrapping it in :class:`CountedDensity`.

>>> import numpy as np
>>> density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
>>> density.log_density_gradient(np.ones((1, 2)))
(array([-1.]), array([[-1., -1.]]))
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pymc_ext.density.callable import CallableDensity
from pymc_ext.density.check import DensityError, check_scores, require_usable
from pymc_ext.density.coordinates import DensityInCoordinates, TransportMap
from pymc_ext.density.counted import CountedDensity
from pymc_ext.density.differences import DifferenceHessian
from pymc_ext.density.protocol import Density

if TYPE_CHECKING:
    from pymc_ext.density.model import PyMCDensity

__all__ = [
    "CallableDensity",
    "CountedDensity",
    "Density",
    "DensityError",
    "DensityInCoordinates",
    "DifferenceHessian",
    "PyMCDensity",
    "TransportMap",
    "check_scores",
    "require_usable",
]


def __getattr__(name: str) -> object:
    if name == "PyMCDensity":  # imports PyMC, which a Stan program's density does without
        return import_module("pymc_ext.density.model").PyMCDensity
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
