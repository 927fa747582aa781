r"""One step of batch and match: the Gaussian near q whose scores match the density's at a batch.

Cai, Modi, Pillaud-Vivien, Margossian, Gower, Blei & Saul (2024), Batch and match: black-box
variational inference with a score-based divergence, ICML, arXiv:2402.14758. Notation: z (B, D) are
draws of q = N(μ, Σ), g (B, D) the scores of p̃ there, λ the weight of the match against staying.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.posteriors import Gaussian


def matched(q: Gaussian, z: Array, g: Array, weight: float) -> Gaussian:
    """argmin over N(m, S) of λ · (score divergence on the batch) + 2 KL(q ‖ N(m, S)).

    Raises LinAlgError where rounding, or scores near the largest number, leave no covariance.
    """
    mu, lam, B = q.mean, weight, len(z)
    z_mean, g_mean = z.mean(axis=0), g.mean(axis=0)
    # U = λ Γ + λ/(1+λ) ḡ ḡᵀ = Q Qᵀ and V = Σ + λ C + λ/(1+λ)(μ − z̄)(μ − z̄)ᵀ       # Cai et al. (6)
    shrunk = np.sqrt(lam / (1 + lam))
    spread = np.sqrt(lam / B)
    Q = np.vstack([spread * (g - g_mean), shrunk * g_mean]).T
    dz = np.vstack([spread * (z - z_mean), shrunk * (mu - z_mean)])
    V = q.cov + dz.T @ dz
    # Σ U Σ + Σ = V solved by Σ = V − V Q M⁻² Qᵀ V, M = ½ I + (Qᵀ V Q + ¼ I)^½: cost D² B
    with np.errstate(over="ignore", invalid="ignore"):
        VQ = V @ Q
        inner = Q.T @ VQ
    if not np.isfinite(inner).all():
        raise np.linalg.LinAlgError("scores of a batch are too large for their squares")
    M = 0.5 * np.eye(B + 1) + symmetric_root(inner + 0.25 * np.eye(B + 1))
    half = np.linalg.solve(M, VQ.T)
    cov = V - half.T @ half
    mean = mu / (1 + lam) + lam / (1 + lam) * (cov @ g_mean + z_mean)  # Cai et al. (8)
    return Gaussian(mean, cholesky((cov + cov.T) / 2))


def match_step(q: Gaussian, z: Array, g: Array, weight: float) -> tuple[Gaussian, float]:
    """:func:`matched` with its KL from q, nats."""
    new = matched(q, z, g, weight)
    return new, divergence(new, q)


def symmetric_root(A: Array) -> Array:
    """A^½ of a positive semidefinite matrix, rounding below zero cut off."""
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def divergence(new: Gaussian, old: Gaussian) -> float:
    """KL(new ‖ old) of Gaussians with lower triangular roots, nats."""
    relative = solve_triangular(old.root, new.root, lower=True)
    shift = solve_triangular(old.root, new.mean - old.mean, lower=True)
    squares = float(np.sum(relative**2) + shift @ shift)
    return 0.5 * (squares - new.dimension) - new.log_det + old.log_det
