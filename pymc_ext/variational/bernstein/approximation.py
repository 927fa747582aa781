"""The approximation that :class:`BernsteinVI` returns."""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage
from pymc_ext.variational.plugin.approximation import VectorisedApproximation


class BernsteinApproximation(VectorisedApproximation):
    """A flow; ``stages`` holds what each training phase reached."""

    q: BernsteinFlow
    stages: tuple[Stage, ...] = ()

    def log_ratios(self, z: Array) -> Array:
        """log p̃ − log q of the draws made from normals z (N, K)."""
        self.require_exact_logp()
        return FlowFit(self.q, CountedDensity(self.density)).log_ratios(z)

    def log_q(self, theta: Array) -> Array:
        """Normalised log q at any θ, (N, D) -> (N,), by inverting the flow; −∞ off its support."""
        rows = self._theta_rows(theta)
        if np.isnan(rows).any():
            raise ValueError("theta must not hold NaN: log q is not defined there")
        return self.q.log_density(rows)
