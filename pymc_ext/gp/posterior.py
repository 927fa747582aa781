"""What rules, evidence formulas and the solver ask of a prior and of the posterior it makes.

`sites.FullPrior` and `sparse.SparsePrior` are priors; their ``condition`` gives the posterior under
Gaussian sites. Shapes: n observations, L latents an observation; with L > 1 every (n,) is (n, L).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_ext.gp.sites import GaussianSites
from pymc_ext.maths.types import Array

Arrays = tuple[Array, ...]


class Posterior(Protocol):
    """N(μ, S) of the latents, from a prior and Gaussian sites."""

    @property
    def sites(self) -> GaussianSites: ...

    @property
    def mean(self) -> Array:
        """μ, (n,)."""

    @property
    def variance(self) -> Array:
        """Diagonal of S, (n,)."""

    @property
    def residual(self) -> Array:
        """Prior variance that no site can touch, (n,)."""

    @property
    def alpha(self) -> Array:
        """ν − τμ, without cancellation, (n,)."""

    @property
    def centred_log_normaliser(self) -> float:
        """log ∫ N(f | m, K) Π t_i(f_i)/t_i(μ_i) df."""

    def gradient(
        self,
        mean: Array | None = None,
        variance: Array | None = None,
        residual: Array | None = None,
    ) -> Arrays:
        """Gradients in the prior's inputs of the log normaliser and a function of the marginals."""

    def pull_back_to_sites(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """The same function's gradients in (ν, τ)."""

    def weights(self) -> tuple[Array, Array, Array]:
        """(w, F, G) of predictions, see `ops.SiteWeights`."""


class Prior(Protocol):
    """N(m, K) over the latents of the observations."""

    @property
    def mean(self) -> Array:
        """m, (n,)."""

    @property
    def jitter(self) -> float:
        """What was added to a covariance where that decides, else 0."""

    def check(self) -> None:
        """Raise ValueError unless the covariance is one."""

    def condition(self, sites: GaussianSites) -> Posterior:
        """Posterior under the sites; raises ImproperPosteriorError if there is none."""

    def draw(self, rng: np.random.Generator) -> Array:
        """One f, (n,)."""
