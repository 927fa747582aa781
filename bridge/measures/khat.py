"""Importance sampling diagnostics of an approximation: k̂, effective sample size, evidence.

Notation: ``l = log p̃ - log q`` at draws of q, arrays ``(R, N)``: R independent repetitions of N
draws each. Ratios that are constant up to rounding (q is p) are never passed to
PSIS, which turns rounding noise into noise in k̂: they are reported as ``exact``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from bridge.measures.limits import KHAT_FEWEST_TAIL, KHAT_USABLE
from pymc_ext.maths.psis import psislw, tail_size
from pymc_ext.maths.types import Array
from pymc_ext.options import as_numbers
from pymc_ext.variational.core.weights import are_constant

__all__ = ["KHat", "pareto_khat", "psis"]


@dataclass(frozen=True)
class KHat:
    """Pareto k̂ of log ratios with its Monte Carlo spread.

    Attributes
    ----------
    value : float
        Median of k̂ over the repetitions; NaN where ``exact``, or where ``reason`` says why.
    sd : float
        Standard deviation of k̂ over the repetitions: the spread of one repetition's k̂, not the
        standard error of the median. NaN from a single repetition, or where a k̂ is infinite.
    per_repetition : tuple of float (R,)
        k̂ of each repetition.
    ess : float
        Median over the repetitions of the effective sample size ``1 / sum(w^2)`` of the smoothed
        weights, out of the ``draws`` of one repetition.
    exact : bool
        The log ratios are constant: q is the posterior.
    log_marginal_is, log_marginal_is_se : float
        Importance sampling estimate of log Z from all smoothed weights (log q normalised), and its
        standard error by the delta method, an underestimate where k̂ > 0.7.
    draws : int
        N, the draws of one repetition.
    zero_weights : int
        Draws, over all repetitions, at which the target's log density is -inf.
    reason : str or None
        Why there is no value, or why it deserves distrust.
    weights : array (R, N) or (N,), or None
        Smoothed weights, normalised to sum to 1 in each repetition; None where there is no value,
        equal ones where ``exact``.
    """

    value: float
    sd: float
    per_repetition: tuple[float, ...]
    ess: float
    exact: bool
    log_marginal_is: float
    log_marginal_is_se: float
    draws: int
    zero_weights: int = 0
    reason: str | None = None
    weights: Array | None = field(default=None, repr=False, compare=False)


def pareto_khat(lp: Array, lq: Array) -> KHat:
    """Pareto k̂ of the importance ratios p̃/q, per repetition, by Pareto smoothing.

    Parameters
    ----------
    lp, lq : array (R, N) or (N,)
        Log p̃ and log q, on the same space, at R independent repetitions of N independent draws
        of q. ``lp = -inf`` is a zero weight. Constants matter only to ``log_marginal_is``.

    Returns
    -------
    KHat
        With ``reason`` and NaN instead of a number where a ratio is NaN or +inf, where all are
        -inf, where the tail has fewer than seven distinct ratios, or where the draws of positive
        weight are no more than the tail.

    Raises
    ------
    ValueError
        If the shapes differ or are not (R, N) or (N,).
    TypeError
        If they are no numbers.

    Examples
    --------
    >>> theta = np.random.default_rng(1).normal(size=(10, 2000))
    >>> k = pareto_khat(scipy.stats.norm.logpdf(theta, scale=0.5), scipy.stats.norm.logpdf(theta))
    >>> bool(k.value < 0)  # q is wider than p: weights are bounded
    True

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling,
    JMLR 25(72), arXiv:1507.02646.
    """
    ratios, zero, reason = _log_ratios(lp, lq)
    if reason:
        return _without_value(ratios, zero, reason)
    if ratios.size > KHAT_FEWEST_TAIL and are_constant(ratios):
        return _exact(ratios, np.shape(lp))
    reason = _tail_problem(ratios)
    if reason:
        return _without_value(ratios, zero, reason)
    log_weights, khat = psis(ratios)
    weights = np.exp(log_weights - logsumexp(log_weights, axis=1, keepdims=True))
    log_z, log_z_se = _log_mean(log_weights)
    value = float(np.median(khat))
    return KHat(
        value=value,
        sd=float(np.std(khat, ddof=1)) if len(khat) > 1 and np.isfinite(khat).all() else np.nan,
        per_repetition=tuple(map(float, khat)),
        ess=float(np.median(1 / np.sum(weights**2, axis=1))),
        exact=False,
        log_marginal_is=log_z,
        log_marginal_is_se=log_z_se,
        draws=ratios.shape[1],
        zero_weights=zero,
        reason=_distrust(value),
        weights=weights.reshape(np.shape(lp)),
    )


def _distrust(khat: float) -> str | None:
    if khat <= KHAT_USABLE:
        return None
    return f"k̂ = {khat:.2f} > {KHAT_USABLE:g}: importance weights unreliable"


def psis(log_ratios: Array) -> tuple[Array, Array]:
    """PSIS: log ratios (R, N) to smoothed log weights (R, N), on their scale, and k̂ (R,).

    Weights come normalised, so the scale is put back from the largest ratio that no smoothing
    touches: from the smallest, which may be −1e19, nothing is left of it.
    """
    smoothed, khat = psislw(log_ratios)
    below = -1 - tail_size(log_ratios.shape[1])
    largest = np.argpartition(log_ratios, below, axis=1)[:, below, None]
    untouched = [np.take_along_axis(x, largest, axis=1) for x in (log_ratios, smoothed)]
    return smoothed + (untouched[0] - untouched[1]), np.atleast_1d(khat)


def _log_ratios(lp: Array, lq: Array) -> tuple[Array, int, str | None]:
    """Log ratios (R, N), the number of zero weights, and why they cannot be used."""
    lp, lq = as_numbers("lp", lp), as_numbers("lq", lq)
    if lp.shape != lq.shape or lp.ndim not in (1, 2) or lp.size == 0:
        raise ValueError(f"lp and lq must both be (R, N) or (N,), got {lp.shape} and {lq.shape}")
    lp, lq = np.atleast_2d(lp), np.atleast_2d(lq)
    zero = int(np.sum(lp == -np.inf))
    for values, label, bad in (
        (lp, "log p is NaN", np.isnan(lp)),
        (lp, "log p is +inf", lp == np.inf),
        (lq, "log q is not finite", ~np.isfinite(lq)),
    ):
        if bad.any():
            return np.full(lp.shape, np.nan), zero, f"{label} at {bad.sum()} of {values.size} draws"
    if np.any(np.all(lp == -np.inf, axis=1)):
        return lp - lq, zero, "log p is -inf at every draw of a repetition"
    return lp - lq, zero, None


def _tail_problem(ratios: Array) -> str | None:
    n = ratios.shape[1]
    size = tail_size(n)
    distinct = min(len(np.unique(row[np.isfinite(row)])) for row in np.sort(ratios)[:, -size:])
    fewest = KHAT_FEWEST_TAIL + 1
    if distinct < fewest:
        return f"tail of {n} draws has {distinct} distinct ratios, k̂ needs at least {fewest}"
    weighty = int(np.isfinite(ratios).sum(axis=1).min())
    if weighty <= size:
        return f"{weighty} of {n} draws have a weight, k̂ needs more than the {size} of the tail"
    return None


def _without_value(ratios: Array, zero: int, reason: str) -> KHat:
    nan = np.nan
    return KHat(nan, nan, (nan,) * len(ratios), nan, False, nan, nan, ratios.shape[1], zero, reason)


def _exact(ratios: Array, shape: tuple[int, ...]) -> KHat:
    repetitions, n = ratios.shape
    nan = np.nan
    weights = np.full(shape, 1 / n)
    log_z = float(ratios.mean())
    return KHat(nan, nan, (nan,) * repetitions, float(n), True, log_z, 0.0, n, weights=weights)


def _log_mean(log_weights: Array) -> tuple[float, float]:
    """Log of the mean weight over all repetitions and its delta-method standard error."""
    top = log_weights.max()
    weights = np.exp(log_weights - top).ravel()
    mean = weights.mean()
    return float(top + np.log(mean)), float(weights.std(ddof=1) / np.sqrt(weights.size) / mean)
