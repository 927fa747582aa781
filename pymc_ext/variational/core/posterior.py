"""What a fitted q can do, in numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pymc_ext.variational.core.result import FreshDraws

Array = NDArray[np.floating]
MOMENT_DRAWS = (
    16_384  # behind moments of a q without its own: sds to 0.6 %, means to 0.8 % of an sd
)
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


def moment(q: Posterior, name: str) -> Array:
    """``"mean"`` (D,), ``"std"`` (D,) or ``"cov"`` (D, D) of q.

    Its own where it has them, else those of `MOMENT_DRAWS` draws, always the same.
    """
    if hasattr(q, name):
        return np.asarray(getattr(q, name), dtype=float)
    if name == "std" and hasattr(q, "cov"):
        return np.sqrt(np.diag(q.cov))
    z = np.random.default_rng(0).standard_normal((MOMENT_DRAWS, q.latent_dimension))
    theta, _ = q.forward(z)
    if name == "cov":
        return np.atleast_2d(np.cov(theta.T))
    return theta.mean(axis=0) if name == "mean" else theta.std(axis=0, ddof=1)


class LogDensity(Protocol):
    """Whatever gives log densities of rows."""

    def log_density(self, theta: Array) -> Array:
        """(N, D) -> (N,)."""


def fresh_draws(
    q: Posterior, density: LogDensity, rng: np.random.Generator, draws: int = FRESH_DRAWS
) -> FreshDraws:
    """ELBO and importance-sampling evidence from ``draws`` fresh draws of q."""
    theta, log_q = q.forward(rng.standard_normal((draws, q.latent_dimension)))
    with np.errstate(all="ignore"):  # a draw where log p̃ overflows has no weight
        return FreshDraws.from_log_ratios(density.log_density(theta) - log_q)
