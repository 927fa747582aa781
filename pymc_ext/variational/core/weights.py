"""Whether importance weights make draws of the posterior of those of q, in numbers and in words.

The one rule for fits, for `bridge` and for its tables. It speaks of the mass that q reaches: what
lies outside all draws of q is seen by none of these numbers.

[V] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling,
JMLR 25(72), arXiv:1507.02646.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pymc_ext.maths.types import Array

# From this k̂ on the smoothed importance sampling estimate is not to be trusted, and no draw of the
# approximation is repaired by its weight: the limit that [V] gives for any number of draws.
KHAT_USABLE: Final = 0.7

# Below this k̂ the importance weights have a finite variance, so that plain importance sampling
# would converge at the usual rate: moments of order 1/k of a generalised Pareto tail, [V].
KHAT_GOOD: Final = 0.5

# k̂ from which on weights have no mean, [V]: more draws mend nothing.
KHAT_WITHOUT_MEAN: Final = 1.0

# Share of effective draws, (Σw)²/(N Σw²), from which on k̂ does not matter: χ²(p ‖ q) = 1/share − 1
# bounds the error of any mean by √χ² of its sd, here .14 before weights repair it, and k̂ is the
# shape of a tail, however little of the mass is in it.
ESS_SHARE_NEGLIGIBLE: Final = 0.98

# The same share for one quantity h, its error against that of as many equal weights, from which on
# k̂ of h p̃/q does not matter: of mixtures that were right to .01 sd it was .95 to 1 at k̂ of .8 to
# .9 (label switching), where sds were 15 to 50 % off .4 at most (regressions of few rows).
ESS_SHARE_ENOUGH: Final = 0.9

# What may not be trusted: an error of a mean in posterior sds, and of an sd as a ratio or its
# inverse. At 400 effective draws .2 is four standard errors of a mean, and .8 six of the sd of a
# Gaussian.
MEAN_WRONG: Final = 0.2
RATIO_WRONG: Final = 1.25

# What is said where log p̃ is +∞, after where that is.
NO_DENSITY: Final = "there is no posterior; mend the term of the model that is infinite"

# Standard deviation, in nats, below which log ratios count as constant, so that q is p: rounding
# alone spreads sums of a thousand terms by about 1e-12, and PSIS turns that noise into noise in k̂.
CONSTANT_RATIOS: Final = 1e-8

# What is said where they are.
EXACT: Final = "exact wherever it draws: its log ratios to the posterior are constant there"


def log_ratios_of(log_p: Array, log_q: Array) -> Array:
    """log p̃ − log q at draws of q, (N,); undefined where log q overflowed, so that +∞ is p̃'s."""
    with np.errstate(invalid="ignore"):  # −∞ − (−∞)
        return np.where(np.isfinite(log_q), log_p - log_q, np.nan)


def are_constant(log_ratios: Array) -> bool:
    """Whether log ratios, of any shape, differ by rounding alone, so that q is p."""
    if not np.size(log_ratios):
        return False
    with np.errstate(over="ignore", invalid="ignore"):  # of one of −1e200, or −∞
        return bool(np.std(log_ratios - np.ravel(log_ratios)[0]) < CONSTANT_RATIOS)


def effective_draws(log_ratios: Array) -> float:
    """(Σw)²/Σw² of weights with these logarithms (N,); 0 where there is no weight."""
    largest = np.max(log_ratios, initial=-np.inf)
    if largest == -np.inf:
        return 0.0
    weights = np.exp(log_ratios - largest)
    return float(np.sum(weights) ** 2 / np.sum(weights**2))


def weighted_moments(theta: Array, weights: Array) -> tuple[Array, Array]:
    """Mean and sds (D,) of draws (N, D) by weights (N,) that sum to 1; a draw without one does not
    count, whatever it is.

    >>> mean, sd = weighted_moments(np.array([[0.0], [2.0], [np.inf]]), np.array([0.5, 0.5, 0.0]))
    >>> mean, sd
    (array([1.]), array([1.]))
    """
    inside = weights > 0
    theta, weights = theta[inside], weights[inside]
    mean: Array = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


def serve(khat: float, share: float, limit: float = KHAT_USABLE) -> bool:
    """Whether weights do: k̂ is usable, or they hardly differ.

    Parameters
    ----------
    khat
        Of the weights; NaN where it cannot be had.
    share
        Effective draws per draw.
    limit
        The k̂ that is too large.
    """
    return khat < limit or share >= ESS_SHARE_NEGLIGIBLE


def described(khat: float, share: float, draws: int) -> str:
    """The same in words.

    >>> described(0.31, 0.87, 4096)
    'k̂ = 0.31 < 0.7, 4,096 draws worth 3,564'
    >>> described(2.5, 0.99, 1000)
    '1,000 draws worth 990, so that k̂ = 2.50 does not matter'
    """
    worth = f"{draws:,} draws worth {share * draws:,.0f}"
    if khat < KHAT_USABLE:
        return f"k̂ = {khat:.2f} < {KHAT_USABLE:g}, {worth}"
    if share >= ESS_SHARE_NEGLIGIBLE:
        return f"{worth}, so that k̂ = {khat:.2f} does not matter"
    return f"k̂ = {khat:.2f} >= {KHAT_USABLE:g}, {worth}"
