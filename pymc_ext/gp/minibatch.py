"""Stochastic variational learning of the sparse model: cost of a step independent of n.

Notation: whitened inducing variables u = L ũ with K_mm = L Lᵀ and V = L⁻¹K_mb on a batch of b of
the n rows; q(ũ) = N(β, B⁻¹), Bβ = H, prior N(0, I). Natural-gradient steps on (H, B) towards
B* = I + (n/b) V diag(−d2) Vᵀ, H* = (n/b) V (d1 − d2 (μ − m)): the tied sites of `rules.cvi`
estimated from the batch. Adam on the hyperparameters follows the batch's ELBO with q(ũ) held.

Reference: Hensman, Matthews & Ghahramani (2015), arXiv:1411.2005; Salimbeni, Eleftheriadis &
Hensman (2018), Natural gradients in practice, arXiv:1803.09151.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from pymc_ext.gp.errors import ImproperPosteriorError
from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.gp.posterior import Arrays
from pymc_ext.gp.sparse import SparsePrior
from pymc_ext.maths.types import Array


@dataclass
class InducingGaussian:
    """q(ũ) by its natural parameters H (m,) and precision B (m, m)."""

    H: Array
    B: Array

    @classmethod
    def standard(cls, m: int) -> InducingGaussian:
        """The prior."""
        return cls(np.zeros(m), np.eye(m))

    def factor(self) -> tuple[Array, Array]:
        """Lower Cholesky factor of B, and β."""
        try:
            L = np.linalg.cholesky(self.B)
        except np.linalg.LinAlgError as error:
            raise ImproperPosteriorError(
                "the batch's sites of negative precision outweigh the prior: use a smaller rho or "
                "larger batches"
            ) from error
        return L, cho_solve((L, True), self.H)

    def divergence(self) -> float:
        """KL(q(ũ) ‖ N(0, I))."""
        L, beta = self.factor()
        inverse = solve_triangular(L, np.eye(len(beta)), lower=True)
        log_det = 2 * np.sum(np.log(np.diag(L)))
        return float(0.5 * (np.sum(inverse**2) + beta @ beta - len(beta) + log_det))


@dataclass(frozen=True)
class BatchTerms:
    """A batch's expected log likelihood (times n/b), its gradients, and the step's target."""

    value: float
    bars: Arrays
    target: InducingGaussian


def batch_terms(
    q: InducingGaussian, prior: SparsePrior, lik: Likelihood, y: Array, phi: Parameters, n: int
) -> BatchTerms:
    """Everything one stochastic step needs; bars are in (φ, m, K_mm, K_bm, k_bb) at fixed q(ũ)."""
    L_B, beta = q.factor()
    V, weight = prior.V, n / len(y)
    half = solve_triangular(L_B, V, lower=True, check_finite=False)
    mu = prior.mean + V.T @ beta
    e = lik.expectations(mu, np.einsum("ij,ij->j", half, half) + prior.residual, y, phi)
    d1, d2 = weight * e.derivatives[:2]
    Y = solve_triangular(L_B, half, lower=True, trans=1, check_finite=False)
    by_V = np.outer(beta, d1) + (Y - V) * d2
    bars = (weight * e.parameters[:, 0].sum(axis=1), d1, *_through_V(prior, by_V), 0.5 * d2)
    target = InducingGaussian(V @ (d1 - d2 * (mu - prior.mean)), np.eye(len(beta)) - (V * d2) @ V.T)
    return BatchTerms(float(weight * e.value.sum()), bars, target)


def _through_V(prior: SparsePrior, by_V: Array) -> tuple[Array, Array]:
    """Gradients in (K_mm, K_bm) of a function of V = L⁻¹K_mb, by the Cholesky's reverse rule."""
    L = prior.L
    by_K_mb = solve_triangular(L, by_V, lower=True, trans=1, check_finite=False)
    P = np.tril(L.T @ np.tril(-by_K_mb @ prior.V.T))
    P[np.diag_indices_from(P)] /= 2
    S = solve_triangular(L, solve_triangular(L, P.T, lower=True, trans=1).T, lower=True, trans=1)
    return prior.factor.pull_back(0.5 * (S + S.T)), by_K_mb.T
