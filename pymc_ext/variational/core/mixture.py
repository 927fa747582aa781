"""A weighted sum of fitted q's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import logsumexp, ndtr

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import Posterior, moment


class Component(Posterior, Protocol):
    """A q with a log density of its own."""

    def log_density(self, theta: Array) -> Array:
        """Normalised log q at any point, (N, D) -> (N,)."""


@dataclass(frozen=True, eq=False)
class PosteriorMixture(ByValue):
    """Σ_k w_k q_k; ``log_weights`` (K,), normalised."""

    log_weights: Array
    components: tuple[Component, ...]

    @property
    def dimension(self) -> int:
        """D."""
        return self.components[0].dimension

    @property
    def latent_dimension(self) -> int:
        """One normal chooses the component, as many as that needs make the draw."""
        return 1 + max(component.latent_dimension for component in self.components)

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws and log q, (N, K) -> (N, D), (N,)."""
        edges = np.cumsum(np.exp(self.log_weights))[:-1]
        k = (ndtr(z[:, :1]) > edges).sum(axis=1)  # Φ(z₀) is uniform
        theta = np.empty((len(z), self.dimension))
        for i, component in enumerate(self.components):
            theta[k == i] = component.forward(z[k == i, 1 : 1 + component.latent_dimension])[0]
        return theta, self.log_density(theta)

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,)."""
        return logsumexp(self.log_weights[:, None] + self.log_densities(theta), axis=0)

    @property
    def mean(self) -> Array:
        """(D,)."""
        return np.exp(self.log_weights) @ np.stack([moment(c, "mean") for c in self.components])

    @property
    def cov(self) -> Array:
        """(D, D)."""
        centred = np.stack([moment(c, "mean") for c in self.components]) - self.mean
        within = np.stack([moment(c, "cov") for c in self.components])
        return np.tensordot(
            np.exp(self.log_weights), within + centred[:, :, None] * centred[:, None, :], 1
        )

    @property
    def std(self) -> Array:
        """(D,)."""
        centred = np.stack([moment(c, "mean") for c in self.components]) - self.mean
        within = np.stack([moment(c, "std") for c in self.components])
        return np.sqrt(np.exp(self.log_weights) @ (within**2 + centred**2))

    def log_densities(self, theta: Array) -> Array:
        """Those of the components, (N, D) -> (K, N)."""
        return np.stack([component.log_density(theta) for component in self.components])
