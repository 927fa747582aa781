"""No flow is worse than the Gaussian it started from.

What only lowers k̂ can make q's plain draws worse: a flow widened until k̂ fell from .3 to −.3 had
sds 11 % too large and a lower ELBO than the Laplace fit behind it. So a setting is refused, and a
whole flow given up for its base, where its ELBO, or the sd of a coordinate, is worse than the
base's by more than Monte Carlo error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.psis import psislw
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.stages import FlowFit, pareto_khat
from pymc_ext.variational.gaussian.posteriors import Gaussian

Array = NDArray[np.floating]


@dataclass
class BaseGuard:
    """Compares a flow with its ``base`` on the draws of the same normals ``z``."""

    base: Gaussian
    fit: FlowFit
    z: Array
    policy: Policy = POLICY

    def __post_init__(self) -> None:
        theta, log_q = self.base.forward(self.z[:, : self.base.dimension])
        with np.errstate(all="ignore"):
            self._base_ratios = self.fit.density.log_density(theta) - log_q
        self._true_sd = self._weighted_sd()

    def _weighted_sd(self) -> tuple[Array, float] | None:
        """Posterior sds by the better of both q's weights, with their relative standard error."""
        found = []
        for q, ratios in ((self.fit.flow, self.fit.log_ratios(self.z)),
                          (self.base, self._base_ratios)):  # fmt: skip
            finite = np.isfinite(ratios)
            khat = pareto_khat(ratios[finite]) if finite.sum() > 100 else np.inf
            found.append((khat, q, ratios, finite))
        khat, q, ratios, finite = min(found, key=lambda item: item[0])
        if khat > self.policy.reliable_khat:
            return None
        weights = np.full(finite.sum(), 1 / finite.sum())
        if np.isfinite(khat):
            weights = np.exp(psislw(ratios[finite])[0])
        weights /= weights.sum()
        theta = q.forward(self.z[:, : q.latent_dimension])[0][finite]
        centred = theta - weights @ theta
        # an sd of n draws has relative standard error 1/√(2n), more with longer tails
        fourth = weights @ centred**4 / (weights @ centred**2) ** 2
        se = np.sqrt(np.maximum(fourth - 1, 0) * np.sum(weights**2)) / 2
        return np.sqrt(weights @ centred**2), float(se.max())

    def worse(self) -> bool:
        """Whether the flow, as it is now, is worse than the base."""
        ratios, limit = self.fit.log_ratios(self.z), self.policy.standard_errors
        if not np.isfinite(self._base_ratios).all():
            return False  # the base's ELBO is −∞
        difference = ratios - self._base_ratios
        se = np.std(difference) / np.sqrt(len(difference))
        if not np.mean(difference) >= -limit * se:  # NaN and −∞ are worse
            return True
        if self._true_sd is None:
            return False
        true, se = self._true_sd
        sd = self.fit.flow.forward(self.z)[0].std(axis=0)
        own = np.abs(sd / true - 1)
        base = np.abs(self.base.std / true - 1)
        sampling = np.sqrt(0.5 / len(self.z))
        return bool(np.any(own > base + limit * np.hypot(se, sampling)))
