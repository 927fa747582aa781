"""Gaussian pseudo-observations of class labels.

One table per likelihood: row c holds the means and variances of the latents' pseudo-observations
when the label is c. Classifier, Gaussian processes and networks all look labels up in it.
"""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_ext.matching.table import Matched, check_method, match_beta, match_gamma
from pymc_ext.maths.types import Array

LINKS = ("softmax", "logit")
Labels = NDArray[np.integer]  # positions of classes, (N,)


def class_sites(
    n_classes: int,
    alpha: ArrayLike = 0.1,
    method: str = "variational",
    link: str = "softmax",
) -> Matched:
    """Gaussian sites of every label: one row a label, one column a latent.

    softmax: a label c is a one-hot count with prior Dirichlet(α), that is independent
    ω_k ~ Gamma(α_k + [k = c], 1), each replaced over ψ_k = log ω_k. logit (two classes, one
    latent): ω ~ Beta(α_1 + y, α_0 + 1 − y), replaced over ψ = logit ω.

    Parameters
    ----------
    n_classes : int
        Number of classes K ≥ 2; exactly 2 for ``link="logit"``.
    alpha : float or (K,) array_like
        Prior pseudo-counts α > 0 of the classes. Small values follow the exact likelihood more
        closely and are harder to approximate.
    method : {"laplace", "variational", "moment", "moment-ori"}
        Matching criterion, see `pymc_ext.matching.table`.
    link : {"softmax", "logit"}
        Likelihood that is replaced.

    Returns
    -------
    Matched
        Means and variances, each (K, K) for softmax and (2, 1) for logit.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Bui, "Likelihood approximations via Gaussian approximate inference", sections 3.2, 3.3.
    """
    n_classes = check_n_classes(n_classes)
    check_method(method)
    alpha = _check_alpha(alpha, n_classes)
    if link == "softmax":
        return match_gamma(alpha + np.eye(n_classes), 1.0, method)
    if link != "logit":
        raise ValueError(f"link must be one of {', '.join(LINKS)}, got {link!r}")
    if n_classes != 2:
        raise ValueError(f"link 'logit' needs 2 classes, got {n_classes}; use 'softmax'")
    y = np.array([0.0, 1.0])
    m, v = match_beta(alpha[1] + y, alpha[0] + 1 - y, method)
    return Matched(m[:, None], v[:, None])


def matched_targets(
    y: ArrayLike,
    n_classes: int,
    alpha: ArrayLike = 0.1,
    method: str = "variational",
    link: str = "softmax",
) -> Matched:
    """Regression targets and noise variances that stand for class labels.

    A network f trained by Σ_nk (f_k(x_n) − m_nk)² / (2 v_nk) approximates training by the exact
    negative log-likelihood; softmax (or the logistic function) of f gives class probabilities.

    Parameters
    ----------
    y : (N,) array_like of int
        Labels in 0..n_classes−1.
    n_classes, alpha, method, link
        As in `class_sites`.

    Returns
    -------
    Matched
        Means m and variances v, each (N, n_classes), or (N, 1) for ``link="logit"``.

    Raises
    ------
    ValueError
        If ``y`` is empty, not one-dimensional, not whole numbers or out of range.

    Examples
    --------
    >>> m, v = matched_targets([0, 2, 1], n_classes=3, alpha=0.1)
    >>> m.shape
    (3, 3)
    """
    sites = class_sites(n_classes, alpha, method, link)
    labels = check_labels(y, n_classes)
    return Matched(sites.mean[labels], sites.variance[labels])


def check_n_classes(n_classes: int) -> int:
    """Return ``n_classes`` as an int; raise ValueError unless it is a whole number ≥ 2."""
    if not isinstance(n_classes, numbers.Integral) or n_classes < 2:
        raise ValueError(f"n_classes must be a whole number >= 2, got {n_classes!r}")
    return int(n_classes)


def check_labels(y: ArrayLike, n_classes: int) -> Labels:
    """Labels as integers, (N,) -> (N,); raise ValueError unless all are in 0..n_classes−1."""
    y = np.asarray(y)
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"y must be one-dimensional and not empty, got shape {y.shape}")
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold whole numbers 0..{n_classes - 1}, got dtype {y.dtype}")
    bad = ~((y == np.floor(y)) & (y >= 0) & (y < n_classes))
    if bad.any():
        raise ValueError(f"y must hold whole numbers 0..{n_classes - 1}, got {y[bad][0].item()!r}")
    return y.astype(np.intp)


def _check_alpha(alpha: ArrayLike, n_classes: int) -> Array:
    array = np.asarray(alpha)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"alpha must be a positive number, got {alpha!r}")
    if array.ndim and array.shape != (n_classes,):
        raise ValueError(f"alpha must be a scalar or of shape ({n_classes},), got {array.shape}")
    if not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(f"alpha must be positive and finite, got {alpha!r}")
    return np.broadcast_to(array.astype(float), (n_classes,))
