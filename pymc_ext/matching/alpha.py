"""Choice of α, the pseudo-count that trades closeness to the exact likelihood for Gaussianity."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from pymc_ext.matching.predict import (
    N_DRAWS,
    expected_log_probabilities,
    log_expected_probabilities,
)
from pymc_ext.matching.state import MatchingState
from pymc_ext.matching.targets import Labels
from pymc_ext.maths.types import Array

logger = logging.getLogger(__name__)

CRITERIA = ("likelihood", "elbo")
BOUNDS = (1e-3, 1.0)  # a choice: a maximum at an end is reported
GRID = 9  # values a factor of 2.4 apart: a choice, which resolves maxima wider than that
TOLERANCE = 1e-3  # in log α: three digits of α


@dataclass(frozen=True)
class AlphaChoice:
    """A chosen α.

    Parameters
    ----------
    alpha : float
        The maximiser.
    criterion : str
        "likelihood" or "elbo".
    value : float
        Criterion there, in nats, summed over the data.
    tried : tuple of (float, float)
        All pairs (α, value) evaluated, α ascending.
    at_bound : bool
        Whether the maximiser is an end of the search interval.
    """

    alpha: float
    criterion: str
    value: float
    tried: tuple[tuple[float, float], ...]
    at_bound: bool


def train_log_likelihood(
    state: MatchingState,
    X: ArrayLike,
    y: ArrayLike,
    weight: ArrayLike | None = None,
    n_draws: int = N_DRAWS,
) -> float:
    """Σ_n w_n log E_q p(y_n | f_n) under the exact likelihood, q the state's posterior.

    X (n, n_features), y (n,), ``weight`` (n,).
    """
    log_p = log_expected_probabilities(*state.predict_latents(X), n_draws)
    return _weighted_sum(log_p, state.encode(y), weight)


def elbo(
    state: MatchingState,
    X: ArrayLike,
    y: ArrayLike,
    weight: ArrayLike | None = None,
    n_draws: int = N_DRAWS,
) -> float:
    """ELBO of the state's posterior under the exact likelihood of all its data.

    Σ_n w_n E_q log p(y_n | f_n) − KL(q‖prior), includes all normalisers, a lower bound on the
    exact log evidence. Exact for the logit link, 512 Sobol draws for softmax.

    Parameters
    ----------
    state : MatchingState
        Posterior q, fitted to exactly these rows.
    X, y, weight : (n, n_features), (n,) and (n,) array_like
        All the data the state has seen.
    n_draws : int
        Draws for the softmax link, a power of two.

    References
    ----------
    Bui, "Likelihood approximations via Gaussian approximate inference", appendix B.
    """
    log_p = expected_log_probabilities(*state.predict_latents(X), n_draws)
    data = _weighted_sum(log_p, state.encode(y), weight)
    return data - state.posterior.divergence_from(state.prior_precision)


def choose_alpha(
    state: MatchingState,
    X: ArrayLike,
    y: ArrayLike,
    criterion: str = "elbo",
    weight: ArrayLike | None = None,
    n_draws: int = N_DRAWS,
    bounds: tuple[float, float] = BOUNDS,
) -> AlphaChoice:
    """α in ``bounds`` that maximises a criterion of the posterior it gives.

    A grid of 9 values finds the best cell, Brent's method the maximum in it. The data sums of the
    state are reused, so one α costs one factorisation and one prediction of the rows.

    Parameters
    ----------
    state : MatchingState
        State that has seen the rows; its own α is ignored.
    X, y, weight : (n, n_features), (n,) and (n,) array_like
        The rows.
    criterion : {"elbo", "likelihood"}
        `elbo`, or `train_log_likelihood`.
    n_draws, bounds
        Draws for the softmax link; search interval of α.

    Raises
    ------
    ValueError
        If the criterion is unknown.
    """
    functions = {"elbo": elbo, "likelihood": train_log_likelihood}
    if criterion not in functions:
        raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")

    def value(alpha: float) -> float:
        return functions[criterion](state.replace(alpha=alpha), X, y, weight, n_draws)

    return maximise_alpha(value, criterion, bounds)


def maximise_alpha(
    value: Callable[[float], float], criterion: str, bounds: tuple[float, float] = BOUNDS
) -> AlphaChoice:
    """α in ``bounds`` with the largest ``value``: a grid, then Brent's method in its best cell."""
    values: dict[float, float] = {}

    def loss(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        values[alpha] = value(alpha)
        return -values[alpha]

    _minimise(loss, np.linspace(np.log(bounds[0]), np.log(bounds[1]), GRID))
    tried = tuple(sorted(values.items()))
    best = max(range(len(tried)), key=lambda i: tried[i][1])
    at_bound = best in (0, len(tried) - 1)
    if at_bound:
        logger.warning("alpha = %g is at an end of its search interval %s", tried[best][0], bounds)
    return AlphaChoice(tried[best][0], criterion, tried[best][1], tried, at_bound)


def _minimise(loss: Callable[[float], float], grid: Array) -> None:
    losses = [loss(x) for x in grid]
    i = int(np.argmin(losses))
    cell = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    minimize_scalar(loss, bounds=cell, method="bounded", options={"xatol": TOLERANCE})


def _weighted_sum(log_p: Array, labels: Labels, weight: ArrayLike | None) -> float:
    chosen = log_p[np.arange(len(labels)), labels]
    return float(chosen.sum() if weight is None else np.asarray(weight, float) @ chosen)
