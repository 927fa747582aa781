"""What rules, evidence formulas and the solver ask of a prior and of the posterior it makes.

`sites.FullPrior` and `sparse.SparsePrior` are priors; their ``condition`` gives the posterior under
Gaussian sites. Shapes: n observations, L latents an observation; with L > 1 every (n,) is (n, L).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_ext.gp.sites import GaussianSites

Arrays = tuple[np.ndarray, ...]


class Posterior(Protocol):
    """N(μ, S) of the latents, from a prior and Gaussian sites."""

    @property
    def sites(self) -> GaussianSites: ...

    @property
    def mean(self) -> np.ndarray:
        """μ, (n,)."""

    @property
    def variance(self) -> np.ndarray:
        """Diagonal of S, (n,)."""

    @property
    def residual(self) -> np.ndarray:
        """Prior variance that no site can touch, (n,)."""

    @property
    def alpha(self) -> np.ndarray:
        """ν − τμ, without cancellation, (n,)."""

    @property
    def centred_log_normaliser(self) -> float:
        """log ∫ N(f | m, K) Π t_i(f_i)/t_i(μ_i) df."""

    def gradient(
        self,
        mean: np.ndarray | None = None,
        variance: np.ndarray | None = None,
        residual: np.ndarray | None = None,
    ) -> Arrays:
        """Gradients in the prior's inputs of the log normaliser and a function of the marginals."""

    def pull_back_to_sites(
        self, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same function's gradients in (ν, τ)."""

    def weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(w, F, G) of predictions, see `ops.SiteWeights`."""


class Prior(Protocol):
    """N(m, K) over the latents of the observations."""

    @property
    def mean(self) -> np.ndarray:
        """m, (n,)."""

    @property
    def jitter(self) -> float:
        """What was added to a covariance where that decides, else 0."""

    def check(self) -> None:
        """Raise ValueError unless the covariance is one."""

    def condition(self, sites: GaussianSites) -> Posterior:
        """Posterior under the sites; raises ImproperPosteriorError if there is none."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """One f, (n,)."""
