"""Linear algebra and draws that fits from scores share, in numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
JITTER = 1e-12  # of a unit diagonal: rounding in a sum of products, far below any real variance
OUTLIER = 10.0  # medians of its length beyond which one row may not speak louder than the others


def cholesky(cov: Array) -> Array:
    """Lower root of a covariance whose sds may differ by many orders of magnitude.

    Raises
    ------
    numpy.linalg.LinAlgError
        It is not positive definite.
    """
    variance = np.diag(cov)
    if not (variance > 0).all():
        raise np.linalg.LinAlgError("a variance is not positive")
    sd = np.sqrt(variance)
    scaled = cov / np.outer(sd, sd)
    return sd[:, None] * np.linalg.cholesky((scaled + scaled.T) / 2 + JITTER * np.eye(len(cov)))


def antithetic(rng: np.random.Generator, draws: int, dimension: int) -> Array:
    """Standard normals in mirrored pairs, z[i + draws/2] = −z[i]; ``draws`` even."""
    z = rng.standard_normal((draws // 2, dimension))
    return np.concatenate([z, -z])


def whole_pairs(usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows of :func:`antithetic` both of whose halves are usable."""
    half = len(usable) // 2
    return np.tile(usable[:half] & usable[half:], 2)


def shorten_outliers(rows: Array) -> Array:
    """Rows longer than ten medians, cut to that length: single draws far out, where log p̃ breaks.

    Examples
    --------
    >>> shorten_outliers(np.array([[1.0], [-1.0], [2.0], [500.0]])).ravel()
    array([ 1., -1.,  2., 15.])
    """
    length = np.linalg.norm(rows, axis=1)
    longest = OUTLIER * np.median(length)
    return rows * np.minimum(1, longest / np.maximum(length, np.finfo(float).tiny))[:, None]
