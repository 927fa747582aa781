"""log p̃ of draws, evaluated when it is first read: on a million rows it takes longer than a fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pymc_ext.density.model import PyMCDensity
from pymc_ext.density.shared_values import SharedValues
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array


class DeferredLogs:
    """log p̃ of draws of q, and importance weights of it, from when either is asked for.

    They are those of the data and hyperparameters that the density had when this was made, whatever
    ``pm.set_data``, or a fit that goes on, has put there since.

    Parameters
    ----------
    density
        What is evaluated.
    theta
        Draws on the unconstrained space, (chains, draws, D).
    log_q
        log q of them, (chains, draws).
    """

    def __init__(self, density: PyMCDensity, theta: Array, log_q: Array) -> None:
        self._density, self._theta, self._log_q = density, theta, log_q
        self._as_it_was = SharedValues([density.logp], copied=density.extras)

    @cached_property
    def lp(self) -> Array:
        """log p̃ on the unconstrained space, (chains, draws)."""
        with self._as_it_was():
            lp = self._density.log_density(self._theta.reshape(-1, self._theta.shape[-1]))
        self._theta = np.empty(0)  # not needed again, and as large as the draws
        return lp.reshape(self._log_q.shape)

    @cached_property
    def log_weight(self) -> Array:
        """lp − lq, Pareto-smoothed and normalised over all draws, (chains, draws)."""
        return log_weights(self.lp - self._log_q)

    def variables(self) -> dict[str, xr.Variable]:
        """Both by name, with dims (chain, draw); xarray loads each when it is first read."""
        shape = self._log_q.shape
        return {
            "lp": _variable(_Deferred(lambda: self.lp, shape)),
            "log_weight": _variable(_Deferred(lambda: self.log_weight, shape)),
        }


class _Deferred(BackendArray):
    """Numbers of this shape that ``read`` gives; a pickle has the numbers themselves."""

    def __init__(self, read: Callable[[], Array], shape: tuple[int, ...]) -> None:
        self.read, self.shape, self.dtype = read, shape, np.dtype(float)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, lambda where: self.read()[where]
        )

    def __deepcopy__(self, memo: object) -> _Deferred:
        return self  # xarray copies what is written to

    def __reduce__(self) -> tuple[Callable[[Array], _Deferred], tuple[Array]]:
        return _known, (self.read(),)


def _known(values: Array) -> _Deferred:
    return _Deferred(lambda: values, values.shape)


def _variable(array: _Deferred) -> xr.Variable:
    """As xarray holds what it has not yet read of a file: read once, and copied when written to."""
    lazily: Any = indexing.LazilyIndexedArray(array)
    cached = indexing.MemoryCachedArray(indexing.CopyOnWriteArray(lazily))  # type: ignore[no-untyped-call]
    return xr.Variable(("chain", "draw"), cached)


def log_weights(log_ratios: Array) -> Array:
    """Log weights, Pareto-smoothed, (chains, draws) -> (chains, draws), summing to 1 over all."""
    ratios = np.where(np.isnan(log_ratios), -np.inf, log_ratios).ravel()  # an undefined one is none
    if not np.isfinite(ratios.max()):  # no draw where the posterior is
        return np.full_like(log_ratios, np.nan)
    return psislw(ratios)[0].reshape(log_ratios.shape)
