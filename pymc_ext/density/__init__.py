"""The one thing every family needs of a model: its log density and score, over rows of draws.

A density is any object with ``dimension``, ``log_density`` and ``log_density_gradient``
(:class:`Density`), on the **unconstrained** space, log-Jacobian included:

- :class:`PyMCDensity`: of a ``pm.Model``, compiled once (value and score together);
- :class:`CallableDensity`: of NumPy functions, or of one JAX function, which gives its gradient;
- ``stan_models.StanDensity``: of a compiled Stan program, as it stands;
- :class:`DensityInCoordinates`: of v where θ = T(v), for any of these and any q with a pullback.

To add one, write these three members; nothing is registered. Algorithms count what they ask of a
density by wrapping it in :class:`CountedDensity`. Names are imported when they are first asked
for: a Stan program's density loads no PyMC.

>>> import numpy as np
>>> from pymc_ext.density import CallableDensity
>>> density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
>>> density.log_density_gradient(np.ones((1, 2)))
(array([-1.]), array([[-1., -1.]]))
"""

from pymc_ext.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
