"""A Gaussian whose root is a diagonal times a low-rank change of the identity, in numbers.

Notation: R = diag(s)(I + U (K − I) Uᵀ) is a root of the covariance, Σ = R Rᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array


def root_product(z: Array, scale: Array, basis: Array, core: Array) -> Array:
    """R z of one Gaussian, rows (N, D), or of T of them, (T, N, D) with s (T, D) and so on."""
    inner = (z @ basis) @ transposed(core - np.eye(core.shape[-1]))
    return (z + inner @ transposed(basis)) * scale[..., None, :]


def root_transposed_product(x: Array, scale: Array, basis: Array, core: Array) -> Array:
    """Rᵀ x, shaped as in :func:`root_product`."""
    x = x * scale[..., None, :]
    return x + ((x @ basis) @ (core - np.eye(core.shape[-1]))) @ transposed(basis)


def transposed(matrices: Array) -> Array:
    """Of the last two axes."""
    return np.swapaxes(matrices, -1, -2)


@dataclass(frozen=True)
class LowRankGaussian:
    """N(μ, R Rᵀ) with R = diag(s)(I + U (K − I) Uᵀ): O(D rank) numbers, and as many a draw.

    Parameters
    ----------
    mean, scale
        μ and s > 0, (D,).
    basis
        U, orthonormal columns, (D, rank).
    core
        K, invertible, (rank, rank).
    """

    mean: Array
    scale: Array
    basis: Array
    core: Array

    @classmethod
    def from_factor(cls, mean: Array, factor: Array, variance: Array) -> LowRankGaussian:
        """N(μ, Λ Λᵀ + diag ψ): μ (D,), ``factor`` Λ (D, rank), ``variance`` ψ > 0 (D,)."""
        scale = np.sqrt(variance)
        # Σ = diag(√ψ)(I + A Aᵀ)diag(√ψ), A = Λ/√ψ = U diag(c) Vᵀ: (I + A Aᵀ)^½ is √(1 + c²) on U
        basis, c, _ = np.linalg.svd(factor / scale[:, None], full_matrices=False)
        return cls(mean, scale, basis, np.diag(np.sqrt(1 + c**2)))

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.mean)

    latent_dimension = dimension

    @property
    def rank(self) -> int:
        """Columns of U."""
        return self.basis.shape[1]

    @cached_property
    def log_det(self) -> float:
        """log|det R|."""
        return float(np.log(self.scale).sum() + np.linalg.slogdet(self.core)[1])

    def root_product(self, z: Array) -> Array:
        """R z, rows (N, D) -> (N, D)."""
        return root_product(z, self.scale, self.basis, self.core)

    def root_transposed_product(self, x: Array) -> Array:
        """Rᵀ x, rows (N, D) -> (N, D)."""
        return root_transposed_product(x, self.scale, self.basis, self.core)

    def root_solve(self, x: Array) -> Array:
        """R⁻¹ x, rows (N, D) -> (N, D)."""
        x = x / self.scale
        inner = x @ self.basis
        return x + (np.linalg.solve(self.core, inner.T).T - inner) @ self.basis.T

    def root_transposed_solve(self, x: Array) -> Array:
        """R⁻ᵀ x, rows (N, D) -> (N, D)."""
        inner = x @ self.basis
        x = x + (np.linalg.solve(self.core.T, inner.T).T - inner) @ self.basis.T
        return x / self.scale

    @cached_property
    def factor(self) -> Array:
        """Λ with Σ = Λ Λᵀ + diag(s²), (D, rank); for one made by :meth:`from_factor`."""
        variances, axes = np.linalg.eigh(self.core @ self.core.T)
        longer = np.sqrt(np.maximum(variances - 1, 0))
        return self.scale[:, None] * (self.basis @ axes) * longer

    @cached_property
    def precision_diagonal(self) -> Array:
        """Diagonal of Σ⁻¹, (D,)."""
        half = np.linalg.solve(self.core, self.basis.T)
        return (1 + np.sum(half**2, axis=0) - np.sum(self.basis**2, axis=1)) / self.scale**2

    def narrowed(self, factor: float) -> LowRankGaussian:
        """With sds divided by ``factor``."""
        return replace(self, scale=self.scale / factor)

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ = μ + R z and log q, (N, D) -> (N, D), (N,)."""
        return self.mean + self.root_product(z), standard_normal_logp(z) - self.log_det

    def pullback(self, z: Array, score: Array) -> Array:
        """Score in z of log p̃(θ(z)) + log|det R|, from the score at θ; (N, D) each."""
        return self.root_transposed_product(score)

    def inverse(self, theta: Array) -> Array:
        """z with θ(z) = θ, (N, D) -> (N, D)."""
        return self.root_solve(theta - self.mean)

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,)."""
        return standard_normal_logp(self.inverse(theta)) - self.log_det

    @property
    def std(self) -> Array:
        """(D,)."""
        # rows of R: s_i (e_i + U_i (K − I) Uᵀ), squared with UᵀU = I
        change = self.basis @ (self.core - np.eye(self.rank))
        squared = 1 + 2 * np.sum(change * self.basis, axis=1) + np.sum(change**2, axis=1)
        return self.scale * np.sqrt(squared)

    @property
    def cov(self) -> Array:
        """(D, D): the only member of size D²."""
        root = self.root_product(np.eye(self.dimension))
        return root.T @ root
