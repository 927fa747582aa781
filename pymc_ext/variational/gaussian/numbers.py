"""Linear algebra and draws that fits from scores share, in numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pymc_ext.maths.types import Array

JITTER = 1e-12  # of a unit diagonal: rounding in a sum of products, far below any real variance
MOST_BYTES = 2**30  # of one matrix of a dense method, which has several of them: 11,585 dimensions
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


def refuse_dense(dimension: int, what: str) -> None:
    """ValueError where a matrix of D × D numbers is larger than `MOST_BYTES`."""
    size = 8 * dimension**2
    if size > MOST_BYTES:
        raise ValueError(
            f"{what} takes several matrices of {dimension:,} × {dimension:,} numbers, "
            f"{size / 1e9:.1f} GB each: use batch-match (px.BatchMatchVI) or hierarchical "
            "(px.HierarchicalVI), whose memory is linear in the dimension"
        )


def antithetic(rng: np.random.Generator, draws: int, dimension: int) -> Array:
    """Standard normals in mirrored pairs, z[i + draws/2] = −z[i]; ``draws`` even."""
    z = rng.standard_normal((draws // 2, dimension))
    return np.concatenate([z, -z])


def whole_pairs(usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows of :func:`antithetic` both of whose halves are usable."""
    half = len(usable) // 2
    both = usable[:half] & usable[half:]
    return np.concatenate([both, both])


def median(values: Array) -> float:
    """Of finite values (N,); a third of the time that ``numpy.median`` takes for some hundred."""
    n = len(values)
    return float(np.sort(values)[(n - 1) // 2 : n // 2 + 1].mean())


def shorten_outliers(rows: Array) -> Array:
    """Rows longer than ten medians, cut to that length: single draws far out, where log p̃ breaks.

    Examples
    --------
    >>> shorten_outliers(np.array([[1.0], [-1.0], [2.0], [500.0]])).ravel()
    array([ 1., -1.,  2., 15.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(rows, axis=1)
    beyond = ~np.isfinite(length)
    if beyond.any():  # a row longer than numbers go is cut to nothing
        length = np.where(beyond, np.inf, length)
        rows = np.where(beyond[:, None], 0.0, rows)
    longest = OUTLIER * median(length)
    if not np.isfinite(longest):
        raise OverflowError("scores times the scale of q overflow at half of its draws or more")
    if length.max() <= longest:
        return rows
    return rows * np.minimum(1, longest / np.maximum(length, np.finfo(float).tiny))[:, None]


def inverse_root(X: Array, least: float, most: float) -> Array:
    """Lower triangular R with R Rᵀ = (I − X)⁻¹, X symmetric, its eigenvalues cut to least … most.

    Two factorisations tell whether any is to be cut: an eighth of the price of eigenvalues.
    """
    eye = np.eye(len(X))
    try:
        np.linalg.cholesky(most * eye - X)
        np.linalg.cholesky(X - least * eye)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(X)
        X = (axes * np.clip(values, least, most)) @ axes.T
    # I − X = U Uᵀ with U upper triangular (from below, hence flipped), whose U⁻ᵀ is R
    U = np.linalg.cholesky((eye - X)[::-1, ::-1])[::-1, ::-1]
    return solve_triangular(U, eye, check_finite=False).T
