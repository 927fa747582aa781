"""The posterior of Gaussian sites on inducing variables.

Notation: inducing inputs z with K_mm = L Lᵀ, V = L⁻¹ K_mn (m, n); the sites act on the projected
latents g = m + Vᵀ(whitened u), whose prior covariance is Q = VᵀV; f_i given g_i has the residual
variance d_i = k_ii − Q_ii. With T = diag τ of any sign, B = I + V T Vᵀ must be positive definite.
The same numbers come out as in `full.FullPosterior` with Q for K, at cost n m².

References: Titsias (2009), Variational learning of inducing variables in sparse Gaussian processes;
Adam, Chang, Khan & Solin (2021), Dual parameterization of sparse variational Gaussian processes,
arXiv:2111.03412 (tied sites); Li, John & Solin (2023), eqs. (10)-(13).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular

from pymc_ext.gp.covariance import jittered_cholesky, weighted_gram
from pymc_ext.gp.errors import ImproperPosteriorError
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.gp.stacked import StackedPosterior
from pymc_ext.maths.types import Array


class SparsePrior:
    """Prior of the latents through inducing variables.

    Parameters
    ----------
    mean : (n,) array
        Mean function at the observations.
    K_mm : (m, m) array
        Covariance of the inducing variables.
    K_nm : (n, m) array
        Covariance between observations and inducing variables.
    k_nn : (n,) array
        Prior variances at the observations.
    """

    def __init__(self, mean: Array, K_mm: Array, K_nm: Array, k_nn: Array):
        self.mean = mean
        self.factor = jittered_cholesky(K_mm, "K_mm of the inducing inputs")
        self.L = self.factor.L
        self.V = solve_triangular(self.L, K_nm.T, lower=True, check_finite=False)
        d = k_nn - np.einsum("ij,ij->j", self.V, self.V)
        self.residual = np.maximum(d, 0.0)  # d >= 0 up to rounding, and the jitter keeps it so

    @property
    def jitter(self) -> float:
        """What was added to K_mm where that decides, else 0."""
        return self.factor.jitter

    def check(self) -> None:
        """Nothing more: the factorisation of K_mm was the check."""

    def condition(self, sites: GaussianSites) -> SparsePosterior | StackedPosterior:
        """Posterior under the sites; raises ImproperPosteriorError if there is none."""
        if sites.linear.ndim == 2:
            return StackedPosterior([SparsePosterior(self, s) for s in sites.by_latent()], sites)
        return SparsePosterior(self, sites)

    def draw(self, rng: np.random.Generator) -> Array:
        """One f with the exact marginals: projected latents plus independent residuals."""
        projected = self.V.T @ rng.standard_normal(len(self.L))
        return self.mean + projected + np.sqrt(self.residual) * rng.standard_normal(len(self.mean))


class SparsePosterior:
    """N(μ, S) of the projected latents, and the residual variance on top of it."""

    def __init__(self, prior: SparsePrior, sites: GaussianSites):
        self.prior, self.sites = prior, sites
        V, tau = prior.V, sites.precision
        B = weighted_gram(V, tau)
        B[np.diag_indices_from(B)] += 1.0
        self._L, info = lapack.dpotrf(B, lower=1)
        if info:
            raise ImproperPosteriorError(
                f"{np.sum(tau < 0)} sites of negative precision outweigh the prior: no Gaussian "
                "posterior exists; use a smaller step (damping, rho) or another rule"
            )
        self.beta = self._solve(V @ (sites.linear - tau * prior.mean))
        self.mean = prior.mean + V.T @ self.beta
        self.alpha = sites.linear - tau * self.mean

    def _solve(self, x: Array) -> Array:
        return lapack.dpotrs(self._L, x, lower=1)[0].reshape(x.shape)

    def apply_covariance(self, x: Array) -> Array:
        """Covariance of the projected latents times x, (n,)."""
        return self.prior.V.T @ self._solve(self.prior.V @ x)

    @property
    def residual(self) -> Array:
        """d, (n,)."""
        return self.prior.residual

    @cached_property
    def variance(self) -> Array:
        """Diagonal of VᵀB⁻¹V, the variances of the projected latents, (n,)."""
        tiny = np.finfo(float).eps * np.max(np.einsum("ij,ij->j", self.prior.V, self.prior.V))
        return np.maximum(np.einsum("ij,ij->j", self._half, self._half), tiny)

    @cached_property
    def centred_log_normaliser(self) -> float:
        """log ∫ N(g | m, Q) Π t_i(g_i)/t_i(μ_i) dg = −½(log|B| + αᵀ(μ − m))."""
        log_det = 2 * np.sum(np.log(np.diag(self._L)))
        return -0.5 * float(log_det + self.alpha @ (self.mean - self.prior.mean))

    @cached_property
    def _half(self) -> Array:
        """L⁻¹V for B = L Lᵀ, (m, n)."""
        return lapack.dtrtrs(self._L, self.prior.V, lower=1)[0]

    @cached_property
    def _Y(self) -> Array:
        """B⁻¹V, (m, n)."""
        return lapack.dtrtrs(self._L, self._half, lower=1, trans=1)[0]

    def gradient(
        self,
        mean: Array | None = None,
        variance: Array | None = None,
        residual: Array | None = None,
    ) -> tuple[Array, ...]:
        """Gradients in (m, K_mm, K_nm, k_nn) at fixed sites of log ∫ p Π t + a function.

        ``mean``, ``variance``, ``residual`` are the derivatives of a function of the marginals in
        them, none if None. The first term gives α, by V  β αᵀ − Y T with Y = B⁻¹V. The function:
        1. dβ = B⁻¹(dV α − V T dVᵀβ), dμ = dm + dVᵀβ + Vᵀdβ, so with w = B⁻¹V c_μ:
           by V  β c_μᵀ + w αᵀ − β (T Vᵀw)ᵀ, by m  c_μ − T Vᵀw.
        2. v_i = V_iᵀB⁻¹V_i: by V  2 Y D_v − 2 (Y D_v Yᵀ) V T.
        3. d_i = k_ii − V_iᵀV_i: by V  −2 V D_d, by k_ii  c_d.
        """
        V, Y, tau = self.prior.V, self._Y, self.sites.precision
        by_V, by_m, by_k = np.outer(self.beta, self.alpha), self.alpha.copy(), np.zeros_like(tau)
        by_V -= Y * tau
        if mean is not None and np.any(mean):
            w = Y @ mean
            pulled = mean - tau * (V.T @ w)
            by_m += pulled
            by_V += np.stack([self.beta, w], axis=1) @ np.stack([pulled, self.alpha])
        if variance is not None and np.any(variance):
            by_V += (2 * variance) * Y
            by_V -= (weighted_gram(Y, 2 * variance) @ V) * tau
        if residual is not None:
            by_k += residual
            by_V -= V * (2 * residual)
        return by_m, *self._through_V(by_V), by_k

    def _through_V(self, by_V: Array) -> tuple[Array, Array]:
        """To (K_mm, K_nm): the function depends on V through VᵀV = K_nm K_mm⁻¹ K_mn only."""
        L = self.prior.L
        by_K_mn = solve_triangular(L, by_V, lower=True, trans=1, check_finite=False)
        half = solve_triangular(L, by_V @ self.prior.V.T, lower=True, trans=1, check_finite=False)
        by_K_mm = -0.5 * solve_triangular(L, half.T, lower=True, trans=1, check_finite=False)
        return self.prior.factor.pull_back(0.5 * (by_K_mm + by_K_mm.T)), by_K_mn.T

    def pull_back_to_sites(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """The same function's gradients in (ν, τ)."""
        V, Y = self.prior.V, self._Y
        by_linear = V.T @ (Y @ mean)
        squared = np.einsum("ij,ij->j", V, weighted_gram(Y, variance) @ V)
        return by_linear, -self.mean * by_linear - squared

    def weights(self) -> tuple[Array, Array, Array]:
        """(w, F, G): f* has mean m* + K*_z w, covariance K** − K*_z F Fᵀ K_z* + K*_z G Gᵀ K_z*."""
        L = self.prior.L
        w = solve_triangular(L, self.beta, lower=True, trans=1)
        F = lapack.dtrtri(L, lower=1)[0].T
        return w, F, F @ lapack.dtrtri(self._L, lower=1)[0].T
