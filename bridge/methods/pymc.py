"""PyMC's own ADVI."""

from __future__ import annotations

import time

import numpy as np

from bridge.methods.base import Fit, Method, Problem, Run
from bridge.methods.gaussian import gaussian_mixture_log_q

__all__ = ["PYMC_METHODS"]


def _advi(method: str, iterations: int = 20_000) -> Run:
    """PyMC's own ADVI with its default optimiser and one draw a step."""

    def run(problem: Problem, draws: int, seed: int) -> Fit:
        import pymc as pm

        start = time.perf_counter()
        with problem.model:
            approx = pm.fit(iterations, method=method, random_seed=seed, progressbar=False)
        seconds = time.perf_counter() - start
        mean, cov = approx.mean.eval(), approx.cov.eval()
        log_q = gaussian_mixture_log_q(np.ones(1), mean[None], cov[None])
        rng = np.random.default_rng(seed)
        theta = rng.multivariate_normal(mean, cov, size=draws, method="cholesky")
        return Fit(
            target=problem.pymc_target,
            theta=theta[None],
            lp=problem.pymc_target.log_density(theta)[None],
            lq=log_q(theta)[None],
            log_q=log_q,
            seconds=seconds,
            gradient_evaluations=iterations,
            losses=np.asarray(approx.hist),
            info={"engine": f"PyMC {pm.__version__}"},
        )

    return run


PYMC_METHODS = (
    Method("pymc-advi", "PyMC's mean-field ADVI", "pymc", _advi("advi")),
    Method("pymc-advi-full", "PyMC's full-rank ADVI", "pymc", _advi("fullrank_advi")),
)
