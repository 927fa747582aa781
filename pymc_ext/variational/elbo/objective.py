"""−ELBO of a family on given draws, with gradient, from log densities and scores alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import Posterior

CHUNK = 4096  # draws together: bounds memory at CHUNK points and scores
DIFFERENCE = float(np.finfo(float).eps ** (1 / 3))  # step of a second-order difference of gradients


class Family(ABC):
    """q with free numbers ``x`` (P,)."""

    x: Array
    latent_dimension: int

    @abstractmethod
    def posterior(self) -> Posterior:
        """q at the present x, as fixed numbers."""

    @abstractmethod
    def draws(self, z: Array) -> tuple[Array, Array]:
        """θ (M, D) and weights (M,) with E_q[f] ≈ Σ_m weight_m f(θ_m) / N, from z (N, K)."""

    @abstractmethod
    def loss(self, z: Array, log_p: Array, scores: Array) -> tuple[float, Array]:
        """Σ_m weight_m (log q − log p̃)(θ_m) and its gradient in x, (P,).

        ``z`` (N, K) gave θ, where log p̃ is (M,) and scores are (M, D).
        """


class DrawsObjective:
    """−ELBO of a family on fixed draws, in x = (the family's numbers, the density's extras).

    Parameters
    ----------
    family
        q; its numbers are read and written.
    density
        What is approximated; its hyperparameters, if any, are optimised too.
    """

    def __init__(self, family: Family, density: CountedDensity) -> None:
        self.family, self.density = family, density

    @property
    def x(self) -> Array:
        """All that is free, in one vector, (P + H,)."""
        return np.concatenate([self.family.x, self.density.extra])

    @x.setter
    def x(self, x: Array) -> None:
        size = len(self.family.x)
        self.family.x, self.density.extra = np.array(x[:size], dtype=float), x[size:]

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """−ELBO on draws z (S, K) and its gradient at x, (P + H,) -> (P + H,), chunk by chunk."""
        self.x = x
        value, gradient = 0.0, np.zeros(len(x))
        for i in range(0, len(z), CHUNK):
            chunk = z[i : i + CHUNK]
            theta, weights = self.family.draws(chunk)
            log_p, scores, by_extra = self.density.weighted_gradients(theta, weights)
            part, by_family = self.family.loss(chunk, log_p, scores)
            value, gradient = value + part, gradient + np.concatenate([by_family, -by_extra])
        return value / len(z), gradient / len(z)

    def hessian_product(self, x: Array, direction: Array, z: Array) -> Array:
        """Hessian of −ELBO times ``direction``, by central differences of the gradient.

        x, ``direction`` and the product are (P + H,) each, draws z (S, K).
        """
        size = np.linalg.norm(direction)
        if size == 0:
            return np.zeros_like(x)
        h = DIFFERENCE * max(1.0, float(np.linalg.norm(x))) / size
        up, down = (self.value_and_gradient(x + s * h * direction, z)[1] for s in (1, -1))
        return (up - down) / (2 * h)
