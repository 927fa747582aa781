"""PyMC's own ADVI."""

from __future__ import annotations

import time

import numpy as np

from bridge.methods.gaussian import gaussian_mixture_log_q
from bridge.methods.method import Fit, Method, Problem, RunMethod
from bridge.methods.options import options_text

__all__ = ["PYMC_METHODS"]


class _Clock:
    """When ``pm.fit`` began, and when its first step, before which it compiles, had ended."""

    def __init__(self) -> None:
        self.begin, self.first = time.perf_counter(), float("nan")

    def __call__(self, approx: object, losses: object, i: int) -> None:
        if i == 1:
            self.first = time.perf_counter()

    def since_first(self) -> float:
        return time.perf_counter() - self.first


def _advi(method: str, iterations: int = 20_000) -> RunMethod:
    """PyMC's own ADVI with its default optimiser and one draw a step."""

    def run(problem: Problem, draws: int, seed: int) -> Fit:
        import pymc as pm

        clock = _Clock()
        with problem.model:
            approx = pm.fit(
                iterations, method=method, random_seed=seed, progressbar=False, obj_n_mc=1,
                obj_optimizer=pm.adagrad_window(), callbacks=[clock],
            )  # fmt: skip
        seconds = clock.since_first()
        mean, cov = approx.mean.eval(), approx.cov.eval()
        log_q = gaussian_mixture_log_q(np.ones(1), mean[None], cov[None])
        rng = np.random.default_rng(seed)
        theta = rng.multivariate_normal(mean, cov, size=draws, method="cholesky")
        return Fit(
            target=problem.target,
            theta=theta[None],
            lp=problem.target.log_density(theta)[None],
            lq=log_q(theta)[None],
            log_q=log_q,
            seconds=seconds,
            compile_seconds=clock.first - clock.begin,
            density_evaluations=iterations,
            gradient_evaluations=iterations,
            losses=np.asarray(approx.hist),
            info={
                "engine": f"PyMC {pm.__version__}",
                "options": options_text(
                    n=iterations, method=method, obj_n_mc=1, obj_optimizer="adagrad_window()"
                ),
            },
        )

    return run


PYMC_METHODS = (
    Method("pymc-advi", "PyMC's mean-field ADVI", "pymc", _advi("advi")),
    Method("pymc-advi-full", "PyMC's full-rank ADVI", "pymc", _advi("fullrank_advi")),
)
