"""The variational families of `pymc_ext`, each with the options it runs with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bridge.methods.base import Array, Fit, LogDensity, Method, Problem, Run

__all__ = ["FAMILY_METHODS", "flow_options"]


def _family(
    family: str,
    arguments: Sequence[object],
    options: Mapping[str, object],
    adapt: Callable[[Problem], Mapping[str, object]] | None,
    iterations: int,
) -> Run:
    """``pymc_ext.family(*arguments, **options)``, with the options that ``adapt`` gives a problem.

    Of these ``obj_n_mc`` is an argument of ``pm.fit``.
    """

    def run(problem: Problem, draws: int, seed: int) -> Fit:
        import pymc as pm

        import pymc_ext as px

        chosen = {**options, **(adapt(problem) if adapt else {})}
        step = {key: chosen.pop(key) for key in ("obj_n_mc",) if key in chosen}
        start = time.perf_counter()
        with problem.model:
            inference = getattr(px, family)(*arguments, random_seed=seed, **chosen)
            approx = pm.fit(iterations, method=inference, progressbar=False, **step)
        seconds = time.perf_counter() - start
        theta, lp, lq = approx.draws_with_logs(draws, random_seed=seed)
        result = approx.result
        info = {
            "engine": f"PyMC {pm.__version__}",
            "converged": result.converged,
            "stop_reason": result.stop_reason,
            "fit_notes": "; ".join(result.notes) or None,
        }
        return Fit(
            target=problem.pymc_target,
            theta=theta[None],
            lp=lp[None],
            lq=lq[None],
            log_q=_log_q(approx, theta),
            seconds=seconds,
            gradient_evaluations=result.gradient_evaluations,
            losses=np.asarray(approx.hist) if len(approx.hist) else None,
            info=info,
        )

    return run


LONG, VERY_LONG = 6e-5, 1.5e-4  # seconds a gradient: a filter's, an ODE's


def flow_options(problem: Problem) -> dict[str, object]:
    """Hidden layers of 2 D units, from 10 to 32; fewer gradients where one takes long.

    On the 13 dimensions of gp_pois_regr 26 units instead of 10 raise the ELBO by 0.15 nats. Above
    60 µs a gradient the 768,000 of the importance-weighted phase would take most of a minute, above
    150 µs the 200,000 of 10 draws a step.
    """
    width = min(max(10, 2 * problem.pymc_target.dimension), 32)
    options: dict[str, object] = {"hidden": (width, width)}
    seconds = problem.gradient_seconds or 0.0
    if seconds > LONG:
        options["polish"] = "widening"
    if seconds > VERY_LONG:
        options["obj_n_mc"] = 4
    return options


def _log_q(approx: Any, theta: Array) -> LogDensity | None:
    """``approx.log_q`` where the family has it at arbitrary points."""
    try:
        approx.log_q(theta[:1])
    except TypeError:
        return None
    return approx.log_q


def _px(
    name: str,
    text: str,
    family: str,
    *arguments: object,
    default: bool = True,
    general: bool = True,
    iterations: int = 10_000,
    adapt: Callable[[Problem], Mapping[str, object]] | None = None,
    objective: str = "−ELBO",
    **options: object,
) -> Method:
    """The method that fits ``pymc_ext.family(*arguments, **options)``."""
    run = _family(family, arguments, options, adapt, iterations)
    return Method(name, text, "pymc", run, default, general, objective)


FAMILY_METHODS = (
    _px("laplace", "Laplace at the mode found by Newton", "LaplaceVI", objective="−log p̃"),
    _px("mixed-mu", "MVI: Laplace with its mean refitted", "MixedVI", "mu", default=False),
    _px("mixed-eig", "MVI: mean and eigenvalues refitted", "MixedVI", "eig"),
    _px("mixed-lr", "MVI: mean and a rank-one update", "MixedVI", "lr", default=False),
    _px("mixture", "mixture of Laplace fits at several modes", "MixtureVI", default=False),
    _px(
        "bernstein",
        "Bernstein flow",
        "BernsteinVI",
        default=False,
        iterations=20_000,
        adapt=flow_options,
    ),
    _px(
        "bernstein-laplace",
        "Bernstein flow on a Laplace base",
        "BernsteinVI",
        base="laplace",
        default=False,
        iterations=20_000,
        adapt=flow_options,
    ),
    _px("viper-full", "closed-form logistic VI", "ViperVI", "full", default=False, general=False),
    _px(
        "matching",
        "matched logistic or softmax likelihood",
        "MatchingVI",
        alpha="elbo",
        default=False,
        general=False,
    ),
)
