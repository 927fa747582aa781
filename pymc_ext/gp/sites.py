"""Gaussian sites: what a rule puts in the place of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.maths.types import Array


@dataclass(frozen=True)
class GaussianSites:
    """Unnormalised Gaussian factors t_i(f) = exp(linear_i f − precision_i f²/2).

    Parameters
    ----------
    linear
        ν = precision × location, (n,) or (n, L) for L latents an observation.
    precision
        τ, (n,) or (n, L), of any sign.
    """

    linear: Array
    precision: Array

    @classmethod
    def flat(cls, n: int, n_latent: int = 1) -> GaussianSites:
        """Sites that say nothing."""
        shape = n if n_latent == 1 else (n, n_latent)
        return cls(np.zeros(shape), np.zeros(shape))

    def step(self, target: GaussianSites, rho: float) -> GaussianSites:
        """(1 − ρ) self + ρ target, in natural parameters."""
        return GaussianSites(
            (1 - rho) * self.linear + rho * target.linear,
            (1 - rho) * self.precision + rho * target.precision,
        )

    def distance(self, other: GaussianSites) -> float:
        """Largest difference of any natural parameter, relative where it is above 1."""
        pairs = ((self.linear, other.linear), (self.precision, other.precision))
        return max(float(np.max(np.abs(a - b) / (1 + np.abs(a)))) for a, b in pairs)

    def by_latent(self) -> list[GaussianSites]:
        """Those of each latent, (n,) each."""
        pairs = zip(self.linear.T, self.precision.T, strict=True)
        return [GaussianSites(np.ascontiguousarray(a), np.ascontiguousarray(b)) for a, b in pairs]
