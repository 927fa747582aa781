r"""States of a hidden Markov model given the data: probabilities and draws, of many chains at once.

A chain s_1, ..., s_T over K states with initial probabilities π and transitions P[j, k] emits y_t
with densities p(y_t | s_t). All is in logs, so that neither long chains nor densities underflow;
leading axes (...) are chains side by side, as the draws of a posterior.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array

__all__ = ["filtered", "normalized", "sample_categorical", "sample_states", "smoothed"]


def filtered(log_initial: Array, log_transition: Array, log_emission: Array) -> Array:
    r"""log p(s_t, y_1, ..., y_t) by the forward recursion, (..., T, K).

    .. math:: α_t(k) = p(y_t | k) \sum_j α_{t-1}(j) P_{jk}

    Parameters
    ----------
    log_initial
        log π, (..., K).
    log_transition
        log P, (..., K, K), from rows to columns.
    log_emission
        log p(y_t | s_t = k), (..., T, K).

    Examples
    --------
    >>> P, π = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5])
    >>> given = np.log([[0.3, 0.1], [0.2, 0.4], [0.1, 0.5]])  # p(y_t | s_t), three steps
    >>> np.exp(filtered(np.log(π), np.log(P), given))[-1].sum().round(5)  # p(y)
    np.float64(0.0133)
    """
    alpha = np.empty_like(log_emission)
    alpha[..., 0, :] = log_initial + log_emission[..., 0, :]
    for t in range(1, log_emission.shape[-2]):
        ahead = np.logaddexp.reduce(alpha[..., t - 1, :, None] + log_transition, axis=-2)
        alpha[..., t, :] = ahead + log_emission[..., t, :]
    return alpha


def smoothed(alpha: Array, log_transition: Array, log_emission: Array) -> Array:
    r"""log p(s_t | y_1, ..., y_T), (..., T, K), by the backward recursion.

    .. math:: β_t(j) = \sum_k P_{jk} p(y_{t+1} | k) β_{t+1}(k), \qquad p(s_t | y) ∝ α_t β_t

    ``alpha`` is what `filtered` gave of the same chain.

    Source: Rabiner (1989), doi:10.1109/5.18626.
    """
    gamma, beta = alpha.copy(), np.zeros_like(alpha[..., 0, :])
    for t in range(alpha.shape[-2] - 2, -1, -1):
        behind = log_emission[..., t + 1, :] + beta
        beta = np.logaddexp.reduce(log_transition + behind[..., None, :], axis=-1)
        gamma[..., t, :] += beta
    return normalized(gamma)


def sample_states(
    alpha: Array, log_transition: Array, rng: np.random.Generator
) -> NDArray[np.integer]:
    r"""One path (..., T) of each chain from p(s_1, ..., s_T | y), backward from its end.

    .. math:: p(s_t | s_{t+1}, y) ∝ α_t(s_t) P_{s_t s_{t+1}}

    ``alpha`` is what `filtered` gave of the same chain.

    Source: Chib (1996), doi:10.1016/0304-4076(95)01770-4.
    """
    states = np.empty(alpha.shape[:-1], dtype=np.int64)
    states[..., -1] = sample_categorical(alpha[..., -1, :], rng)
    into = np.moveaxis(np.broadcast_to(log_transition, (*alpha.shape[:-2], *_square(alpha))), -1, 0)
    for t in range(alpha.shape[-2] - 2, -1, -1):
        chosen = np.take_along_axis(into, states[None, ..., t + 1, None], axis=0)[0]
        states[..., t] = sample_categorical(alpha[..., t, :] + chosen, rng)
    return states


def _square(alpha: Array) -> tuple[int, int]:
    return alpha.shape[-1], alpha.shape[-1]


def sample_categorical(log_weight: Array, rng: np.random.Generator) -> NDArray[np.integer]:
    """An index drawn of each row of unnormalised log probabilities, (..., K) -> (...).

    The largest of log weights with independent Gumbel noise has their distribution.

    Source: Yellott (1977), doi:10.1016/0022-2496(77)90026-8.
    """
    return np.argmax(log_weight + rng.gumbel(size=log_weight.shape), axis=-1)


def normalized(log_weight: Array) -> Array:
    """Log probabilities that sum to one along the last axis."""
    return log_weight - np.logaddexp.reduce(log_weight, axis=-1)[..., None]
