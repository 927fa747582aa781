"""What a target of the zoo is: a density with its score, and exact draws to judge by."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ZooDensity"]

Array = NDArray[np.floating]


class ZooDensity(ABC):
    """log p̃ on R^D whose posterior is known: the protocol's members, and the truth.

    Attributes
    ----------
    dimension
        D.
    log_z
        log ∫ p̃, nats; NaN where it is not known.
    modes
        How many separate modes :meth:`mode_of` tells apart.
    heavy
        A fourth moment does not exist, or draws rarer than one in 10⁵ rule it, so that no feasible
        number of draws knows the sds: what is judged are quantiles.
    proper
        Whether p̃ has an integral; where it has none there are no draws.
    """

    dimension: int
    log_z: float = np.nan
    modes: int = 1
    heavy: bool = False
    proper: bool = True

    def log_density(self, theta: Array) -> Array:
        """log p̃, (N, D) -> (N,)."""
        return self.log_density_gradient(theta)[0]

    @abstractmethod
    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """log p̃ and its score, (N, D) -> (N,), (N, D); −∞ and 0 outside the support."""

    @abstractmethod
    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` independent draws of p, (n, D)."""

    def mode_of(self, theta: Array) -> NDArray[np.integer]:
        """The mode that each point belongs to, (N, D) -> (N,), in 0 … modes − 1."""
        return np.zeros(len(theta), dtype=int)
