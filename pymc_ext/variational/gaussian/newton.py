r"""Gaussians of Newton's steps along an optimiser's path, many at once.

At iterate x with gradient g of −log p̃ the Gaussian is N(x − H g, H), H the inverse Hessian that the
last J steps tell. Made and evaluated one at a time they are calls of NumPy's on small matrices,
which took two thirds of the time of a fit in 26 dimensions.

Notation of Zhang, Carpenter, Gelman & Vehtari (2022), arXiv:2108.03782: S, Y (D, J) hold the steps
and changes of gradient, α is the diagonal part of H.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import NUMBERS_TOGETHER
from pymc_ext.variational.gaussian.low_rank import (
    LowRankGaussian,
    root_product,
    root_transposed_product,
    transposed,
)

# sᵀy below this share of |y|² says nothing of the curvature (Zhang et al. use it).
CURVATURE = 1e-10


@dataclass(frozen=True)
class Candidates:
    """T Gaussians of one rank, the numbers of `LowRankGaussian` stacked.

    Parameters
    ----------
    mean, scale
        (T, D).
    basis, core
        (T, D, rank) and (T, rank, rank).
    """

    mean: Array
    scale: Array
    basis: Array
    core: Array

    def __len__(self) -> int:
        return len(self.mean)

    def one(self, i: int) -> LowRankGaussian:
        """That at place ``i``, without the others."""
        return LowRankGaussian(
            self.mean[i].copy(), self.scale[i].copy(), self.basis[i].copy(), self.core[i].copy()
        )

    def some(self, places: NDArray[np.integer]) -> Candidates:
        """Those at some places."""
        parts = (self.mean, self.scale, self.basis, self.core)
        return Candidates(*(part[places] for part in parts))

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ = μ + R z and log q of each, (T, N, D) -> (T, N, D), (T, N)."""
        theta = self.mean[:, None] + root_product(z, self.scale, self.basis, self.core)
        log_det = np.log(self.scale).sum(axis=1) + np.linalg.slogdet(self.core)[1]
        return theta, standard_normal_logp(z) - log_det[:, None]


@dataclass(frozen=True)
class Iterate:
    """Point x, gradient g of −log p̃ and α there, (D,) each, and the last J pairs (s, y)."""

    x: Array
    slope: Array
    alpha: Array
    pairs: tuple[tuple[Array, Array], ...]


def newton_gaussians(
    points: Sequence[Array], gradients: Sequence[Array], history: int
) -> Iterator[Candidates]:
    """Those of all iterates of a path that have one, in their order, as many as memory allows.

    Parameters
    ----------
    points, gradients
        Iterates and gradients of −log p̃ there, (D,) each.
    history
        J at most.
    """
    if not points:
        return
    most = max(1, NUMBERS_TOGETHER // (4 * history * len(points[0])))
    for _, same in groupby(_iterates(points, gradients, history), lambda it: len(it.pairs)):
        rows = list(same)
        for first in range(0, len(rows), most):
            yield from _candidates(rows[first : first + most])


def _iterates(
    points: Sequence[Array], gradients: Sequence[Array], history: int
) -> Iterator[Iterate]:
    """From the second on, those whose last step shows a curvature."""
    # the first Newton step should move no coordinate by more than one unit
    alpha = np.full(len(points[0]), min(1.0, 1 / max(float(np.abs(gradients[0]).max()), 1e-12)))
    pairs: tuple[tuple[Array, Array], ...] = ()
    for before, x, slope_before, slope in zip(
        points[:-1], points[1:], gradients[:-1], gradients[1:], strict=True
    ):
        s, y = x - before, slope - slope_before
        with np.errstate(over="ignore", invalid="ignore"):  # far out scores are beyond numbers
            if not s @ y > CURVATURE * (y @ y):
                continue
            alpha = diagonal_of_inverse(alpha, s, y)
        pairs = (*pairs, (s, y))[-history:]
        yield Iterate(x, slope, alpha, pairs)


def diagonal_of_inverse(alpha: Array, s: Array, y: Array) -> Array:
    """Diagonal of the inverse Hessian after one more pair (Gilbert & Lemaréchal 1989, eq. 4.6)."""
    a, b, c = (y * alpha) @ y, s @ y, (s / alpha) @ s
    inverse = a / (b * alpha) + y**2 / b - a * s**2 / (b * c * alpha**2)
    return 1 / np.maximum(inverse, np.finfo(float).tiny)


def _candidates(iterates: Sequence[Iterate]) -> Iterator[Candidates]:
    """Their Gaussians; without those whose pairs contradict one another."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            made = stacked(iterates)
        yield made
    except np.linalg.LinAlgError:
        if len(iterates) > 1:
            for iterate in iterates:
                yield from _candidates([iterate])


def stacked(iterates: Sequence[Iterate]) -> Candidates:
    """N(x − H g, H), H in the compact form of BFGS (Byrd, Nocedal & Schnabel 1994, theorem 2.2).

    H = diag α + B M Bᵀ with B = [diag(α) Y, S], so that with B/√α = U T, U orthonormal,
    H = diag(√α)(I + U (T M Tᵀ) Uᵀ)diag(√α), whose root is a low-rank change of diag(√α).

    Raises
    ------
    LinAlgError
        An H is not positive definite.
    """
    x, slope, alpha = (
        np.stack([getattr(iterate, name) for iterate in iterates])
        for name in ("x", "slope", "alpha")
    )
    pairs = np.array([iterate.pairs for iterate in iterates])  # (T, J, 2, D)
    S, Y = (transposed(pairs[:, :, k]) for k in (0, 1))
    scale, J = np.sqrt(alpha), S.shape[-1]
    U, T = np.linalg.qr(np.concatenate([scale[..., None] * Y, S / scale[..., None]], axis=-1))
    SY = transposed(S) @ Y
    R_inverse = np.linalg.inv(np.triu(SY))
    inner = transposed(Y) @ (alpha[..., None] * Y)
    inner[:, range(J), range(J)] += SY[:, range(J), range(J)]
    M = np.zeros((len(x), 2 * J, 2 * J))
    M[:, :J, J:], M[:, J:, :J] = -R_inverse, -transposed(R_inverse)
    M[:, J:, J:] = transposed(R_inverse) @ inner @ R_inverse
    core = np.linalg.cholesky(np.eye(U.shape[-1]) + T @ M @ transposed(T))
    step = root_product(
        root_transposed_product(slope[:, None], scale, U, core), scale, U, core
    )[:, 0]  # fmt: skip
    return Candidates(x - step, scale, U, core)
