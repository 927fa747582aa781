"""The triangular Bernstein flow as a PyMC variational group."""

from __future__ import annotations

import logging

import numpy as np

from pymc_ext.density.model import PyMCDensity
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.variable_order import blocks_of, variable_order
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
