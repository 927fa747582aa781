"""What a fitted q can do, in numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pymc_ext.variational.core.result import FreshDraws

Array = NDArray[np.floating]
FRESH_DRAWS = 4096  # behind a result's ELBO: its standard error is sd(log p̃/q) / 64


class Posterior(Protocol):
    """q on the unconstrained space, made from standard normals z.

    Optional: ``log_density`` (θ (N, D) -> (N,), normalised log q at any point), ``mean`` (D,),
    ``cov`` (D, D), ``std`` (D,).
    """

    @property
    def dimension(self) -> int:
        """D."""

    @property
    def latent_dimension(self) -> int:
        """K, the number of normals behind one draw."""

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and their normalised log q, (N, K) -> (N, D), (N,)."""


class LogDensity(Protocol):
    """Whatever gives log densities of rows."""

    def log_density(self, theta: Array) -> Array:
        """(N, D) -> (N,)."""


def fresh_draws(
    q: Posterior, density: LogDensity, rng: np.random.Generator, draws: int = FRESH_DRAWS
) -> FreshDraws:
    """ELBO and importance-sampling evidence from ``draws`` fresh draws of q."""
    theta, log_q = q.forward(rng.standard_normal((draws, q.latent_dimension)))
    return FreshDraws.from_log_ratios(density.log_density(theta) - log_q)
