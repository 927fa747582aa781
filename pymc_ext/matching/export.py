"""Posterior draws of a matching state as ArviZ InferenceData."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, log_softmax

from pymc_ext.arviz_versions import ArvizData, from_groups
from pymc_ext.matching.state import MatchingState
from pymc_ext.matching.targets import Labels
from pymc_ext.maths.types import Array
from pymc_ext.seeds import check_seed

DIMS = {"coef": ["latent", "feature"], "intercept": ["latent"]}


def inference_data(
    state: MatchingState,
    draws: int,
    random_seed: int | None,
    data: tuple[Array, NDArray, Array | None] | None,
) -> ArvizData:
    """Draws of the weights with ``lq`` and, given all data (X, y, weight), ``lp``; one chain."""
    if not isinstance(draws, int | np.integer) or draws < 1:
        raise ValueError(f"draws must be an integer >= 1, got {draws!r}")
    check_seed(random_seed, generator=True)
    w = state.posterior.sample(int(draws), np.random.default_rng(random_seed))
    stats = {"lq": state.posterior.log_density(w)}
    if data is not None:
        stats["lp"] = log_joint(state, w, *data)
    posterior = {"coef": w[..., : state.n_features]}
    if state.fit_intercept:
        posterior["intercept"] = w[..., -1]
    one_class = len(state.classes) != w.shape[1]  # a logit: the latent of the second class
    coords = {"latent": state.classes[1:] if one_class else state.classes}
    return from_groups(
        {"posterior": _chain(posterior), "sample_stats": _chain(stats)},
        coords={k: np.asarray(v.tolist()) for k, v in coords.items()},
        dims={name: DIMS[name] for name in posterior},
    )


def log_joint(
    state: MatchingState,
    weights: Array,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
) -> Array:
    """log prior + exact log-likelihood at weights (draws, K, p), normalised, (draws,).

    X (n, n_features), y (n,), ``sample_weight`` (n,).
    """
    design, labels = state.design(X), state.encode(y)
    precision = state.prior_precision
    log_prior = 0.5 * (np.log(precision / (2 * np.pi)) - precision * weights**2).sum(axis=(1, 2))
    rows = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight)
    return log_prior + np.array([rows @ _log_likelihood(design @ w.T, labels) for w in weights])


def _log_likelihood(f: Array, labels: Labels) -> Array:
    """Of every row, (n,)."""
    if f.shape[1] == 1:
        return np.asarray(log_expit(np.where(labels == 1, 1, -1) * f[:, 0]))
    return np.asarray(log_softmax(f, axis=1)[np.arange(len(labels)), labels])


def _chain(variables: dict[str, Array]) -> dict[str, Array]:
    return {name: value[None] for name, value in variables.items()}
