"""What is true of a target's posterior, from many exact draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Truth", "truth_of"]

# Exact draws behind a truth, and numbers held at most: 200,000 know a mean to .0022 sds and the
# share of a mode to .0011, a fiftieth of what is judged by them.
DRAWS, NUMBERS = 200_000, 2 * 10**7
SEED = 20_26
CENTRAL = (0.05, 0.95)  # quantiles whose distance stands for the spread of a heavy law


@dataclass(frozen=True)
class Truth:
    """Of each coordinate.

    Parameters
    ----------
    middle
        Mean (D,); of a heavy law the median.
    spread
        Standard deviation (D,); of a heavy law the distance of its 5 % and 95 % quantiles.
    unit
        What errors of the middle are measured in (D,): the sd; of a heavy law the spread over
        3.29, at which a Gaussian's quantiles lie.
    shares
        Mass of each mode, (K,).
    heavy
        As the density says.
    """

    middle: Array
    spread: Array
    unit: Array
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
    middle, spread = middle_and_spread(draws, density.heavy)
    unit = spread / 3.29 if density.heavy else spread
    shares = np.bincount(density.mode_of(draws), minlength=density.modes) / n
    return Truth(middle, spread, unit, shares, density.heavy)


def middle_and_spread(draws: Array, heavy: bool) -> tuple[Array, Array]:
    """Mean and sd of draws (N, D), or median and distance of the 5 % and 95 % quantiles."""
    if not heavy:
        return draws.mean(axis=0), draws.std(axis=0)
    low, middle, high = np.quantile(draws, [CENTRAL[0], 0.5, CENTRAL[1]], axis=0)
    return middle, high - low
