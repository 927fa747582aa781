"""Expectations of the exact likelihood over Gaussian latents.

Latents f_k ~ N(m_k, v_k), independent. One latent (logit): exact, by the derivatives of
E log(1 + e^f). K latents (softmax): a fixed set of scrambled Sobol draws, so results are
deterministic; errors are at :data:`N_DRAWS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.special import log_softmax, logsumexp, ndtri
from scipy.stats import qmc

from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import DEFAULT_TERMS, series
from pymc_ext.maths.types import Array
from pymc_ext.ops.expected_softplus import expected_softplus

# largest error of p in 200 rows: 6e-4 (3 classes, sd 1) to 8e-3 (10 classes, sd 3); twice that from
# half the draws, half of it from twice as many
N_DRAWS = 512
CHUNK = 2_000_000  # numbers held at once: 16 MB
# rows from which compiling pays over some hundred calls: NumPy takes 3 ms there, the Op .06
COMPILE_FROM = 500


def log_expected_probabilities(mean: Array, variance: Array, n_draws: int = N_DRAWS) -> Array:
    """log E p(y = c | f), (n, C), from mean and variance of the latents, each (n, K)."""
    if mean.shape[1] == 1:
        return _log_binary_probabilities(mean[:, 0], np.sqrt(variance[:, 0]))

    def log_mean(f: Array) -> Array:
        return logsumexp(log_softmax(f, axis=-1), axis=0) - np.log(len(f))

    return _over_draws(log_mean, mean, variance, n_draws)


def expected_log_probabilities(mean: Array, variance: Array, n_draws: int = N_DRAWS) -> Array:
    """E log p(y = c | f), (n, C), from mean and variance of the latents, each (n, K)."""
    if mean.shape[1] == 1:
        sd = np.sqrt(variance[:, 0])
        return -np.stack([_softplus_terms(s * mean[:, 0], sd)[0] for s in (1, -1)], axis=1)
    return _over_draws(lambda f: log_softmax(f, axis=-1).mean(axis=0), mean, variance, n_draws)


def expected_log_softmax(mean: Array, covariance: Array, n_draws: int = N_DRAWS) -> Array:
    """E log p(y = c | f), (n, K), for correlated latents, mean (n, K), covariance (n, K, K)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # singular for a fixed latent
    z, K = normal_draws(n_draws, mean.shape[1]), mean.shape[1]
    rows = max(1, CHUNK // (n_draws * K))
    parts = []
    for i in range(0, len(mean), rows):
        f = mean[i : i + rows, None] + z @ np.swapaxes(root[i : i + rows], 1, 2)
        parts.append(log_softmax(f, axis=-1).mean(axis=1))
    return np.concatenate(parts)


def expected_entropy(mean: Array, variance: Array, n_draws: int = N_DRAWS) -> Array:
    """E H[y | f] in nats, (n,), from mean and variance of the latents, each (n, K)."""
    if mean.shape[1] == 1:
        return _expected_binary_entropy(mean[:, 0], np.sqrt(variance[:, 0]))

    def entropy(f: Array) -> Array:
        lp = log_softmax(f, axis=-1)
        return -(np.exp(lp) * lp).sum(axis=-1).mean(axis=0)

    return _over_draws(entropy, mean, variance, n_draws)


def _log_binary_probabilities(mu: Array, sd: Array) -> Array:
    smaller = _softplus_terms(-np.abs(mu), sd)[1]  # E s(−|f|) keeps its relative accuracy
    log_p = np.stack([np.log(smaller), np.log1p(-smaller)], axis=1)
    return np.where((mu > 0)[:, None], log_p, log_p[:, ::-1])


def _expected_binary_entropy(mu: Array, sd: Array) -> Array:
    """H(f) = softplus(f) − f s(f), and E f s(f) = μ E s + sd² E s′ (Stein)."""
    value, slope, by_sd = _softplus_terms(-np.abs(mu), sd)  # H is even: no cancellation for μ < 0
    return value + np.abs(mu) * slope - sd * by_sd  # ∂/∂sd E log(1+e^f) = sd E s′


def _softplus_terms(mu: Array, sd: Array) -> tuple[Array, Array, Array]:
    """E log(1+e^f) and its derivatives in μ and sd, by the compiled Op where that pays."""
    if mu.size < COMPILE_FROM:
        numbers = series(0, DEFAULT_TERMS, "cohen-villegas-zagier")
        return expected_softplus_derivatives(mu, sd, numbers)
    value, slope, by_sd = _compiled_terms()(mu, sd)
    return value, slope, by_sd


@cache
def _compiled_terms() -> Callable[..., list[Array]]:
    mu, sd = pt.dvectors("mu", "sd")
    return pytensor.function([mu, sd], expected_softplus(mu, sd).owner.outputs)


def _over_draws(
    function: Callable[[Array], Array],
    mean: Array,
    variance: Array,
    n_draws: int,
) -> Array:
    z = normal_draws(n_draws, mean.shape[1])[:, None, :]
    sd = np.sqrt(variance)
    rows = max(1, CHUNK // (n_draws * mean.shape[1]))
    starts = range(0, len(mean), rows)
    return np.concatenate(
        [function(mean[i : i + rows] + sd[i : i + rows] * z) for i in starts], axis=0
    )


@lru_cache(maxsize=8)
def normal_draws(n_draws: int, dimension: int) -> Array:
    """Scrambled Sobol points turned to standard normals, always the same, (n_draws, dimension)."""
    if not isinstance(n_draws, int | np.integer) or n_draws < 2 or n_draws & (n_draws - 1):
        raise ValueError(f"n_draws must be a power of two >= 2, got {n_draws!r}")
    uniform = qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(n_draws)
    draws = ndtri(uniform)
    draws.flags.writeable = False
    return draws
