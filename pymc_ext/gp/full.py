"""The only factorisation of the posterior that Gaussian sites make with a full prior.

Notation (R&W chapter 3): prior N(m, K); sites t_i(f) = exp(ν_i f − τ_i f²/2), unnormalised, τ_i of
any sign; T = diag τ. Posterior N(μ, S) with S = (K⁻¹ + T)⁻¹, μ = m + Kα, R = (I + TK)⁻¹T so that
S = K − KRK. K is never inverted or factorised, so it may be singular (duplicated inputs).

Negative τ: with T = T₊ − T₋, the non-negative part gives B = I + T₊^½ K T₊^½ and S₊; the k negative
sites are a rank-k downdate of S₊ that exists iff C = I − T₋^½ S₊ T₋^½ is positive definite.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from pymc_ext.gp.covariance import (
    ASYMMETRY,
    cholesky,
    refuse_covariance,
    refuse_indefinite,
    relative_jitter,
    weighted_gram,
)
from pymc_ext.gp.errors import ImproperPosteriorError
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.gp.stacked import StackedPosterior
from pymc_ext.maths.types import Array

# Share of the largest prior variance in place of a variance of 0, to divide by. A choice: from
# 1e-28 to 1e-16 evidences and gradients differ by 5e-11 at most, relative
SMALLEST = 1e-20
# Share of the prior variance taken by a site below which 1 − B⁻¹_ii cancels: 13 digits are left at
# it. A choice: ten times either way moves means by 5e-10 sd, gradients by 6e-9 at most
WEAK = 1e-3


class FullPrior:
    """N(mean, K) over the latents of the observations.

    Parameters
    ----------
    mean : (n,) array
    K : (n, n) array
        Symmetric and positive semi-definite.
    """

    jitter = 0.0  # none is needed: K is never factorised

    def __init__(self, mean: Array, K: Array):
        self.mean, self.K = mean, K

    def check(self) -> None:
        """Raise ValueError unless K is symmetric and positive semi-definite up to rounding."""
        if not np.allclose(self.K, self.K.T, rtol=ASYMMETRY, atol=ASYMMETRY):
            raise ValueError("the covariance K is not symmetric: check the covariance function")
        if np.any(np.diag(self.K) < 0) or cholesky(self.K, relative_jitter(self.K)) is None:
            refuse_covariance(self.K, "K")

    def condition(self, sites: GaussianSites) -> FullPosterior | StackedPosterior:
        """Posterior under the sites; raises ImproperPosteriorError if there is none."""
        if sites.linear.ndim == 2:
            return StackedPosterior([FullPosterior(self, s) for s in sites.by_latent()], sites)
        return FullPosterior(self, sites)

    def draw(self, rng: np.random.Generator) -> Array:
        """One f ~ N(mean, K), by eigenvalues as K may be singular."""
        return rng.multivariate_normal(self.mean, self.K, method="eigh")


class FullPosterior:
    """N(μ, S) from a `FullPrior` and sites; see the module's docstring for the symbols."""

    def __init__(self, prior: FullPrior, sites: GaussianSites):
        self.prior, self.sites = prior, sites
        K, tau = prior.K, sites.precision
        self._root = np.sqrt(np.maximum(tau, 0.0))  # T₊^½
        self._L = self._factor(K)
        self._negative = np.flatnonzero(tau < 0)
        if self._negative.size:
            self._downdate()
        self.alpha = self._alpha(np.diag(K) * tau > 1)
        self.mean = prior.mean + K @ self.alpha

    def _alpha(self, strong: NDArray[np.bool_]) -> Array:
        """α = Pᵀc for c = ν − Tm, by Pᵀ = R T⁻¹ at strong sites, where c − RKc would cancel."""
        tau, K = self.sites.precision, self.prior.K
        c = self.sites.linear - tau * self.prior.mean
        weak = np.where(strong, 0.0, c)
        locations = np.divide(c, tau, out=np.zeros_like(c), where=strong)
        return weak + self._apply_R(locations - K @ weak)

    def _factor(self, K: Array) -> Array:
        B = K * self._root
        B *= self._root[:, None]
        B[np.diag_indices_from(B)] += 1.0
        L, info = lapack.dpotrf(B.T, lower=1, overwrite_a=1)
        if info:
            refuse_indefinite(K, "K")
            raise ImproperPosteriorError(
                f"sites of precision up to {self.sites.precision.max():.3g} on prior variances up "
                f"to {np.diag(K).max():.3g} leave no posterior to rounding"
            )
        return L

    def _downdate(self) -> None:
        i = self._negative
        self._root_minus = np.sqrt(-self.sites.precision[i])
        scaled = self._root[:, None] * self.prior.K[:, i]
        half, _ = lapack.dtrtrs(self._L, scaled, lower=1)
        S = self.prior.K[np.ix_(i, i)] - half.T @ half
        C = np.eye(i.size) - self._root_minus[:, None] * S * self._root_minus
        self._C, info = lapack.dpotrf(C, lower=1)
        if info:
            raise ImproperPosteriorError(
                f"{i.size} sites of negative precision outweigh the prior: no Gaussian posterior "
                "exists; use a smaller step (damping, rho) or another rule"
            )
        # U = (I − R₊K)[:, negative] T₋^½ C^{-T}, so that R = R₊ − U Uᵀ
        G = -self._root[:, None] * self._solve_B(scaled)
        G[i, np.arange(i.size)] += 1.0
        G *= self._root_minus
        self._U = lapack.dtrtrs(self._C, G.T, lower=1)[0].T

    def _solve_B(self, x: Array) -> Array:
        return lapack.dpotrs(self._L, x, lower=1)[0]

    def _apply_R(self, x: Array) -> Array:
        y = self._root * self._solve_B(self._root * x).reshape(x.shape)
        return y - self._U @ (self._U.T @ x) if self._negative.size else y

    def apply_covariance(self, x: Array) -> Array:
        """S x, (n,)."""
        Kx = self.prior.K @ x
        return Kx - self.prior.K @ self._apply_R(Kx)

    @cached_property
    def centred_log_normaliser(self) -> float:
        """log ∫ N(f | m, K) Π t_i(f_i)/t_i(μ_i) df = −½(log|I + TK| + αᵀ(μ − m))."""
        return -0.5 * (self.log_det + float(self.alpha @ (self.mean - self.prior.mean)))

    @cached_property
    def log_det(self) -> float:
        """log|I + TK|."""
        total = 2 * np.sum(np.log(np.diag(self._L)))
        if self._negative.size:
            total += 2 * np.sum(np.log(np.diag(self._C)))
        return float(total)

    @cached_property
    def _half(self) -> Array:
        """L⁻¹ T₊^½ K, whose columns' squares are what the sites took from the variances."""
        return lapack.dtrtrs(
            self._L, np.asfortranarray(self._root[:, None] * self.prior.K), lower=1
        )[0]

    @cached_property
    def variance(self) -> Array:
        """Diagonal of S, (n,); rounding below eps K_ii is set there, and 0 to a trace, so S_ii > 0.

        (1 − B⁻¹_ii)/τ_i, accurate for large K; where that cancels, K_ii less what the sites took.
        """
        k, tau = np.diag(self.prior.K), np.maximum(self.sites.precision, 0.0)
        taken = 1 - np.einsum("ji,ji->i", self._inverse_factor, self._inverse_factor)
        v = taken / np.where(tau > 0, tau, 1.0)
        weak = np.flatnonzero(taken < WEAK)
        if weak.size:
            columns = np.asfortranarray(self._root[:, None] * self.prior.K[:, weak])
            half, _ = lapack.dtrtrs(self._L, columns, lower=1, overwrite_b=1)
            v[weak] = k[weak] - np.einsum("ij,ij->j", half, half)
        if self._negative.size:
            v = v + np.sum((self.prior.K @ self._U) ** 2, axis=1)
        return np.maximum(v, np.finfo(float).eps * k + SMALLEST * (np.max(k) or 1.0))

    @cached_property
    def _inverse_factor(self) -> Array:
        """L⁻¹, whose squares sum over the rows to the diagonal of B⁻¹."""
        return lapack.dtrtri(self._L, lower=1)[0]

    @property
    def residual(self) -> Array:
        """Prior variance that no site can touch: none in the full model."""
        return np.zeros_like(self.mean)

    @cached_property
    def R(self) -> Array:
        """(I + TK)⁻¹T, (n, n)."""
        lower, _ = lapack.dlauum(self._inverse_factor, lower=1)  # B⁻¹, zero above the diagonal
        lower[np.diag_indices_from(lower)] /= 2
        R = lower + lower.T
        R *= self._root
        R *= self._root[:, None]
        return R - self._U @ self._U.T if self._negative.size else R

    @cached_property
    def S(self) -> Array:
        """Posterior covariance, (n, n)."""
        S = self.prior.K - self._half.T @ self._half
        if self._negative.size:
            KU = self.prior.K @ self._U
            S += KU @ KU.T
        return S

    def gradient(
        self,
        mean: Array | None = None,
        variance: Array | None = None,
        residual: Array | None = None,
    ) -> tuple[Array, ...]:
        """Gradients in (m, K) at fixed sites of log ∫ p Π t + a function of the marginals.

        ``mean``, ``variance``, ``residual`` are that function's derivatives in them, none if None.
        The first term gives α and ½(ααᵀ − R); the second follows from dμ = P(dm + dK α),
        dS = P dK Pᵀ with P = I − KR = S K⁻¹.
        """
        pulled = np.zeros_like(self.alpha) if mean is None else self._apply_P_transposed(mean)
        half = pulled + 0.5 * self.alpha
        by_K = np.stack([half, self.alpha], axis=1) @ np.stack([self.alpha, half])
        by_K -= self.R
        by_K *= 0.5
        if variance is not None and np.any(variance):
            by_K += weighted_gram(self._P_transposed, variance)
        return pulled + self.alpha, by_K

    @property
    def _P_transposed(self) -> Array:
        """Pᵀ = I − RK, (n, n), as R T⁻¹ where the site says something: R = T − TST, Pᵀ = I − TS."""
        tau, K = self.sites.precision, self.prior.K
        weak = np.flatnonzero(np.abs(tau) * np.diag(K) < WEAK)
        P = self.R / np.where(tau == 0, 1.0, tau)
        P[:, weak] = -self.R @ K[:, weak]
        P[weak, weak] += 1.0
        return P

    def _apply_P_transposed(self, x: Array) -> Array:
        return x - self.R @ (self.prior.K @ x)

    def pull_back_to_sites(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """The same function's gradients in (ν, τ): dμ = S(dν − μ dτ), dS_ii = −Σ_j S_ij² dτ_j."""
        K = self.prior.K
        Kx = K @ mean
        by_linear = Kx - K @ (self.R @ Kx)
        by_precision = -self.mean * by_linear
        if np.any(variance):
            by_precision -= self._squared @ variance
        return by_linear, by_precision

    @cached_property
    def _squared(self) -> Array:
        return self.S**2

    def weights(self) -> tuple[Array, Array, Array]:
        """(w, F, G): f* has mean m* + K*ₓ w, covariance K** − K*ₓ F Fᵀ Kₓ* + K*ₓ G Gᵀ Kₓ*.

        R = FFᵀ − GGᵀ, all (n, n) so that their shapes are known before; K*ₓ R Kₓ* would cancel
        where the data leave little of the prior variance.
        """
        F = self._root[:, None] * self._inverse_factor.T
        G = np.zeros_like(F)
        if self._negative.size:
            G[:, : self._negative.size] = self._U
        return self.alpha, F, G
