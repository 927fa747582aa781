"""Stan's Gaussian approximations through cmdstanpy: ADVI and Laplace, each with its log q.

Stan writes draws and a density column but not the Gaussian itself; `stan_models.gaussian`
recovers it, so that ``lq`` is normalised and q can be evaluated anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Required, TypedDict

import numpy as np
from numpy.typing import NDArray

from stan_models.density import Data, StanDensity
from stan_models.gaussian import (
    StanGaussian,
    draws_needed,
    gaussian_around,
    mixture_log_density,
)
from stan_models.inference_data import (
    ArvizData,
    make_inference_data,
    optimization_trace,
    variables,
    variational_parameters,
)
from stan_models.program import StanProgram
from stan_models.results import Draws, given, posterior_groups
from stan_models.runs import (
    CmdStanRun,
    Inits,
    check_inits,
    cmdstan_run,
    density_of,
    positive,
    random_seed_or_new,
)

LARGEST_OUTPUT = 50_000_000  # numbers in a CSV file, about 1 GB of text
FAMILIES = {"diagonal": "meanfield", "full": "fullrank"}


def advi(
    program: StanProgram,
    data: Data = None,
    *,
    covariance: Literal["diagonal", "full"] = "diagonal",
    draws: int = 1000,
    random_seed: int | None = None,
    iter: int = 10_000,
    grad_samples: int = 1,
    elbo_samples: int = 100,
    eta: float | None = None,
    adapt_iter: int = 50,
    tol_rel_obj: float = 0.01,
    eval_elbo: int = 100,
    require_converged: bool = True,
    inits: float | None = None,
    timeout: float | None = None,
) -> ArvizData:
    """Fit a Gaussian on the unconstrained space by automatic differentiation VI.

    Parameters
    ----------
    program, data
        The program and the values of its data block (mapping, JSON path, or None).
    covariance
        "diagonal" (Stan's meanfield) or "full" (fullrank).
    draws
        Draws from q that are returned. For a full covariance in many dimensions Stan is asked
        for more, from which the covariance is recovered.
    random_seed
        Seed, 0 to 2**32 - 1; a fresh one is drawn, and recorded, if None.
    iter, grad_samples, elbo_samples, adapt_iter, tol_rel_obj, eval_elbo
        Stan's settings under cmdstanpy's names, at Stan's defaults.
    eta
        Step size; given one, its adaptation is off.
    require_converged
        Whether reaching ``iter`` is an error; if not, the attribute ``converged`` says so.
        Stan's tolerance is relative to the ELBO: a target whose ELBO is near zero never meets it.
    inits, timeout
        As cmdstanpy's: radius of the initial values, seconds after which the run is given up.

    Returns
    -------
    InferenceData
        See `stan_models.baselines`; one component. Attribute ``elbo`` is the last ELBO that Stan
        printed (three decimals, constants included), the group ``optimization_trace`` has all of
        them by iteration; ``gradient_evaluations`` is ``grad_samples``
        times the iterations, step-size adaptation included.

    Raises
    ------
    StanCompileError, StanDataError
        The program or the data are not valid.
    StanRunError
        ADVI failed or did not converge (Stan's message), or collapsed.

    Examples
    --------
    >>> idata = advi(program, data, covariance="full", random_seed=1)
    >>> log_ratios = idata.sample_stats.lp - idata.sample_stats.lq

    References
    ----------
    Kucukelbir et al. (2017), JMLR 18(14), https://arxiv.org/abs/1603.00788
    """
    if covariance not in FAMILIES:
        raise ValueError(f"covariance must be 'diagonal' or 'full', got {covariance!r}")
    positive(draws=draws)
    seed = random_seed_or_new(random_seed)
    density = density_of(program, data)
    check_inits(inits, density)
    asked = draws_to_ask(density, draws, covariance)
    adaptation = {"adapt_iter": adapt_iter} if eta is None else {"adapt_engaged": False}
    settings = given(
        algorithm=FAMILIES[covariance], iter=iter, grad_samples=grad_samples,
        elbo_samples=elbo_samples, eta=eta, tol_rel_obj=tol_rel_obj, eval_elbo=eval_elbo,
        inits=inits, **adaptation,
    )  # fmt: skip
    with cmdstan_run(program, f"ADVI ({covariance} covariance)") as run:
        fit = run.call("variational", data=data, seed=seed, draws=asked, timeout=timeout,
                       require_converged=require_converged, **settings)  # fmt: skip
        table = np.vstack([fit.variational_params_np, fit.variational_sample])
        run.require_rows(len(table), asked + 1)
        facts = _advi_facts(run.console, iter, grad_samples)
        trace = _elbo_trace(run.console)
    every = Draws.read(density, fit.column_names, table[None])
    mean, sample = every.theta[0, 0], every[1:]  # the first row is the mean, not a draw
    q = gaussian_around(mean, sample.theta[0], sample.method["log_g__"][0], covariance)
    return approximation_result(
        sample[:draws], run, [q], method=f"advi-{covariance}", random_seed=seed,
        arguments=settings, eta=fit.eta, trace=trace, **facts,
    )  # fmt: skip


class Facts(TypedDict, total=False):
    """What ADVI's console says of a run."""

    converged: Required[bool]
    elbo: float
    iterations: int
    gradient_evaluations: int


def _advi_facts(console: str, limit: int, grad_samples: int) -> Facts:
    """Whether it converged, the last ELBO and the gradients computed, from what Stan printed."""
    facts: Facts = {"converged": "may not have converged" not in console}
    adaptation = re.findall(r"Iteration:\s*(\d+) / +\d+ .*\(Adaptation\)", console)
    trace = _elbo_trace(console)
    if trace:
        iterations = trace[-1][0] if facts["converged"] else limit
        tried = int(adaptation[-1]) if adaptation else 0
        facts |= {"elbo": trace[-1][1], "iterations": iterations}
        facts |= {"gradient_evaluations": grad_samples * (iterations + tried)}
    return facts


def _elbo_trace(console: str) -> list[tuple[int, float]]:
    """(iteration, ELBO) of the rows that ADVI prints."""
    rows = re.findall(r"^\s*(\d+)\s+(-?[\d.]+)\s+[\d.]+\s+[\d.]+", console, re.M)
    return [(int(iteration), float(elbo)) for iteration, elbo in rows]


def laplace(
    program: StanProgram,
    data: Data = None,
    *,
    draws: int = 1000,
    random_seed: int | None = None,
    algorithm: str = "lbfgs",
    iter: int = 2000,
    inits: Inits = None,
    timeout: float | None = None,
) -> ArvizData:
    """Fit the Gaussian at the mode of the unconstrained log density, Jacobian included.

    q = N(θ̂, (-∇² log p̃(θ̂))⁻¹); Stan finds θ̂ by quasi-Newton and the Hessian by differences
    of gradients.

    Parameters
    ----------
    program, data
        The program and the values of its data block (mapping, JSON path, or None).
    draws
        Draws from q that are returned.
    random_seed
        Seed, 0 to 2**32 - 1; a fresh one is drawn, and recorded, if None.
    algorithm, iter, inits, timeout
        Of the optimiser, as cmdstanpy's.

    Returns
    -------
    InferenceData
        See `stan_models.baselines`; one component. ``gradient_evaluations`` is the optimiser's
        count plus 2 D + 1 for the Hessian (absent for Newton, which does not print one).

    Raises
    ------
    StanCompileError, StanDataError
        The program or the data are not valid.
    StanRunError
        The optimiser failed, or the point it found is not a maximum (Stan's message).

    Examples
    --------
    >>> idata = laplace(program, data, random_seed=1)

    References
    ----------
    Tierney and Kadane (1986), JASA 81:82-86, https://doi.org/10.1080/01621459.1986.10478240
    """
    positive(draws=draws)
    seed = random_seed_or_new(random_seed)
    density = density_of(program, data)
    check_inits(inits, density)
    asked = draws_to_ask(density, draws, "full")
    settings = given(algorithm=algorithm, iter=iter, inits=inits)
    with cmdstan_run(program, "Laplace approximation") as run:
        mode = run.call("optimize", data=data, seed=seed, jacobian=True, refresh=1,
                        timeout=timeout, **settings)  # fmt: skip
        steps = _optimizer_evaluations(run.console)
        fit = run.call("laplace_sample", data=data, seed=seed, mode=mode, draws=asked,
                       jacobian=True, timeout=timeout)  # fmt: skip
        table = fit.draws()
        run.require_rows(len(table), asked)
        at_mode = np.atleast_2d(mode.optimized_params_np)
    mean = Draws.read(density, mode.column_names, at_mode[None]).theta[0, 0]
    sample = Draws.read(density, fit.column_names, table[None])
    q = gaussian_around(mean, sample.theta[0], sample.method["log_q__"][0], "full")
    evaluations = None if steps is None else steps + 2 * density.dimension + 1
    return approximation_result(
        sample[:draws], run, [q], method="laplace", random_seed=seed,
        gradient_evaluations=evaluations, arguments=settings,
    )  # fmt: skip


def _optimizer_evaluations(console: str) -> int | None:
    """The last "# evals" of (L-)BFGS's table: iter, lp, ||dx||, ||grad||, alpha, alpha0, evals."""
    rows = re.findall(r"^\s*\d+(?:\s+[-+\d.einfa]+){5}\s+(\d+)\s", console, re.M)
    return int(rows[-1]) if rows else None


def draws_to_ask(density: StanDensity, draws: int, covariance: str, repetitions: int = 1) -> int:
    """The draws to ask Stan for: enough to return and to recover the Gaussian from."""
    asked = max(draws, draws_needed(density.dimension, covariance))
    size = repetitions * asked * density.count(transformed=True, generated=True)
    if size > LARGEST_OUTPUT:
        raise ValueError(
            f"{asked} draws of {density.program.name!r} would make a file of {size:.1e} numbers, "
            f"more than {LARGEST_OUTPUT:.0e}; to recover a {covariance} covariance in "
            f"{density.dimension} dimensions at least {draws_needed(density.dimension, covariance)}"
            " are needed: ask for fewer draws, or use covariance='diagonal'"
        )
    return asked


def approximation_result(
    draws: Draws,
    run: CmdStanRun,
    components: list[StanGaussian],
    extra: Mapping[str, NDArray] | None = None,
    trace: list[tuple[int, float]] | None = None,
    **facts: object,
) -> ArvizData:
    """The result of an approximation: ``draws`` from the equal-weight mixture of ``components``."""
    groups = posterior_groups(draws, run, **facts)
    if trace:
        groups["optimization_trace"] = optimization_trace(trace)
    weights = np.full(len(components), 1 / len(components))
    lq = mixture_log_density(draws.theta[0], weights, components)
    groups["sample_stats"] = variables({"lp": draws.log_density(), "lq": lq[None], **(extra or {})})
    groups["variational_parameters"] = variational_parameters(
        weights, components, draws.density.unconstrained_names
    )
    return make_inference_data(groups)
