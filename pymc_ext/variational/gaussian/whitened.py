"""Families of Gaussians in whitened coordinates, as a fit on fixed draws moves them.

θ = μ₀ + C(m + A z): μ₀ and C are the base's and stay, x = (m, p) is free, A = A(p) as in
:mod:`.noise`. A family gives draws with log q, and the gradient of the loss from scores alone.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.elbo.objective import Family
from pymc_ext.variational.gaussian.noise import Noise
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian


class WhitenedGaussian(Family):
    """N(μ₀ + C m, (CA)(CA)ᵀ) with C a matrix (D, D)."""

    def __init__(self, noise: Noise, center: Array) -> None:
        self.noise, self.dimension = noise, len(center)
        self.latent_dimension = self.dimension
        eye = np.eye(self.dimension)
        self.set_base(center, eye, eye)

    def set_base(self, center: Array, factor: Array, inverse: Array) -> None:
        """Set μ₀ (D,), C and C⁻¹ (D, D); m = 0 and A = I."""
        self.center, self.factor, self.factor_inverse = center, factor, inverse
        self.x = np.concatenate([np.zeros(self.dimension), self.noise.initial()])

    @property
    def m(self) -> Array:
        """Shift in whitened coordinates, (D,)."""
        return self.x[: self.dimension]

    @property
    def p(self) -> Array:
        """Free numbers of A, (P − D,)."""
        return self.x[self.dimension :]

    def posterior(self) -> Gaussian:
        """q at the present x."""
        eye = np.eye(self.dimension)
        root = self.factor @ self.noise.apply(self.p, eye).T
        inverse = self.noise.solve(self.p, self.factor_inverse.T).T
        return Gaussian(self.center + self.factor @ self.m, root, inverse)

    def draws(self, z: Array) -> tuple[Array, Array]:
        return self._color(self.m + self.noise.apply(self.p, z)), np.ones(len(z))

    def loss(self, z: Array, log_p: Array, scores: Array) -> tuple[float, Array]:
        # log q = log N(z) − log|det CA|: the draws themselves do not depend on x
        log_q = standard_normal_logp(z) - self.log_det()
        gradient = self.pullback(z, scores) + len(z) * self.log_det_gradient()
        return float(np.sum(log_q - log_p)), -gradient

    def pullback(self, z: Array, scores: Array) -> Array:
        """∂/∂x of Σ_n s_nᵀ θ(z_n), (P,), from z and s (N, D)."""
        g = self._whiten_scores(scores)
        return np.concatenate([g.sum(axis=0), self.noise.pullback(self.p, g, z)])

    def log_det(self) -> float:
        """log|det CA|."""
        return self._log_det() + self.noise.log_det(self.p)

    def log_det_gradient(self) -> Array:
        """Its gradient in x, (P,)."""
        return np.concatenate([np.zeros(self.dimension), self.noise.log_det_gradient(self.p)])

    def _color(self, x: Array) -> Array:
        """μ₀ + C x, row by row."""
        return self.center + x @ self.factor.T

    def _whiten_scores(self, scores: Array) -> Array:
        """Cᵀ s, row by row."""
        return scores @ self.factor

    def _log_det(self) -> float:
        """log|det C|."""
        return float(np.linalg.slogdet(self.factor)[1])


class WhitenedDiagonal(WhitenedGaussian):
    """The same with C = diag(c) kept as a vector, O(D) a draw (VI-diag, eq. 12)."""

    def __init__(self, noise: Noise, center: Array) -> None:
        self.noise, self.dimension = noise, len(center)
        self.latent_dimension = self.dimension
        self.set_scale(center, np.ones(self.dimension))

    def set_scale(self, center: Array, scale: Array) -> None:
        """Set μ₀ and c (D,); m = p = 0."""
        self.center, self.scale = center, scale
        self.x = np.concatenate([np.zeros(self.dimension), self.noise.initial()])

    def posterior(self) -> DiagonalGaussian:  # type: ignore[override]  # in O(D)
        """q at the present x."""
        return DiagonalGaussian(
            self.center + self.scale * self.m,
            self.scale * self.noise.apply(self.p, np.ones((1, self.dimension)))[0],
        )

    def _color(self, x: Array) -> Array:
        return self.center + x * self.scale

    def _whiten_scores(self, scores: Array) -> Array:
        return scores * self.scale

    def _log_det(self) -> float:
        return float(np.log(self.scale).sum())
