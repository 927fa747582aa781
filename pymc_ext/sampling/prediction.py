"""What chains will take in an approximation's coordinates, told before they run."""

from __future__ import annotations

from pymc_ext.maths.types import Array

__all__ = ["chain_gradients", "in_words", "weighted_kurtosis"]

NORMAL_KURTOSIS = 3.0

# Steps of a trajectory over D^(1/4), the law of Beskos, Pillai, Roberts, Sanz-Serna and Stuart
# (2013, Bernoulli 19, arXiv:1001.4460) for a product of D alike: of HMC a quarter period long where
# the map serves, and of NUTS, of 37 posteriors with reference draws, D = 3 to 26
# (`python -m benchmarks.speed.predicted`).
STEPS_BY_DIMENSION, STEPS_OF_NUTS = 1.2, 3.6

# Fitted to the gradients that these took, see `chain_gradients`: draws for an effective one of the
# worst quantity, transitions of all chains before the first, and the power of the share of
# effective draws that says how many draws chains need more.
DRAWS_BY_ESS, WARM_UP, BY_SHARE = 2.3, 320, 0.6

# Transitions of a sampler that has no coordinates: four chains of 1,000 to adapt, and draws.
COLD = 6_000

# Of a prediction, that chains may take where weights did not serve, which is where they run: of 16
# stored answers, by NUTS, half took 3.3 times as many or fewer, 14 at most ten times, two that
# left the map 20 and 25 (`python -m benchmarks.speed.predicted --answers`).
UP_TO = 10

# A share is not known below one draw of those that were judged, nor what comes of it.
LEAST_SHARE = 1e-4


def chain_gradients(
    dimension: int, ess: float, share: float | None, kurtosis: float = NORMAL_KURTOSIS
) -> int:
    r"""Gradients to ``ess`` effective draws of every quantity, if chains neither diverge nor meet a
    heavy tail.

    .. math:: 1.2\, D^{1/4}\, \big(320 + 2.3\, \mathrm{ESS} \cdot \mathrm{share}^{-0.6}
              \max(1, (\kappa - 1) / 4)\big)

    lies within a factor of two on 95 % of 40 posteriors
    (`python -m benchmarks.speed.predicted`), most of which weights answer. Where they do not it is
    the least: a heavy tail makes an sd hard to know, and of divergent transitions more are made,
    with shorter steps, until their share is known. Without a map it is what NUTS takes at least.

    Parameters
    ----------
    dimension
        D.
    ess
        What is asked for.
    share
        Effective draws per draw of the approximation in whose coordinates chains run, by importance
        weights; None without one.
    kurtosis
        κ, the largest of any coordinate: (κ − 1)/4 times as many draws know an sd as well as a
        mean.
    """
    steps = STEPS_BY_DIMENSION * dimension**0.25
    if share is None:
        return round(STEPS_OF_NUTS * dimension**0.25 * COLD)
    draws = DRAWS_BY_ESS * ess * max(share, LEAST_SHARE) ** -BY_SHARE
    draws *= max(1.0, (kurtosis - 1) / 4)
    return round(steps * (WARM_UP + draws))


def weighted_kurtosis(x: Array, weights: Array) -> float:
    """Of weighted draws (N,); a normal's where one draw has all the weight."""
    squares = (x - weights @ x) ** 2
    variance = float(weights @ squares)
    return float(weights @ squares**2) / variance**2 if variance > 0 else NORMAL_KURTOSIS


def in_words(least: int) -> str:
    """From the least to what nine in ten runs take at most.

    >>> in_words(22_608)
    'roughly 23,000 to 230,000'
    """
    return f"roughly {_rounded(least):,} to {_rounded(UP_TO * least):,}"


def _rounded(number: int) -> int:
    """To two digits."""
    return int(float(f"{number:.1e}"))
