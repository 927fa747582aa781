"""The log density of a PyMC model as a JAX function of one point (extra ``jax``)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pymc_ext.density.model import PyMCDensity
from pymc_ext.jax_graphs import jax_function
from pymc_ext.over_draws import checked

if TYPE_CHECKING:
    import jax

__all__ = ["JaxLogDensity", "jax_log_density"]

JaxLogDensity = Callable[["jax.Array"], "jax.Array"]  # (D,) -> (): JAX need not be installed


def jax_log_density(density: PyMCDensity) -> JaxLogDensity:
    """log p̃ of one point, θ (D,) -> (), to be traced, compiled and differentiated by JAX.

    It is in double precision; data that are shared variables are those of now.

    Raises
    ------
    ImportError
        JAX is not installed.
    NotImplementedError
        JAX has no counterpart of an operation of the model.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     tau = pm.HalfNormal("tau")
    >>> log_density = jax_log_density(PyMCDensity(model))  # doctest: +SKIP
    >>> jax.grad(log_density)(jax.numpy.ones(1))  # doctest: +SKIP
    Array([-6.3890561], dtype=float64)
    """
    if find_spec("jax") is None:
        raise ImportError("a log density in JAX needs JAX: pip install 'trusted-posteriors[jax]'")
    import jax

    jax.config.update("jax_enable_x64", True)  # log densities of data need double precision
    logp = checked([density.logp], bool(density.model.check_bounds))
    function, others = jax_function([], density.theta, logp)
    held = [v.get_value() for v in others]
    return lambda theta: function(*held, theta)[0]
