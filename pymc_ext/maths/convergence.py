r"""Whether chains agree and what their draws are worth, on arrays, without importing ArviZ.

Arrays are (chains, draws, K): K scalars at once. Chains are halved; with rank-normalised draws z,

.. math:: \hat R = \sqrt{\frac{(n - 1) W + B}{n W}}, \qquad
          S = \frac{m n}{-1 + 2 \sum_t \hat\rho_t},

W and B the variances within and between the m half-chains of n draws, ρ̂ the autocorrelations up to
the end of Geyer's initial monotone sequence. Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021),
Rank-normalization, folding, and localization, Bayesian Analysis 16(2), arXiv:1903.08008, sections
3 and 4. Tested against ArviZ's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import betaincinv, ndtr, ndtri

from pymc_ext.maths.types import Array

TAILS = (0.05, 0.95)  # quantiles whose estimates the tail ESS is of, as in the paper
FEWEST = 4  # draws of a chain: half-chains of two have a variance


def bulk_ess(x: Array) -> Array:
    """Effective draws for the centre of each scalar, (chains, draws, K) -> (K,).

    That of a constant is the number of draws; NaN where a draw is not finite.
    """
    x, undefined = _checked(x)
    halves = _halves(x)
    return np.where(undefined, np.nan, _ess(_normal_scores(halves), halves))


def bulk_ess_and_rhat(x: Array) -> tuple[Array, Array]:
    """:func:`bulk_ess`, and R̂ of ranks and of folded ranks, the larger; 1 of a constant.

    As both need the ranks, together they are a third less work.
    """
    x, undefined = _checked(x)
    halves = _halves(x)
    scores = _normal_scores(halves)
    found = _ess(scores, halves), _larger_rhat(halves, scores)
    return np.where(undefined, np.nan, found[0]), np.where(undefined, np.nan, found[1])


def tail_ess(x: Array) -> Array:
    """Effective draws for the 5 % and 95 % quantiles, the smaller, (chains, draws, K) -> (K,)."""
    x, undefined = _checked(x)
    found = []
    for quantile in np.quantile(x, TAILS, axis=(0, 1)):
        inside = _halves((x <= quantile).astype(float))
        found.append(_ess(inside, inside))
    return np.where(undefined, np.nan, np.min(found, axis=0))


def sd_error(x: Array) -> Array:
    r"""Standard error of each scalar's sd, as a share of it, (chains, draws, K) -> (K,).

    By the delta method from u = (x − m)², of which S(u) draws are effective:
    :math:`[\mathrm{var}(u) / S(u)]^{1/2} / 2 \bar u`; 0 of a constant, NaN where a draw is not
    finite. It means something where u has a variance: see `pymc_ext.maths.psis.tail_khat`.
    """
    x, undefined = _checked(x)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # of draws of 1e200
        u = _halves((x - x.mean(axis=(0, 1))) ** 2)
        error = np.sqrt(u.var(axis=(0, 1)) / _ess(u, u)) / (2 * u.mean(axis=(0, 1)))
    return np.where(undefined, np.nan, np.where(is_constant(x), 0.0, error))


def mean_error(x: Array) -> Array:
    """Standard error of each scalar's mean, (chains, draws, K) -> (K,), sd/√S of S effective draws;
    0 of a constant, NaN where a draw is not finite."""
    x, undefined = _checked(x)
    halves = _halves(x)
    error = x.std(axis=(0, 1)) / np.sqrt(_ess(halves, halves))
    return np.where(undefined, np.nan, np.where(is_constant(x), 0.0, error))


def quantile_error(x: Array, probability: float) -> Array:
    """Standard error of each scalar's quantile, (chains, draws, K) -> (K,).

    Half the distance of the quantiles at the shares of draws between which the law of the share
    below it, Beta(p S + 1, (1 − p) S + 1) of S effective draws, has the mass that a normal law has
    within one sd.
    """
    x, undefined = _checked(x)
    below = _halves((x <= np.quantile(x, probability, axis=(0, 1))).astype(float))
    S = _ess(below, below)
    ordered = np.sort(x.reshape(-1, x.shape[-1]), axis=0)
    low, high = (
        _at_shares(ordered, betaincinv(probability * S + 1, (1 - probability) * S + 1, ndtr(z)))
        for z in (-1.0, 1.0)
    )
    return np.where(undefined, np.nan, 0.5 * (high - low))


def _at_shares(ordered: Array, shares: Array) -> Array:
    """Of each column of (S, K) in order its own quantile (K,), between draws by a line."""
    at = shares * (len(ordered) - 1)
    first = np.floor(at).astype(int)
    rows = np.stack([first, np.minimum(first + 1, len(ordered) - 1)])
    low, high = np.take_along_axis(ordered, rows, axis=0)
    return np.asarray(low + (at - first) * (high - low))


def energy_fmi(energy: Array) -> Array:
    """E-FMI, E[(E_t − E_{t−1})²] / var E, of each chain, (chains, draws) -> (chains,).

    Low where the momentum cannot change the energy as much as the posterior does. Betancourt
    (2016), Diagnosing suboptimal cotangent disintegrations, arXiv:1604.00695.
    """
    return np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)


def _checked(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The draws, zero where a scalar is not always finite, and which these are, (K,)."""
    x = np.asarray(x, dtype=float)
    if x.ndim != 3 or x.shape[1] < FEWEST:
        raise ValueError(
            f"draws must have shape (chains, draws >= {FEWEST}, scalars), got {x.shape}"
        )
    undefined: NDArray[np.bool_] = np.logical_not(np.isfinite(x).all(axis=(0, 1)))
    return np.where(undefined, 0.0, x), undefined


def _halves(x: Array) -> Array:
    """(chains, n, K) -> (2 chains, n // 2, K); of an odd n the middle is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def is_constant(x: Array) -> NDArray[np.bool_]:
    """Which scalars' draws differ by rounding at most, (chains, draws, K) -> (K,)."""
    spread, most = np.ptp(x, axis=(0, 1)), np.abs(x).max(axis=(0, 1))
    return np.asarray(spread <= np.finfo(float).resolution * most)


def _normal_scores(x: Array) -> Array:
    """Φ⁻¹((rank − 3/8) / (S + 1/4)) over all chains of each scalar; equals have the mean rank."""
    flat = x.reshape(-1, x.shape[-1])
    order = flat.argsort(axis=0)
    ordered, place = np.take_along_axis(flat, order, axis=0), np.arange(len(flat))[:, None]
    begins = np.ones(flat.shape, dtype=bool)  # of equals
    begins[1:] = ordered[1:] != ordered[:-1]
    ends = np.roll(begins, -1, axis=0)
    first = np.maximum.accumulate(np.where(begins, place, 0), axis=0)
    last = np.minimum.accumulate(np.where(ends, place, len(flat))[::-1], axis=0)[::-1]
    scores = ndtri(((first + last) / 2 + 0.625) / (len(flat) + 0.25))
    found = np.empty_like(flat)
    np.put_along_axis(found, order, scores, axis=0)
    return found.reshape(x.shape)


def _larger_rhat(x: Array, scores: Array) -> Array:
    """R̂ of half-chains ``x`` by their normal scores and by those of folded draws."""
    folded = np.abs(x - np.median(x, axis=(0, 1)))
    pair = [_rhat(scores), _rhat(_normal_scores(folded))]
    return np.where(is_constant(x), 1.0, np.max(pair, axis=0))


def _rhat(x: Array) -> Array:
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean(axis=0)
    between = n * x.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((between / within + n - 1) / n)


def _ess(z: Array, x: Array) -> Array:
    """ESS of scores ``z`` of ``x``, both (m, n, K)."""
    m, n, _ = z.shape
    covariance = _autocovariance(z).mean(axis=0)  # (n, K)
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + z.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - covariance) / total
    rho[0] = 1
    pairs = rho[: n - n % 2].reshape(-1, 2, rho.shape[1]).sum(axis=1)  # ρ_2k + ρ_2k+1
    last = min((n - 3) // 2, len(pairs) - 1) if n > FEWEST else 0
    negative = pairs[: last + 1] <= 0
    end = np.where(negative.any(axis=0), negative.argmax(axis=0), last)
    counted = np.arange(last + 1)[:, None] < end
    monotone = np.minimum.accumulate(pairs[: last + 1], axis=0)
    tail = np.take_along_axis(rho, 2 * end[None], axis=0)[0]
    tau = -1 + 2 * np.where(counted, monotone, 0).sum(axis=0) + np.maximum(tail, 0)
    found = m * n / np.maximum(tau, 1 / np.log10(m * n))
    return np.where(is_constant(x), float(m * n), found)


def _autocovariance(x: Array) -> Array:
    """Of each chain and scalar at every lag, divided by n: (m, n, K) -> (m, n, K)."""
    n = x.shape[1]
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(x - x.mean(axis=1, keepdims=True), size, axis=1)
    return irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n] / n
