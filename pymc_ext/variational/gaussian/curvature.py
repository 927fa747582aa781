"""Roots of a Laplace covariance from the Hessian at a mode, and the directions without one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from pymc_ext.maths.trust_region import curvature_scale
from pymc_ext.maths.types import Array

FLAT = 1e-10  # relative curvature below which a direction counts as flat


def covariance_root(hessian: Array) -> tuple[Array, Array] | None:
    """C and C⁻¹ with CCᵀ = (−H)⁻¹, scaled so that units do not matter; None if indefinite."""
    s = curvature_scale(hessian)
    scaled = -hessian * np.outer(s, s)
    try:
        R = cholesky(scaled, lower=True)  # −H = S⁻¹ R Rᵀ S⁻¹, so C = S R⁻ᵀ
    except np.linalg.LinAlgError:
        return None
    if np.min(np.diag(R)) ** 2 < FLAT * len(s):
        return None
    inverse = R.T / s
    return s[:, None] * solve_triangular(R, np.eye(len(s)), lower=True).T, inverse


def modified_root(hessian: Array) -> tuple[Array, Array]:
    """As :func:`covariance_root`, from |eigenvalues| kept above 1e-6 of the largest."""
    s = curvature_scale(hessian)
    values, Q = eigh(-hessian * np.outer(s, s))
    curvature = np.maximum(np.abs(values), 1e-6 * max(np.abs(values).max(), 1e-300))
    factor = s[:, None] * Q / np.sqrt(curvature)
    return factor, (np.sqrt(curvature)[:, None] * Q.T) / s


def flat_directions(hessian: Array, names: Sequence[str]) -> list[str]:
    """Names of the entries that dominate the directions in which −H is not positive."""
    if not np.isfinite(hessian).all():
        return []
    s = curvature_scale(hessian)
    values, Q = eigh(-hessian * np.outer(s, s))
    bad = values <= FLAT * len(s) * max(np.abs(values).max(), 1.0)
    weight = np.abs(Q[:, bad]).max(axis=1) if bad.any() else np.zeros(len(s))
    return [name for name, w in zip(names, weight, strict=True) if w > 0.3]
