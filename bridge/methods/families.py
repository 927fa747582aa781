"""The variational families of `pymc_ext`: their algorithms, run on a problem's own density.

What is fitted is the density of the Stan program itself, or of the PyMC model, never a graph of the
two together; families that read a model's graph are fitted by ``pm.fit``. Every option of a run is
in its record (`Fit.info`), and all of them are the class's own defaults.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from importlib import import_module
from importlib.metadata import version

import numpy as np

from bridge.methods.base import Fit, Method, Problem, WeightedDraws
from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.algorithm import Algorithm, run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior

__all__ = ["FAMILY_METHODS", "FittedBy", "options_of"]


@dataclass(frozen=True)
class FittedBy:
    """Run of a method: an algorithm, on the problem's density.

    Parameters
    ----------
    algorithm
        The algorithm, or what makes it when the method is run.
    n
        Iterations at most; None: the algorithm's default.

    Examples
    --------
    >>> from pymc_ext.variational.gaussian.laplace import Laplace
    >>> run = FittedBy(Laplace())
    >>> method = bridge.Method("laplace-again", "an algorithm of yours", "pymc", run)
    >>> bridge.fit(model, methods=method, random_seed=1).method
    'laplace-again'
    """

    algorithm: Algorithm | Made
    n: int | None = None

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        algorithm = self.algorithm() if isinstance(self.algorithm, Made) else self.algorithm
        begin = time.perf_counter()
        target = problem.pymc_target
        density = CountedDensity(target.density)
        with Monitor.silent() as monitor:
            fitted = run_algorithm(
                algorithm, density, problem.start, self.n, random_seed=seed, monitor=monitor
            )
        seconds = time.perf_counter() - begin
        own = _drawn(fitted.q, density, draws, seed)
        proposal = fitted.proposal
        result, losses = fitted.result, monitor.history
        on = "a Stan program" if hasattr(target.density, "program") else f"PyMC {version('pymc')}"
        return Fit(
            target=target,
            theta=own.theta,
            lp=own.lp,
            lq=own.lq,
            log_q=getattr(fitted.q, "log_density", None),
            proposal=None if proposal is None else _drawn(proposal, density, draws, seed),
            seconds=seconds,
            gradient_evaluations=result.gradient_evaluations,
            losses=losses if len(losses) else None,
            info={
                "engine": f"pymc_ext on {on}",
                "converged": result.converged,
                "stop_reason": result.stop_reason,
                "fit_notes": "; ".join(result.notes) or None,
                "options": json.dumps(
                    {"n": algorithm.checked_budget(self.n), **options_of(algorithm)},
                    ensure_ascii=False,
                ),
            },
        )


def _drawn(q: Posterior, density: CountedDensity, draws: int, seed: int) -> WeightedDraws:
    z = np.random.default_rng(seed).standard_normal((draws, q.latent_dimension))
    theta, lq = q.forward(z)
    with np.errstate(all="ignore"):  # a draw where log p̃ overflows has no weight
        return WeightedDraws(theta[None], density.log_density(theta)[None], lq[None])


def options_of(algorithm: Algorithm) -> dict[str, object]:
    """Every setting of an algorithm, as plain values by name."""
    plain: dict[str, object] = {}
    for name, value in vars(algorithm).items():
        if name.startswith("_"):
            continue
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        if isinstance(value, dict):
            value = {k: v for k, v in value.items() if not callable(v)}
        if isinstance(value, dict | tuple | list | str | int | float | type(None)):
            plain[name] = value
    return plain


@dataclass(frozen=True)
class Made:
    """Makes an algorithm; its module is imported when it is first made.

    Parameters
    ----------
    home
        Where its class is, ``module:Class`` under `pymc_ext.variational`.
    options
        Keyword arguments of the class.
    """

    home: str
    options: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __call__(self) -> Algorithm:
        module, name = self.home.split(":")
        cls = getattr(import_module(f"pymc_ext.variational.{module}"), name)
        return cls(**self.options)


# ---- families that read the graph of a PyMC model ----------------------------------------------


def _viper(problem: Problem, draws: int, seed: int) -> Fit:
    import pymc_ext as px

    with problem.model:
        return _by_pm_fit(problem, px.ViperVI("full", random_seed=seed), draws, seed)


def _matching(problem: Problem, draws: int, seed: int) -> Fit:
    import pymc_ext as px

    with problem.model:
        return _by_pm_fit(problem, px.MatchingVI(alpha="elbo", random_seed=seed), draws, seed)


def _by_pm_fit(problem: Problem, inference: object, draws: int, seed: int) -> Fit:
    import pymc as pm

    begin = time.perf_counter()
    approx = pm.fit(method=inference, progressbar=False)
    seconds = time.perf_counter() - begin
    theta, lp, lq = approx.draws_with_logs(draws, random_seed=seed)
    result = approx.result
    return Fit(
        target=problem.pymc_target,
        theta=theta[None],
        lp=lp[None],
        lq=lq[None],
        log_q=approx.log_q,
        seconds=seconds,
        gradient_evaluations=result.gradient_evaluations,
        losses=np.asarray(approx.hist) if len(approx.hist) else None,
        info={
            "engine": f"PyMC {pm.__version__}",
            "converged": result.converged,
            "stop_reason": result.stop_reason,
            "fit_notes": "; ".join(result.notes) or None,
        },
    )


def _on_density(
    name: str,
    text: str,
    home: str,
    *,
    default: bool = False,
    objective: str = "−ELBO",
    **options: object,
) -> Method:
    return Method(name, text, "pymc", FittedBy(Made(home, options)), default, objective=objective)


_LAPLACE, _MIXED = "gaussian.laplace:Laplace", "gaussian.mixed:Mixed"
_FLOW = "bernstein.algorithm:Bernstein"
FAMILY_METHODS = (
    _on_density(
        "laplace",
        "Laplace at the mode found by Newton",
        _LAPLACE,
        default=True,
        objective="−log p̃",
    ),
    _on_density("pathfinder", "the best Gaussian of four paths", "gaussian.pathfinder:Pathfinder"),
    _on_density(
        "batch-match", "the best Gaussian, from scores alone", "gaussian.batch_match:BatchMatch"
    ),
    _on_density(
        "hierarchical",
        "a map with the conditional laws of hierarchical models",
        "hierarchical.algorithm:Hierarchical",
        default=True,
    ),
    _on_density("mixed-mu", "MVI: Laplace with its mean refitted", _MIXED, variant="mu"),
    _on_density(
        "mixed-eig", "MVI: mean and eigenvalues refitted", _MIXED, default=True, variant="eig"
    ),
    _on_density("mixed-lr", "MVI: mean and a rank-one update", _MIXED, variant="lr"),
    _on_density("mixture", "mixture of Laplace fits at several modes", "gaussian.mixture:Mixture"),
    _on_density("bernstein", "Bernstein flow", _FLOW),
    _on_density("bernstein-laplace", "Bernstein flow on a Laplace base", _FLOW, base="laplace"),
    Method("viper-full", "closed-form logistic VI", "pymc", _viper, default=False, general=False),
    Method(
        "matching",
        "matched logistic or softmax likelihood",
        "pymc",
        _matching,
        default=False,
        general=False,
    ),
)
