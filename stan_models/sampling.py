"""NUTS through cmdstanpy, warm-up and diagnostics kept."""

from __future__ import annotations

import json
import os

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from stan_models.density import Data
from stan_models.inference_data import ArvizData, make_inference_data, unconstrained, variables
from stan_models.program import StanProgram
from stan_models.results import Draws, given, posterior_groups
from stan_models.runs import (
    Inits,
    check_inits,
    cmdstan_run,
    density_of,
    positive,
    random_seed_or_new,
)

ARVIZ_NAMES = {
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
INTEGER = {"tree_depth", "n_steps"}


METRICS = ("diag_e", "dense_e", "unit_e")


def nuts(
    program: StanProgram,
    data: Data = None,
    *,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    random_seed: int | None = None,
    adapt_delta: float = 0.8,
    max_treedepth: int = 10,
    metric: str = "diag_e",
    inits: Inits = None,
    parallel_chains: int | None = None,
    timeout: float | None = None,
) -> ArvizData:
    """Draw from the posterior with Stan's No-U-Turn sampler.

    Parameters
    ----------
    program, data
        The program and the values of its data block (mapping, JSON path, or None).
    chains, warmup, draws
        Chains, and adaptation and kept iterations of each.
    random_seed
        Seed, 0 to 2**32 - 1; a fresh one is drawn, and recorded, if None.
    adapt_delta, max_treedepth, metric
        As Stan's: target acceptance rate, depth limit, "diag_e" | "dense_e" | "unit_e".
    inits
        As cmdstanpy's: radius on the unconstrained space, or constrained values by name.
    parallel_chains
        Chains run at once; as many as there are cores if None.
    timeout
        Seconds after which the run is given up.

    Returns
    -------
    InferenceData
        ``posterior``, ``unconstrained_posterior``, ``sample_stats`` (lp, acceptance_rate,
        step_size, tree_depth, n_steps, diverging, energy), and the same with ``warmup_`` in front,
        without generated quantities. ``energy`` is Stan's: up to a constant.
        The attribute ``gradient_evaluations`` is the number of leapfrog steps with warm-up;
        Stan does not report the few of its first step-size search.

    Raises
    ------
    StanCompileError, StanDataError
        The program or the data are not valid.
    StanRunError
        The sampler failed or was killed; nothing is kept.
    ValueError
        A number is out of range, ``inits`` name what is no parameter, or ``metric`` is neither a
        name nor a file of a positive definite matrix.

    Examples
    --------
    >>> idata = nuts(program, data, random_seed=1)
    >>> az.summary(idata)

    References
    ----------
    Hoffman and Gelman (2014), JMLR 15:1593, https://arxiv.org/abs/1111.4246
    """
    positive(chains=chains, warmup=warmup, draws=draws, max_treedepth=max_treedepth)
    if metric not in METRICS and not os.path.exists(metric):
        raise ValueError(
            f"metric must be one of {METRICS}, or a JSON file of an inverse metric, got {metric!r}"
        )
    seed = random_seed_or_new(random_seed)
    density = density_of(program, data)
    check_inits(inits, density)
    if metric not in METRICS:
        _check_metric(metric, density.dimension)
    settings = given(
        chains=chains, iter_warmup=warmup, iter_sampling=draws, adapt_delta=adapt_delta,
        max_treedepth=max_treedepth, metric=metric, inits=inits,
    )  # fmt: skip
    with cmdstan_run(program, "NUTS") as run:
        fit = run.call("sample", data=data, seed=seed, save_warmup=True, show_progress=False,
                       parallel_chains=parallel_chains, timeout=timeout, **settings)  # fmt: skip
        table = fit.draws(inc_warmup=True).transpose(1, 0, 2)
        run.require_rows(table.shape[1], warmup + draws)
        every = Draws.read(density, fit.column_names, table)
        steps = int(every.method["n_leapfrog__"].sum())
        kept, warm = every[warmup:], every[:warmup]
        groups = posterior_groups(
            kept, run, method="nuts", random_seed=seed,
            gradient_evaluations=steps, arguments=settings,
        )  # fmt: skip
    groups["sample_stats"] = _sample_stats(kept)
    groups["warmup_posterior"] = variables(warm.values())
    groups["warmup_unconstrained_posterior"] = unconstrained(
        warm.theta, density.unconstrained_names
    )
    groups["warmup_sample_stats"] = _sample_stats(warm)
    return make_inference_data(groups)


def _check_metric(path: str, dimension: int) -> None:
    """ValueError unless a file holds a positive definite metric, which Stan alone does not say."""
    try:
        with open(path, encoding="utf-8") as file:
            found = np.array(json.load(file)["inv_metric"], dtype=float)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f'metric must be a JSON file with "inv_metric", numbers (D,) or (D, D), got {path!r} '
            f"({type(error).__name__}: {error})"
        ) from error
    full = found if found.ndim == 2 else np.diag(found) if found.ndim == 1 else np.empty((0, 0))
    if full.shape != (dimension, dimension):
        raise ValueError(
            f"the inverse metric of {path!r} must have shape ({dimension},) or "
            f"({dimension}, {dimension}), got {found.shape}"
        )
    if not (np.allclose(full, full.T) and np.linalg.eigvalsh(full).min() > 0):
        raise ValueError(
            f"the inverse metric of {path!r} must be symmetric and positive definite: give a "
            "covariance of the unconstrained parameters"
        )


def _sample_stats(draws: Draws) -> xr.Dataset:
    stats: dict[str, NDArray] = {"lp": draws.log_density()}
    for column, name in ARVIZ_NAMES.items():
        values = draws.method[column]
        stats[name] = values.astype(int) if name in INTEGER else values
    stats["diverging"] = stats["diverging"] > 0
    return variables(stats)
