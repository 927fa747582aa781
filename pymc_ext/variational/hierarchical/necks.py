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
from pymc_ext.variational.gaussian.natural_gradient import step_rate
from pymc_ext.variational.gaussian.numbers import antithetic, shorten_outliers
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.training import FEWEST, Free, Training

WIDER = 2.0  # times a governor's normal: at four sds of q there are as many draws as at two
MORE = 2  # times the draws of a step, of which every governor has its share


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
        self.draws, self.elbo = MORE * self.draws, elbo

    def advance(self) -> float:
        q = self.q
        at, _, scores = self._seen(self._latents())
        if len(scores) < FEWEST:
            return -self.elbo
        raw = q.pullback_at(at, scores) + at.v
        r = shorten_outliers(raw)
        length, kept = (np.linalg.norm(rows, axis=1) for rows in (raw, r))
        kept = np.divide(kept, length, out=np.zeros(len(kept)), where=length > 0)
        rate, shift = step_rate(self.since_restart), np.zeros(q.dimension)
        moved, constant = self._linked(q, at, r / at.slope / at.scale, rate, kept)
        shift[self.free.governors[0]] = rate * constant
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
