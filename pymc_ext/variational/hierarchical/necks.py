"""Means and scales of what is governed, trained where q hardly ever draws: in the necks of funnels.

Where a governor shuts a gate, a governed coordinate lies within e^a of a mean that is linear in
what comes before, which q's own draws tell to a hundredth of its sd, and a neck four sds down needs
to a thousandth. For any law of the governors, the residuals of what they govern are zero where q's
conditional law is p's: draws with a governor far out tell the means there, for as many scores.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.numbers import antithetic
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.training import FEWEST, Training

WIDER = 2.0  # times a governor's normal: at four sds of q there are as many draws as at two
# Draws of a step, for each governor and in all: so many that full steps are taken, as a law that is
# a hierarchy's leaves no noise; and numbers of their v at most, of which a step holds ten arrays as
# large, 160 MB.
EACH, FEW, MOST_NUMBERS = 50, 400, 2_000_000


class NeckTraining(Training):
    """Steps on the rows of coordinates with governors, nothing else, from draws far out.

    Parameters
    ----------
    elbo
        Of ``q``, which these draws do not tell.
    """

    def __init__(
        self,
        density: CountedDensity,
        q: HierarchicalMap,
        free: Free,
        rng: np.random.Generator,
        elbo: float,
    ) -> None:
        super().__init__(density, q, free, rng)
        wanted = max(FEW, EACH * int(free.governing.sum()))
        self.draws = 2 * (max(self.draws, min(wanted, MOST_NUMBERS // q.dimension)) // 2)
        self.elbo = elbo

    def advance(self) -> float:
        q = self.q
        at, _, scores = self._seen(self._latents())
        if len(scores) < FEWEST:
            return -self.elbo
        r = q.pullback_at(at, scores) + at.v
        # Where a row does not fit, or one that may depend on it, what it says is noise: the deeper
        # the draw, the louder.
        off = np.maximum.accumulate(np.abs(r[:, ::-1]), axis=1)[:, ::-1]
        weights = 1 / (1 + off[:, self.free.governors[0]] ** 2)
        shift = np.zeros(q.dimension)
        moved, constant = self._linked(q, at, r / at.slope / at.scale, 1.0, weights)
        shift[self.free.governors[0]] = constant
        self.q = moved.moved(shift, np.ones(q.governors))
        return -self.elbo

    def _latents(self) -> Array:
        """Mirrored normals, one governor of every other pair times `WIDER`."""
        v = antithetic(self.rng, self.draws, self.q.dimension)
        half = len(v) // 2
        chosen = self.rng.choice(np.flatnonzero(self.free.governing), half)
        factor = np.where(np.arange(half) % 2, WIDER, 1.0)
        v[np.arange(len(v)), np.tile(chosen, 2)] *= np.tile(factor, 2)
        return v
