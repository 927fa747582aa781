r"""Pareto-smoothed importance sampling on arrays, without importing ArviZ (three seconds).

The largest M = ⌊min(N/5, 3√N)⌋ of N ratios are replaced by quantiles of a generalised Pareto
distribution fitted to them, with shape k̂ and scale σ:

.. math:: F(x) = 1 - (1 + k x / \sigma)^{-1/k}.

The fit is the posterior mean of Zhang & Stephens (2009), doi:10.1198/tech.2009.08017, with k̂ pulled
towards 0.5 by a prior worth ten ratios. Vehtari, Simpson, Gelman, Yao & Gabry (2024), JMLR 25(72),
arXiv:1507.02646, section 3 and appendices C and H. Tested against ArviZ's own, 0.x and 1.x.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pymc_ext.maths.types import Array

FEWEST_TAIL = 6  # ratios of a tail that is fitted: the first quartile of fewer is their smallest
GRID = 30  # points at which the profile posterior is evaluated, beside √M more
PRIOR_WEIGHT = 10  # ratios that the prior k = 0.5 is worth
LOG_TINY = float(np.log(np.finfo(float).tiny))  # a log ratio that far below the largest is zero


def tail_size(n: int) -> int:
    """M, the ratios of ``n`` to which a Pareto distribution is fitted.

    Rounded down, as in Vehtari et al. (2024), appendix H, the R package posterior and ArviZ 1;
    ArviZ 0.x and the R package loo round up.
    """
    return int(min(n / 5, 3 * np.sqrt(n)))


def psislw(log_ratios: Array) -> tuple[Array, Array]:
    """Smoothed normalised log weights (..., N) and k̂ (...,) of log importance ratios (..., N).

    k̂ is infinite, and the weights are not smoothed, where no Pareto distribution can be fitted:
    fewer than six ratios lie in the tail, or a quarter of them equal the smallest. −inf ratios are
    zero weights.

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_normal(4000)
    >>> log_weights, khat = psislw(0.2 * x**2)  # tail index 0.4
    >>> bool(0.2 < khat < 0.6)
    True
    """
    log_ratios = np.asarray(log_ratios, dtype=float)
    rows = log_ratios.reshape(-1, log_ratios.shape[-1])
    out, khat = np.empty_like(rows), np.empty(len(rows))
    for i, row in enumerate(rows):
        out[i], khat[i] = _smooth(row)
    return out.reshape(log_ratios.shape), khat.reshape(log_ratios.shape[:-1])


def tail_khat(log_values: Array) -> Array:
    """k̂ of the right tail of positive values, of their logarithms (K, N) -> (K,).

    That of |h| p̃/q says whether a weighted mean of h has an error that can be known (Vehtari et
    al. 2024, section 2.4): its moments of order 1/k̂ exist. Nothing is smoothed, so that it costs
    O(N) a row. Values that equal the threshold, as of draws that are there twice, are no part of
    the tail. Infinite where no Pareto distribution can be fitted: fewer than six values are left,
    or a quarter of them equal the smallest.

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_cauchy((1, 20_000))
    >>> tail_khat(np.log(np.abs(x))).round(1)  # a Cauchy's has shape 1
    array([1.])
    """
    log_values = np.asarray(log_values, dtype=float)
    size = tail_size(log_values.shape[1])
    khat = np.empty(len(log_values))
    for i, row in enumerate(log_values):
        top = np.sort(np.partition(row, -size - 1)[-size - 1 :])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            excess = np.expm1(top[1:] - top[0])  # in units of the threshold
            excess = excess[~(excess <= 0)]  # NaN stays, of a threshold of zero
            enough = len(excess) >= FEWEST_TAIL and excess[0] > 0
            khat[i] = generalised_pareto(excess)[0] if enough else np.inf
    return khat


def _smooth(log_ratios: Array) -> tuple[Array, float]:
    n = len(log_ratios)
    x = log_ratios - log_ratios.max()
    order = np.argsort(x)
    size = tail_size(n)
    cutoff = max(float(x[order[-size - 1]]), LOG_TINY)
    tail = np.flatnonzero(x > cutoff)
    if len(tail) < FEWEST_TAIL:
        return x - logsumexp(x), np.inf
    ranked = tail[np.argsort(x[tail])]
    threshold = np.exp(cutoff)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        k, sigma = generalised_pareto(np.exp(x[ranked]) - threshold)
        if np.isfinite(k):
            p = (np.arange(len(ranked)) + 0.5) / len(ranked)
            quantile = sigma / k * np.expm1(-k * np.log1p(-p)) if k != 0 else -sigma * np.log1p(-p)
            x[ranked] = np.log(threshold + quantile)
    x = np.minimum(x, 0.0)  # no weight above the largest ratio
    return x - logsumexp(x), k


def generalised_pareto(excess: Array) -> tuple[float, float]:
    """Shape k and scale σ of sorted positive ``excess`` (M,); k is inf where it has no such law."""
    m = len(excess)
    quartile = excess[int(m / 4 + 0.5) - 1]
    if quartile <= excess[0]:  # far from any Pareto distribution: NaN in ArviZ 1 and posterior
        return np.inf, np.nan
    points = GRID + int(np.sqrt(m))
    b = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    b = b / (3 * quartile) + 1 / excess[-1]
    k = np.mean(np.log1p(-b[:, None] * excess), axis=1)
    log_likelihood = m * (np.log(-b / k) - k - 1)
    weight = np.exp(log_likelihood - logsumexp(log_likelihood))
    real = weight >= 10 * np.finfo(float).eps
    mean_b = float(b[real] @ (weight[real] / weight[real].sum()))
    shape = float(np.mean(np.log1p(-mean_b * excess)))
    sigma = -shape / mean_b
    return (m * shape + PRIOR_WEIGHT * 0.5) / (m + PRIOR_WEIGHT), sigma
