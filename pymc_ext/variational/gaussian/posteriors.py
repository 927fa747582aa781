"""Fitted Gaussians and their mixtures, in numbers: draws, log q, moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.gaussian.numbers import cholesky


@dataclass(frozen=True, eq=False)
class Gaussian(ByValue):
    """N(μ, LLᵀ).

    Parameters
    ----------
    mean
        μ, shape (D,).
    root
        L, any root of the covariance, shape (D, D).
    known_inverse
        L⁻¹, (D, D); None computes it.
    """

    mean: Array
    root: Array
    known_inverse: Array | None = None

    @classmethod
    def of_draws(cls, theta: Array) -> Gaussian:
        """With the first two moments of draws (N, D)."""
        return cls(theta.mean(axis=0), cholesky(np.atleast_2d(np.cov(theta.T))))

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.mean)

    latent_dimension = dimension

    @property
    def numbers(self) -> Array:
        """All that a fit moves, (D + D²,)."""
        return np.concatenate([self.mean, self.root.ravel()])

    @cached_property
    def root_inverse(self) -> Array:
        """L⁻¹, (D, D)."""
        known = self.known_inverse
        return np.linalg.inv(self.root) if known is None else known

    @cached_property
    def log_det(self) -> float:
        """log|det L|."""
        return float(np.linalg.slogdet(self.root)[1])

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ = μ + L z and log q, (N, D) -> (N, D), (N,)."""
        return self.mean + z @ self.root.T, standard_normal_logp(z) - self.log_det

    def inverse(self, theta: Array) -> Array:
        """z = L⁻¹ (θ − μ), (N, D) -> (N, D)."""
        return (theta - self.mean) @ self.root_inverse.T

    def pullback(self, z: Array, score: Array) -> Array:
        """Score in z of log p̃(T(z)) + log|det|, from that of log p̃ at T(z); each is (N, D)."""
        return score @ self.root

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,)."""
        return standard_normal_logp(self.inverse(theta)) - self.log_det

    def narrowed(self, factor: float) -> Gaussian:
        """With sds divided by ``factor``."""
        return Gaussian(self.mean, self.root / factor)

    @cached_property
    def cov(self) -> Array:
        """(D, D)."""
        return self.root @ self.root.T

    @property
    def std(self) -> Array:
        """(D,)."""
        return np.sqrt(np.sum(self.root**2, axis=1))


@dataclass(frozen=True, eq=False)
class DiagonalGaussian(ByValue):
    """N(μ, diag(σ²)), in O(D) a draw; ``mean`` (D,) and ``std`` (D,)."""

    mean: Array
    std: Array

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.mean)

    latent_dimension = dimension

    @property
    def numbers(self) -> Array:
        """All that a fit moves, (2 D,)."""
        return np.concatenate([self.mean, self.std])

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ = μ + σ z and log q, (N, D) -> (N, D), (N,)."""
        return self.mean + self.std * z, standard_normal_logp(z) - self.log_det

    def inverse(self, theta: Array) -> Array:
        """z = (θ − μ) / σ, (N, D) -> (N, D)."""
        return (theta - self.mean) / self.std

    def pullback(self, z: Array, score: Array) -> Array:
        """Score in z of log p̃(T(z)) + log|det|, from that of log p̃ at T(z); each is (N, D)."""
        return score * self.std

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,)."""
        return standard_normal_logp(self.inverse(theta)) - self.log_det

    @cached_property
    def log_det(self) -> float:
        """log|det diag(σ)|."""
        return float(np.log(self.std).sum())

    @property
    def cov(self) -> Array:
        """(D, D)."""
        return np.diag(self.std**2)


@dataclass(frozen=True, eq=False)
class GaussianMixture(PosteriorMixture):
    """Σ_k w_k N(μ_k, L_k L_kᵀ); ``log_weights`` (K,), normalised."""

    components: tuple[Gaussian, ...]

    @property
    def numbers(self) -> Array:
        """All that a fit moves, (K + K (D + D²),)."""
        return np.concatenate([self.log_weights, *(c.numbers for c in self.components)])
