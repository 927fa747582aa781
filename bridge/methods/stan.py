"""Stan's own methods, run by `stan_models`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from bridge.methods.gaussian import gaussian_mixture_log_q
from bridge.methods.method import Fit, Method, Problem, RunMethod
from bridge.targets.draws import InferenceData, group_names
from pymc_ext.maths.types import Array

__all__ = ["STAN_METHODS"]


class _Losses(TypedDict, total=False):
    losses: Array
    loss_iterations: NDArray[np.integer]


def _stan_fit(problem: Problem, baseline: Callable[..., InferenceData], **arguments: object) -> Fit:
    """Run one of ``stan_models.baselines`` and read its InferenceData."""
    program, begin = problem.program, time.perf_counter()
    program.compile()  # so that `seconds` is the run alone
    start = time.perf_counter()
    idata = baseline(program, problem.data, **arguments)
    seconds = time.perf_counter() - start
    stats = idata["sample_stats"]
    attrs = dict(idata["posterior"].attrs)
    info = {k: attrs[k] for k in ("engine", "stan_version", "converged") if k in attrs}
    info["options"] = str(attrs["arguments"])  # JSON already: all that the run was told
    if "converged" in info:
        info["converged"] = bool(info["converged"])  # NetCDF has no booleans
    log_q = None
    if "variational_parameters" in group_names(idata):
        q = idata["variational_parameters"]
        log_q = gaussian_mixture_log_q(*(q[name].values for name in ("weight", "mean", "cov")))
    if "diverging" in stats:
        info["divergences"] = int(stats["diverging"].values.sum())
    gradients = attrs.get("gradient_evaluations")
    return Fit(
        target=problem.stan_target,
        theta=idata["unconstrained_posterior"]["theta"].values,
        lp=stats["lp"].values,
        lq=stats["lq"].values if "lq" in stats else None,
        log_q=log_q,
        seconds=float(attrs.get("seconds", seconds)),
        compile_seconds=start - begin,
        gradient_evaluations=None if gradients is None else int(gradients),
        **_losses(idata),
        statistics={name: stats[name].values for name in ("diverging", "energy") if name in stats},
        info=info,
    )


def _losses(idata: InferenceData) -> _Losses:
    """Stan's ELBO trace, where it prints one, as fields of :class:`Fit`."""
    if "optimization_trace" not in group_names(idata):
        return {}
    elbo = idata["optimization_trace"]["elbo"]
    return {"losses": -elbo.values, "loss_iterations": elbo["iteration"].values}


def _nuts(problem: Problem, draws: int, seed: int) -> Fit:
    from stan_models import nuts

    # Stan's own default whatever was asked for: this is what others are compared with
    return _stan_fit(problem, nuts, chains=4, warmup=1000, draws=1000, random_seed=seed)


def _advi(covariance: str) -> RunMethod:
    def run(problem: Problem, draws: int, seed: int) -> Fit:
        from stan_models import advi

        # what ADVI ends with is judged like anything else, its own doubt in the record
        arguments = {"covariance": covariance, "require_converged": False}
        return _stan_fit(problem, advi, draws=draws, random_seed=seed, **arguments)

    return run


def _laplace(problem: Problem, draws: int, seed: int) -> Fit:
    from stan_models import laplace

    return _stan_fit(problem, laplace, draws=draws, random_seed=seed)


def _pathfinder(problem: Problem, draws: int, seed: int) -> Fit:
    from stan_models import pathfinder

    return _stan_fit(problem, pathfinder, draws=draws, random_seed=seed)


STAN_METHODS = (
    Method("stan-nuts", "Stan's No-U-Turn sampler, 4 x (1000 + 1000)", "stan", _nuts, sampler=True),
    Method("stan-advi-diagonal", "Stan's mean-field ADVI", "stan", _advi("diagonal")),
    Method("stan-advi-full", "Stan's full-rank ADVI", "stan", _advi("full")),
    Method("stan-laplace", "Stan's Laplace approximation", "stan", _laplace),
    Method("stan-pathfinder", "Stan's Pathfinder, 4 paths", "stan", _pathfinder),
)
