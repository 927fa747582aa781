"""Pool-based active learning with exact Gaussian updates of the whole pool.

After a label of row j with site (m, v), every pool row i follows from the cross-covariances
c_i = x_iᵀ Σ x_j alone (Kalman):

    mean_i += c_i (m − mean_j)/(v + c_j),      variance_i −= c_i²/(v + c_j),

so a step costs O(K (p² + n p)) for n pool rows, without refitting anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_ext.matching.predict import N_DRAWS, expected_entropy, log_expected_probabilities
from pymc_ext.matching.state import MatchingState
from pymc_ext.maths.types import Array
from pymc_ext.seeds import check_seed

CRITERIA = ("entropy", "bald", "random")


class Pool:
    """Unlabelled rows with the current predictive moments of their latents.

    Parameters
    ----------
    state : MatchingState
        Starting state, already given the initial labels; it is updated with every label.
    X : (n, n_features) array_like
        Rows that may be asked for.
    n_draws : int
        Sobol draws for the softmax link, a power of two.
    """

    def __init__(self, state: MatchingState, X: ArrayLike, n_draws: int = N_DRAWS) -> None:
        self.state, self.n_draws = state, n_draws
        self._X = np.array(X, dtype=float)
        self._design = state.design(self._X)
        self.mean, self.variance = state.posterior.predict(self._design)
        self._covariance = state.posterior.covariance
        self.available = np.ones(len(self._X), dtype=bool)

    def scores(self, criterion: str = "entropy") -> Array:
        """Value of asking for each row, (n,), in nats; −inf where the label is known.

        entropy: H[y] of the predictive distribution; bald: H[y] − E H[y | f], the information the
        label holds about the weights; random: no difference.

        Raises
        ------
        ValueError
            If the criterion is unknown.
        """
        if criterion not in CRITERIA:
            raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")
        score = np.zeros(len(self._X))
        if criterion != "random":
            log_p = log_expected_probabilities(self.mean, self.variance, self.n_draws)
            score = -(np.exp(log_p) * np.maximum(log_p, -800.0)).sum(axis=1)  # 0·∞ = 0: e^-745 is 0
        if criterion == "bald":
            score -= expected_entropy(self.mean, self.variance, self.n_draws)
        return np.where(self.available, score, -np.inf)

    def select(self, criterion: str, rng: np.random.Generator) -> int:
        """Row with the highest score, ties (and the random criterion) broken by ``rng``.

        Raises
        ------
        ValueError
            If all labels are known.
        """
        if not self.available.any():
            raise ValueError(f"the pool of {len(self._X)} rows is used up: take fewer steps")
        score = self.scores(criterion)
        return int(rng.choice(np.flatnonzero(score == score.max())))

    def label(self, index: int, y: object) -> None:
        """Condition state and pool on label ``y`` of row ``index``.

        Raises
        ------
        ValueError
            If the row is labelled already, or ``y`` is not one of the state's classes.
        """
        if not self.available[index]:
            raise ValueError(f"row {index} has been labelled already")
        code = int(self.state.encode(np.asarray([y]))[0])
        self.state.update(self._X[index : index + 1], np.asarray([y]))
        m, v = self.state.sites.mean[code], self.state.sites.variance[code]
        u = self._covariance @ self._design[index]  # (K, p)
        c = self._design @ u.T
        total = v + c[index]
        self._covariance -= u[:, :, None] * (u / total[:, None])[:, None, :]
        self.mean += c * ((m - self.mean[index]) / total)
        self.variance -= c**2 / total
        self.available[index] = False


@dataclass(frozen=True)
class ActiveRun:
    """What an active-learning run did.

    Parameters
    ----------
    criterion, seed
        As given.
    chosen : tuple of int
        Pool rows in the order they were labelled.
    seconds, cpu_seconds : float
        Wall and processor time of selection and updates, evaluation excluded.
    evaluations : tuple
        Results of ``evaluate`` before the first and after each label; empty without it.
    """

    criterion: str
    seed: int | None
    chosen: tuple[int, ...]
    seconds: float
    cpu_seconds: float
    evaluations: tuple[object, ...]


def active_learning(
    state: MatchingState,
    X: ArrayLike,
    y: ArrayLike,
    steps: int,
    criterion: str = "entropy",
    seed: int | None = None,
    evaluate: Callable[[MatchingState], object] | None = None,
    n_draws: int = N_DRAWS,
) -> ActiveRun:
    """Label ``steps`` rows of a pool one by one, each chosen by the posterior so far.

    Parameters
    ----------
    state : MatchingState
        Starting state, already given the initial labels; it is updated in place.
    X, y : array_like
        Pool rows (n, n_features) and the labels that the oracle will give, (n,).
    steps : int
        Labels to ask for, at most n.
    criterion : {"entropy", "bald", "random"}
        See `Pool.scores`.
    seed : int, optional
        Breaks ties and drives the random criterion.
    evaluate : callable, optional
        Called with the state before the first and after each label.
    n_draws : int
        Sobol draws for the softmax link, a power of two.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    y, n = np.asarray(y), len(np.asarray(X))
    if not isinstance(steps, int | np.integer) or not 1 <= steps <= n:
        raise ValueError(f"steps must be 1..{n}, the size of the pool, got {steps!r}")
    if y.shape != (n,):
        raise ValueError(f"y must hold {n} labels, got shape {y.shape}")
    state.encode(y)  # refuses unknown labels before anything is changed
    check_seed(seed, name="seed")
    rng, chosen, seconds = np.random.default_rng(seed), [], np.zeros(2)
    pool = Pool(state, X, n_draws)
    evaluations = [evaluate(state)] if evaluate else []
    for _ in range(steps):
        begin = np.array([time.perf_counter(), time.process_time()])
        chosen.append(pool.select(criterion, rng))
        pool.label(chosen[-1], y[chosen[-1]])
        seconds += np.array([time.perf_counter(), time.process_time()]) - begin
        if evaluate:
            evaluations.append(evaluate(state))
    wall, cpu = (float(s) for s in seconds)
    return ActiveRun(criterion, seed, tuple(chosen), wall, cpu, tuple(evaluations))
