"""Stan's Pathfinder through cmdstanpy, as the mixture of its paths' Gaussians."""

from __future__ import annotations

import logging

import numpy as np

from stan_models.approximations import approximation_result, draws_to_ask
from stan_models.density import Data
from stan_models.gaussian import gaussian_of
from stan_models.inference_data import ArvizData
from stan_models.program import StanProgram
from stan_models.results import Draws, given
from stan_models.runs import (
    Inits,
    check_inits,
    cmdstan_run,
    density_of,
    positive,
    random_seed_or_new,
)

log = logging.getLogger(__name__)


def pathfinder(
    program: StanProgram,
    data: Data = None,
    *,
    num_paths: int = 4,
    draws: int = 1000,
    random_seed: int | None = None,
    num_elbo_draws: int = 25,
    history_size: int = 5,
    max_lbfgs_iters: int = 1000,
    inits: Inits = None,
    timeout: float | None = None,
) -> ArvizData:
    """Fit a Gaussian along each of several optimisation paths; q is their equal-weight mixture.

    Stan's importance resampling between paths is left out, because its draws follow no density
    that could be written down. So are the draws from which Stan estimated each path's ELBO: it
    kept the Gaussian that looked best on them, and given that choice they do not follow q.

    Parameters
    ----------
    program, data
        The program and the values of its data block (mapping, JSON path, or None).
    num_paths
        Optimisation paths, each from its own initial values.
    draws
        Draws from q that are returned, shared evenly between the paths, path after path.
    random_seed
        Seed, 0 to 2**32 - 1; a fresh one is drawn, and recorded, if None.
    num_elbo_draws, history_size, max_lbfgs_iters, inits, timeout
        Stan's settings under cmdstanpy's names, at Stan's defaults.

    Returns
    -------
    InferenceData
        See `stan_models.baselines`; one component for each path that Stan completed (attribute
        ``failed_paths`` counts the others). ``sample_stats`` also has ``path`` and
        ``lp_approx``, Stan's density of a draw under its own path. ``gradient_evaluations`` is
        absent: Stan reports gradients and density evaluations in one sum.

    Raises
    ------
    StanCompileError, StanDataError
        The program or the data are not valid.
    StanRunError
        Every path failed (Stan's message), or a path's Gaussian is degenerate.

    Examples
    --------
    >>> idata = pathfinder(program, data, num_paths=8, random_seed=1)

    References
    ----------
    Zhang, Carpenter, Gelman and Vehtari (2022), JMLR 23(306), https://arxiv.org/abs/2108.03782
    """
    positive(num_paths=num_paths, draws=draws, num_elbo_draws=num_elbo_draws)
    seed = random_seed_or_new(random_seed)
    density = density_of(program, data)
    check_inits(inits, density)
    settings = given(num_paths=num_paths, num_elbo_draws=num_elbo_draws,
                     history_size=history_size, max_lbfgs_iters=max_lbfgs_iters,
                     inits=inits)  # fmt: skip
    paths = num_paths
    while True:  # once more, for more draws of each path, where some paths failed
        share = draws_to_ask(density, -(-draws // paths), "full", num_paths)
        block = num_elbo_draws + share
        with cmdstan_run(program, "Pathfinder") as run:
            fit = run.call("pathfinder", data=data, seed=seed, num_single_draws=block,
                           psis_resample=False, timeout=timeout, **settings)  # fmt: skip
            table = fit.draws()
            paths = len(table) // block
            run.require_rows(len(table), max(paths, 1) * block)
        if paths * share >= draws:
            break
    every = Draws.read(density, fit.column_names, table[None])
    blocks = [every[k * block : (k + 1) * block] for k in range(paths)]
    components = [gaussian_of(b.theta[0], b.method["lp_approx__"][0]) for b in blocks]
    if paths < num_paths:
        log.warning("%d of %d Pathfinder paths failed", num_paths - paths, num_paths)
    path = np.arange(draws) * paths // draws
    kept = np.concatenate([
        k * block + num_elbo_draws + np.arange((path == k).sum()) for k in range(paths)
    ])  # fmt: skip
    sample = every[kept]
    extra = {"lp_approx": sample.method["lp_approx__"], "path": path[None]}
    return approximation_result(
        sample, run, components, extra, method="pathfinder", random_seed=seed,
        failed_paths=num_paths - paths, arguments=settings,
    )  # fmt: skip
