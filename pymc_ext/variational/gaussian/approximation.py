"""The approximation that :class:`LaplaceVI` returns."""

from __future__ import annotations

from pymc_ext.variational.gaussian.modes import LaplaceFit
from pymc_ext.variational.plugin.approximation import VectorisedApproximation


class LaplaceApproximation(VectorisedApproximation):
    """A Gaussian with ``laplace``, the mode behind it; a base for other fits."""

    laplace: LaplaceFit | None = None
