"""Factorising covariance matrices, and saying what is wrong with those that have no factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from scipy.linalg import lapack

from pymc_ext.gp.errors import HyperparameterError
from pymc_ext.maths.types import Array

ASYMMETRY = 1e-8  # half the digits of a double: sums in another order differ by much less
# Relative to the mean of the diagonal: what a factor of K always has. 1e-13 does for all of 24 K
# (20 to 600 points, RBF and Matern-5/2, lengthscales .1 to 10), of which 14 have no factor without
SMALL_JITTER = 1e-10
# Times the jitter: a pivot below it is mostly the jitter's (twins have 2). A choice: 3 and 5 tell
# the same of those 24, 20 names one more
DECIDES = 10.0
JITTER = 1e-6  # relative to the mean of the diagonal, as pm.gp's default is for unit variances


def refuse_covariance(K: Array, name: str) -> NoReturn:
    if not np.isfinite(K).all():
        raise HyperparameterError(
            f"the covariance {name} holds NaN or infinity: check the hyperparameters"
        )
    smallest = float(np.linalg.eigvalsh(K)[0])
    raise HyperparameterError(
        f"the covariance {name} is not positive definite: its smallest eigenvalue is {smallest:.3g}"
        f", its largest variance {np.diag(K).max():.3g}; check the covariance function"
    )


def refuse_indefinite(K: Array, name: str) -> None:
    """Raise HyperparameterError if K is not finite, or indefinite by more than rounding."""
    if not np.isfinite(K).all() or np.linalg.eigvalsh(K)[0] < -relative_jitter(K):
        refuse_covariance(K, name)


@dataclass(frozen=True)
class JitteredFactor:
    """Lower Cholesky factor L of K + share · mean(diag K) · I.

    A share of 1e-10 is added always, so that everything is smooth in the hyperparameters: whether
    a nearly singular K has a factor without it is chance. One of 1e-6 is needed where K itself is
    not smooth, as of inputs a thousand lengthscales from the origin.
    """

    L: Array
    share: float

    @property
    def jitter(self) -> float:
        """What was added where it decides, as K alone is singular to rounding; else 0."""
        pivots = np.diag(self.L) ** 2
        jitter = self.share * float(np.mean(np.einsum("ij,ij->i", self.L, self.L)))
        return jitter if self.share > SMALL_JITTER or pivots.min() < DECIDES * jitter else 0.0

    def pull_back(self, by_K: Array) -> Array:
        """Gradient in K from the one in K with its jitter."""
        out = by_K.copy()
        out[np.diag_indices_from(out)] += self.share * np.trace(by_K) / len(by_K)
        return out


def jittered_cholesky(K: Array, name: str) -> JitteredFactor:
    """The factor with the least jitter that has one.

    Raises
    ------
    HyperparameterError
        If K with the larger jitter is not positive definite either.
    """
    for share in (SMALL_JITTER, JITTER):
        L = cholesky(K, share * float(np.mean(np.diag(K))))
        if L is not None:
            return JitteredFactor(L, share)
    refuse_covariance(K, name)


def relative_jitter(K: Array) -> float:
    return JITTER * float(np.mean(np.diag(K)))


def cholesky(K: Array, jitter: float) -> Array | None:
    """Lower factor of K + jitter I, None where it has none."""
    A = np.array(K, order="F")
    A[np.diag_indices_from(A)] += jitter
    L, info = lapack.dpotrf(A, lower=1, overwrite_a=1)
    return None if info else L


def weighted_gram(A: Array, weights: Array) -> Array:
    """A diag(weights) Aᵀ, by sign: a matrix times its own transpose is half a product's cost."""
    total = np.zeros((len(A), len(A)))
    for sign in (1.0, -1.0):
        part = sign * weights > 0
        if part.any():
            half = A if part.all() else A[:, part]
            half = half * np.sqrt(np.abs(weights[part]))
            total += sign * (half @ half.T)
    return total
