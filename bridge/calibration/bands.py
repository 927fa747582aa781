"""Are ranks uniform, or at least symmetric? Tests whose p-values need no asymptotics.

S ranks of 0 … L: ``ranks`` is (S, Q), one column a quantity, and the ECDF is looked at between any
two neighbouring ranks, at z = k / (L + 1).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pymc_ext.maths.types import Array

__all__ = ["ecdf", "ecdf_band", "holm", "symmetry_p_values", "uniformity_p_values"]

Ranks = NDArray[np.integer]
# Sets of uniform ranks by which p-values are known: to 1/20,000, so that Holm's method can reject
# at .05 among up to 1,000 quantities, and those at .05 to .0015.
NULL_SETS = 20_000
BLOCK = 1_000  # of them at once: bounds memory at some megabytes


def ecdf(ranks: Ranks, most: int) -> NDArray[np.integer]:
    """How many ranks are below each of 1 … L: (S, Q) -> (L, Q)."""
    counts = np.stack([np.bincount(column, minlength=most + 1) for column in ranks.T], axis=1)
    return np.cumsum(counts, axis=0)[:-1]


def uniformity_p_values(ranks: Ranks, most: int) -> Array:
    r"""p-values by which the whole ECDF of uniform ranks is inside its band, (S, Q) -> (Q,).

    The statistic is the smallest two-sided probability over z of as extreme a count,

    .. math:: \gamma = \min_z 2 \min\{P(B \le S \hat F(z)),\ P(B \ge S \hat F(z))\},
              \quad B \sim \text{Binomial}(S, z),

    and the p-value its rank among ``NULL_SETS`` sets of uniform ranks: below α exactly where the
    ECDF leaves the simultaneous band of level 1 − α. ArviZ draws that band and has no p-value,
    which Holm's method needs.

    Parameters
    ----------
    ranks
        Of 0 … ``most``.
    most
        L, the number of draws among which the truth was ranked.

    References
    ----------
    Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and
    Computing 32, doi:10.1007/s11222-022-10090-6, (8)–(12).
    """
    gamma = _gamma(ecdf(ranks, most).T, _two_sided(len(ranks), most))
    null = _null(len(ranks), most)
    return (1 + np.searchsorted(null, gamma, side="right")) / (1 + len(null))


def ecdf_band(simulations: int, most: int, level: float = 0.95) -> tuple[Array, Array, Array]:
    """z, and the band that the whole ECDF of uniform ranks stays in with probability ``level``."""
    z = np.arange(1, most + 1) / (most + 1)
    gamma = np.quantile(_null(simulations, most), 1 - level)
    lower = binom.ppf(gamma / 2, simulations, z) / simulations
    return z, lower, binom.isf(gamma / 2, simulations, z) / simulations


def holm(p_values: Array) -> Array:
    """Adjusted p-values: those below α may be rejected together, one error in 1/α families.

    Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6.
    """
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def symmetry_p_values(ranks: Ranks, most: int) -> Array:
    """p-values by which ranks are symmetric about their middle, (S, Q) -> (Q,).

    Those of too narrow and too wide a posterior are, too: what is rejected is the **point
    estimate**. The statistic is Kolmogorov and Smirnov's between the ranks and their mirror images;
    as these are the same numbers, its law is that under random reflections of each rank, not the
    one of independent samples.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?: evaluating variational
    inference, ICML, arXiv:1802.02538, proposition 2 and section 3.
    """
    rng = np.random.default_rng(0)
    return np.array([_symmetry(column, most, rng) for column in ranks.T])


def _symmetry(ranks: Ranks, most: int, rng: np.random.Generator) -> float:
    counts = np.bincount(ranks, minlength=most + 1)
    half = (most + 1) // 2
    low, pairs = counts[:half], counts[:half] + counts[::-1][:half]
    distance = np.abs(np.cumsum(2 * low - pairs)).max()
    reflected = rng.binomial(pairs, 0.5, size=(NULL_SETS // 10, half))
    null = np.abs(np.cumsum(2 * reflected - pairs, axis=1)).max(axis=1)
    return float((1 + np.sum(null >= distance)) / (1 + len(null)))


@lru_cache(maxsize=8)
def _two_sided(simulations: int, most: int) -> Array:
    """Two-sided probability of each count (rows 0 … S) at each z (columns)."""
    counts = np.arange(simulations + 1)[:, None]
    z = np.arange(1, most + 1) / (most + 1)
    below, above = binom.cdf(counts, simulations, z), binom.sf(counts - 1, simulations, z)
    return np.minimum(1.0, 2 * np.minimum(below, above))


def _gamma(counts: NDArray[np.integer], probability: Array) -> Array:
    """The smallest probability along each ECDF, (N, L) -> (N,)."""
    return probability[counts, np.arange(counts.shape[1])].min(axis=1)


@lru_cache(maxsize=8)
def _null(simulations: int, most: int) -> Array:
    """γ of sets of uniform ranks, sorted."""
    rng = np.random.default_rng([simulations, most])
    probability, uniform = _two_sided(simulations, most), np.full(most + 1, 1 / (most + 1))
    found = []
    for _ in range(NULL_SETS // BLOCK):
        counts = rng.multinomial(simulations, uniform, size=BLOCK)
        found.append(_gamma(np.cumsum(counts, axis=1)[:, :-1], probability))
    return np.sort(np.concatenate(found))
