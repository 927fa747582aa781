"""What is true of a target's posterior, from many exact draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Summary", "Truth", "summary_of", "truth_of"]

# Exact draws behind a truth, and numbers held at most: 200,000 know a mean to .0022 sds and the
# share of a mode to .0011, a fiftieth of what is judged by them.
DRAWS, NUMBERS = 200_000, 2 * 10**7
SEED = 20_26
CENTRAL = (0.05, 0.95)  # quantiles whose distance stands for the spread of a heavy law


@dataclass(frozen=True)
class Summary:
    """Of draws, each (D,).

    Parameters
    ----------
    mean, sd
        Moments.
    median, width
        Median, and distance of the 5 % and 95 % quantiles over 3.29, which of a Gaussian is its sd:
        what is judged of a law whose moments draws do not tell.
    """

    mean: Array
    sd: Array
    median: Array
    width: Array


@dataclass(frozen=True)
class Truth(Summary):
    """What is true.

    Parameters
    ----------
    shares
        Mass of each mode, (K,).
    heavy
        As the density says: no draws tell its moments.
    """

    shares: Array
    heavy: bool


def truth_of(density: ZooDensity) -> Truth:
    """From 200,000 exact draws, fewer beyond 100 dimensions; the same at every call.

    Raises
    ------
    ValueError
        The posterior is improper.
    """
    n = min(DRAWS, NUMBERS // density.dimension)
    draws = density.draws(n, np.random.default_rng(SEED))
    shares = np.bincount(density.mode_of(draws), minlength=density.modes) / n
    return Truth(**vars(summary_of(draws)), shares=shares, heavy=density.heavy)


def summary_of(draws: Array) -> Summary:
    """Of draws (N, D)."""
    low, median, high = np.quantile(draws, [CENTRAL[0], 0.5, CENTRAL[1]], axis=0)
    return Summary(draws.mean(axis=0), draws.std(axis=0), median, (high - low) / 3.29)
