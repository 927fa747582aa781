"""What PyMC sees of a flow: a group of variables, and the approximation that a fit returns."""

from __future__ import annotations

import logging

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.model import PyMCDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.variable_order import blocks_of, variable_order
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.groups import FittedGroup

logger = logging.getLogger(__name__)


class BernsteinGroup(FittedGroup):
    """A flow of ``shape``, a :class:`FlowShape`, near the identity before a fit."""

    def unfitted(self) -> BernsteinFlow:
        shape: FlowShape = self._kwargs["shape"]
        blocks = blocks_of(PyMCDensity(self.model, list(self.group)))
        order, leading = variable_order(blocks, shape.ordering)
        rng = np.random.default_rng(self.rng.randint(2**30))
        flow = BernsteinFlow(shape, Affine(order, self.start[order]), leading, rng)
        last = flow.layout.networks[-1]
        if last.grouped:
            width = self.ddim - 1
            logger.info(
                f"hidden layers of {last.hidden} units are narrower than the {width} "
                "variables conditioned on, which are therefore seen in groups; pass "
                f"hidden=({width}, {width}) for full conditioning"
            )
        return flow

    def hold(self, q: Posterior) -> None:
        if isinstance(q, BernsteinFlow):  # what a search for a base passes through is none
            super().hold(q)


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
