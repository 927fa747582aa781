"""How good predicted class probabilities are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pymc_ext.matching.targets import check_labels
from pymc_ext.maths.types import Array

SUMS_TO_ONE = 1e-6  # error of a row's sum: single precision leaves 4e-7 of a thousand classes


def calibration_bins(
    probabilities: ArrayLike, y: ArrayLike, n_bins: int = 15
) -> tuple[Array, Array, Array]:
    """Mean confidence, accuracy and share of the rows in equal-width bins of confidence.

    Parameters
    ----------
    probabilities : (n, C) array_like
        Predicted probabilities of the classes.
    y : (n,) array_like of int
        Labels in 0..C−1.
    n_bins : int
        Number of bins of the largest probability on [0, 1]; 15 are Guo et al.'s.

    Returns
    -------
    confidence, accuracy, share : (n_bins,) arrays
        NaN in confidence and accuracy of empty bins.

    Raises
    ------
    ValueError
        If the probabilities are not finite rows that sum to 1, or a label is out of range.
    """
    p = np.asarray(probabilities, dtype=float)
    if p.ndim != 2 or not np.allclose(p.sum(axis=1), 1, atol=SUMS_TO_ONE) or (p < 0).any():
        raise ValueError("probabilities must be rows of non-negative numbers that sum to 1")
    labels = check_labels(y, p.shape[1])
    if len(labels) != len(p):
        raise ValueError(f"y must hold {len(p)} labels, got {len(labels)}")
    if n_bins < 1:
        raise ValueError(f"n_bins must be >= 1, got {n_bins}")
    top = p.max(axis=1)
    correct = p.argmax(axis=1) == labels
    bins = np.minimum((top * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(bins, top, n_bins) / count
        accuracy = np.bincount(bins, correct, n_bins) / count
    return confidence, accuracy, count / len(p)


def expected_calibration_error(probabilities: ArrayLike, y: ArrayLike, n_bins: int = 15) -> float:
    """Σ_bins share · |accuracy − confidence|; arguments as in `calibration_bins`.

    Reference: Guo et al. (2017), On calibration of modern neural networks, arXiv:1706.04599.
    """
    confidence, accuracy, share = calibration_bins(probabilities, y, n_bins)
    return float(np.nansum(share * np.abs(accuracy - confidence)))
