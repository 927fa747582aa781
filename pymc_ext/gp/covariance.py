"""Factorising covariance matrices, and saying what is wrong with those that have no factor."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from scipy.linalg import lapack

from pymc_ext.gp.errors import HyperparameterError

JITTER = 1e-6  # relative to the mean of the diagonal, as pm.gp's default is for unit variances


def refuse_covariance(K: np.ndarray, name: str) -> NoReturn:
    if not np.isfinite(K).all():
        raise HyperparameterError(
            f"the covariance {name} holds NaN or infinity: check the hyperparameters"
        )
    smallest = float(np.linalg.eigvalsh(K)[0])
    raise HyperparameterError(
        f"the covariance {name} is not positive definite: its smallest eigenvalue is {smallest:.3g}"
        f", its largest variance {np.diag(K).max():.3g}; check the covariance function"
    )


def refuse_indefinite(K: np.ndarray, name: str) -> None:
    """Raise HyperparameterError if K is not finite, or indefinite by more than rounding."""
    if not np.isfinite(K).all() or np.linalg.eigvalsh(K)[0] < -relative_jitter(K):
        refuse_covariance(K, name)


def jittered_cholesky(K: np.ndarray, name: str) -> tuple[np.ndarray, float]:
    """Lower Cholesky factor of K and the jitter: 0, or where that fails one relative to K.

    Raises
    ------
    HyperparameterError
        If K with the jitter is not positive definite either.
    """
    L = cholesky(K, 0.0)
    if L is not None:
        return L, 0.0
    jitter = relative_jitter(K)
    L = cholesky(K, jitter)
    if L is None:
        refuse_covariance(K, name)
    return L, jitter


def relative_jitter(K: np.ndarray) -> float:
    return JITTER * float(np.mean(np.diag(K)))


def cholesky(K: np.ndarray, jitter: float) -> np.ndarray | None:
    """Lower factor of K + jitter I, None where it has none."""
    A = np.array(K, order="F")
    A[np.diag_indices_from(A)] += jitter
    L, info = lapack.dpotrf(A, lower=1, overwrite_a=1)
    return None if info else L
