"""The posterior behind an approximation of ``pm.fit``, with what its coordinates mean."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density
from pymc_ext.maths.types import Array
from pymc_ext.models.unconstrain import flat_unconstrained, unconstrain_function

if TYPE_CHECKING:
    from pytensor.compile import Function

    from pymc_ext.variational.plugin.approximation import VectorisedApproximation

__all__ = ["OfApproximation"]


class OfApproximation:
    """As :class:`.symmetry.Named` asks for it."""

    def __init__(self, approx: VectorisedApproximation) -> None:
        self.approx = approx
        self.parameter_names = tuple(rv.name for rv in approx.model.free_RVs)

    @property
    def density(self) -> Density:
        """log p̃ with its score."""
        return self.approx.density

    def log_density(self, theta: Array) -> Array:
        """(N, D) -> (N,)."""
        return self.density.log_density(theta)

    def constrain(self, theta: Array) -> dict[str, NDArray]:
        """(N, D) -> (N, *shape) each."""
        return self.approx.constrain(theta)

    def unconstrain(self, draws: Mapping[str, NDArray]) -> Array:
        """(N, *shape) each -> (N, D). ValueError where a draw lies outside the support."""
        values = (np.asarray(draws[name], dtype=float) for name in self.parameter_names)
        return flat_unconstrained(self.parameter_names, self._unconstrained(*values))

    @cached_property
    def _unconstrained(self) -> Function:
        return unconstrain_function(self.approx.model)
