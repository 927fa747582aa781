"""The methods that ``bridge.compare`` can run, each a name and a function to one common result.

Every method, Stan's or PyMC's, answers with a :class:`Fit`: draws on the unconstrained space with
log p̃ (``lp``) and, for an approximation, the normalised log q (``lq``). A new method is one line
in :data:`METHODS`.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bridge.errors import UnknownMethodError
from bridge.problem import Problem
from bridge.target import Target

Array = NDArray[np.floating]
LogDensity = Callable[[Array], Array]


@dataclass(frozen=True)
class Fit:
    """Draws of a fitted approximation, or of a sampler.

    Parameters
    ----------
    target
        The density that was approximated; ``lp`` is its log density.
    theta
        Draws, shape (chains, draws, D), unconstrained space. Independent methods have one chain.
    lp, lq
        log p̃ and log q of each draw, shape (chains, draws), both with all constants and on the
        unconstrained space; ``lq`` is None for a sampler.
    log_q
        log q at any point, (N, D) -> (N,); None where the method does not give it.
    seconds
        Wall time of the fit: for Stan the run of the compiled program, for PyMC with its graph
        compilation.
    gradient_evaluations
        Gradients of log p̃, where the method lets them be counted.
    losses, loss_iterations
        Trace of the objective (:attr:`Method.objective`) as the method reports it, and the
        iterations of its entries; None for every iteration.
    info
        Anything else worth a column of the record (divergences, engine, stop reason).
    """

    target: Target
    theta: Array
    lp: Array
    seconds: float
    lq: Array | None = None
    log_q: LogDensity | None = None
    gradient_evaluations: int | None = None
    losses: Array | None = None
    loss_iterations: NDArray[np.integer] | None = None
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A method of :func:`bridge.compare`: name, what it is, ``run(problem, draws, seed)``."""

    name: str
    description: str
    representation: str  # "stan" or "pymc": which form of the posterior it works on
    run: Callable[[Problem, int, int], Fit]
    default: bool = True  # whether a comparison that names no methods runs it
    general: bool = True  # whether it works on any posterior, so that a sweep runs it
    objective: str = "−ELBO"  # what its losses are


def gaussian_mixture_log_q(weight: Array, mean: Array, cov: Array) -> LogDensity:
    """log Σ_k w_k N(θ; m_k, S_k) as a function of θ, shape (N, D)."""
    components = [
        multivariate_normal(m, S, allow_singular=False) for m, S in zip(mean, cov, strict=True)
    ]
    log_weight = np.log(weight)

    def log_q(theta: Array) -> Array:
        logs = np.stack([np.atleast_1d(c.logpdf(theta)) for c in components])
        return logsumexp(logs + log_weight[:, None], axis=0)

    return log_q


# ------------------------------------------------------------------ Stan


def _stan_fit(problem: Problem, baseline: Callable[..., Any], **arguments: Any) -> Fit:
    """Run one of ``stan_models.baselines`` and read its InferenceData."""
    program = problem.program
    program.compile()  # so that `seconds` is the run alone
    start = time.perf_counter()
    idata = baseline(program, problem.case.data, **arguments)
    seconds = time.perf_counter() - start
    stats = idata["sample_stats"]
    attrs = dict(idata["posterior"].attrs)
    info = {k: attrs[k] for k in ("engine", "stan_version", "converged") if k in attrs}
    if "converged" in info:
        info["converged"] = bool(info["converged"])  # NetCDF has no booleans
    log_q = None
    if "variational_parameters" in _groups(idata):
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
        gradient_evaluations=None if gradients is None else int(gradients),
        **_losses(idata),
        info=info,
    )


def _groups(idata: Any) -> list[str]:
    """Names of the groups of an InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1)."""
    groups = idata.groups() if callable(idata.groups) else idata.groups
    return [name.strip("/") for name in groups]


def _losses(idata: Any) -> dict[str, Any]:
    """Stan's ELBO trace, where it prints one, as fields of :class:`Fit`."""
    if "optimization_trace" not in _groups(idata):
        return {}
    elbo = idata["optimization_trace"]["elbo"]
    return {"losses": -elbo.values, "loss_iterations": elbo["iteration"].values}


def _stan_nuts(problem: Problem, draws: int, seed: int) -> Fit:
    from stan_models import nuts

    return _stan_fit(problem, nuts, draws=max(draws // 4, 100), chains=4, random_seed=seed)


def _stan_advi(covariance: str) -> Callable[[Problem, int, int], Fit]:
    def run(problem: Problem, draws: int, seed: int) -> Fit:
        from stan_models import advi

        # what ADVI ends with is judged like anything else, its own doubt in the record
        arguments = {"covariance": covariance, "require_converged": False}
        return _stan_fit(problem, advi, draws=draws, random_seed=seed, **arguments)

    return run


def _stan_laplace(problem: Problem, draws: int, seed: int) -> Fit:
    from stan_models import laplace

    return _stan_fit(problem, laplace, draws=draws, random_seed=seed)


def _stan_pathfinder(problem: Problem, draws: int, seed: int) -> Fit:
    from stan_models import pathfinder

    return _stan_fit(problem, pathfinder, draws=draws, random_seed=seed)


# ------------------------------------------------------------------ PyMC


def _pymc_advi(method: str, iterations: int = 20_000) -> Callable[[Problem, int, int], Fit]:
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


def _family(
    family: str,
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    adapt: Callable[[Problem], Mapping[str, Any]] | None,
    iterations: int,
) -> Callable[..., Fit]:
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


def flow_options(problem: Problem) -> dict[str, Any]:
    """Hidden layers of 2 D units, from 10 to 32; fewer gradients where one takes long.

    On the 13 dimensions of gp_pois_regr 26 units instead of 10 raise the ELBO by 0.15 nats. Above
    60 µs a gradient the 768,000 of the importance-weighted phase would take most of a minute, above
    150 µs the 200,000 of 10 draws a step.
    """
    width = min(max(10, 2 * problem.pymc_target.dimension), 32)
    options: dict[str, Any] = {"hidden": (width, width)}
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
    *arguments: Any,
    default: bool = True,
    general: bool = True,
    iterations: int = 10_000,
    adapt: Callable[[Problem], Mapping[str, Any]] | None = None,
    objective: str = "−ELBO",
    **options: Any,
) -> Method:
    """The method that fits ``pymc_ext.family(*arguments, **options)``."""
    run = _family(family, arguments, options, adapt, iterations)
    return Method(name, text, "pymc", run, default, general, objective)


_BASELINES = (
    Method("stan-nuts", "Stan's No-U-Turn sampler, 4 chains", "stan", _stan_nuts),
    Method("stan-advi-diagonal", "Stan's mean-field ADVI", "stan", _stan_advi("diagonal")),
    Method("stan-advi-full", "Stan's full-rank ADVI", "stan", _stan_advi("full")),
    Method("stan-laplace", "Stan's Laplace approximation", "stan", _stan_laplace),
    Method("stan-pathfinder", "Stan's Pathfinder, 4 paths", "stan", _stan_pathfinder),
    Method("pymc-advi", "PyMC's mean-field ADVI", "pymc", _pymc_advi("advi")),
    Method("pymc-advi-full", "PyMC's full-rank ADVI", "pymc", _pymc_advi("fullrank_advi")),
)
_FAMILIES = (
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
METHODS: dict[str, Method] = {method.name: method for method in (*_BASELINES, *_FAMILIES)}


def find_methods(names: Sequence[str] | None = None) -> list[Method]:
    """The methods of these names; for None those that run by default.

    Raises
    ------
    UnknownMethodError
        Names one that does not exist, with the near ones.
    """
    if names is None:
        return [method for method in METHODS.values() if method.default]
    for name in names:
        if name not in METHODS:
            near = difflib.get_close_matches(name, METHODS, n=3, cutoff=0.4) or list(METHODS)
            raise UnknownMethodError(
                f"unknown method {name!r}; did you mean {', '.join(near)}? "
                "`python -m bridge list` shows all of them"
            )
    return [METHODS[name] for name in names]
