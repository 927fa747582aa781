"""The variational families of `pymc_ext`: their algorithms, run on a problem's own density.

What is fitted is the density of the Stan program itself, or of the PyMC model, never a graph of the
two together. Every option of a run is in its record (`Fit.info`), and all of them are the class's
own defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, TypedDict

from bridge.methods.drawn import Drawn
from bridge.methods.method import Fit, Method, Problem, engine_of
from bridge.methods.options import options_text
from pymc_ext.density import CountedDensity
from pymc_ext.density.coordinates import as_transport
from pymc_ext.interrupts import Interrupts, through_one

if TYPE_CHECKING:
    from pymc_ext.variational.core.algorithm import Algorithm
    from pymc_ext.variational.core.posterior import Posterior
    from pymc_ext.variational.core.result import FitResult, FreshDraws

__all__ = ["EARLY", "FAMILY_METHODS", "FittedBy"]


@dataclass(frozen=True)
class FittedBy:
    """Run of a method: an algorithm, on the problem's density.

    Parameters
    ----------
    algorithm
        The algorithm, or what makes it when the method is run.
    n
        Iterations at most; None: the algorithm's default.
    state
        Of an earlier fit to the same density, from which this one goes on.

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
    state: object | None = field(default=None, repr=False)

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        # SciPy's special functions: a wrong name of a method is said without them
        from pymc_ext.variational.core.algorithm import run_algorithm
        from pymc_ext.variational.core.monitor import Monitor
        from pymc_ext.variational.core.posterior import INTERRUPTED_DRAWS

        algorithm, target = made(self.algorithm), problem.target
        density = CountedDensity(target.density)
        with Monitor.silent() as monitor, Interrupts() as interrupts:
            fitted = run_algorithm(
                algorithm, density, problem.start, self.n,
                random_seed=seed, monitor=monitor, state=self.state,
            )  # fmt: skip
        losses, result = monitor.history, fitted.result
        options = options_text(n=algorithm.checked_budget(self.n), algorithm=algorithm)

        def drawn_from(q: Posterior, fresh: FreshDraws | None) -> Drawn:
            return through_one(lambda: Drawn(q, density, fresh, seed))

        own = drawn_from(fitted.q, result.fresh)
        proposal = None
        if fitted.proposal is not None:
            proposal = drawn_from(fitted.proposal, result.fresh_proposal)

        def with_draws(draws: int, of_q: int) -> Fit:
            drawn = own.first(of_q)
            weighted = None if proposal is None else proposal.first(draws)
            undefined = (own if proposal is None else proposal).undefined
            return Fit(
                target=target,
                theta=drawn.theta, lp=drawn.lp, lq=drawn.lq, log_q=drawn.log_q,
                law=getattr(result, "law", None), q=fitted.q, transport=as_transport(fitted.q),
                proposal=weighted,
                losses=losses if len(losses) else None,
                **_effort(result),
                info={
                    **engine_of("pymc_ext", target),
                    **_course(result),
                    **({"undefined": undefined} if undefined else {}),
                    "options": options,
                },
                more=lambda n: with_draws(n, n if proposal is None else of_q),
            )  # fmt: skip

        if interrupts.seen:  # the next is raised
            known = INTERRUPTED_DRAWS if result.fresh is None else result.fresh.draws
            return with_draws(min(draws, known), min(draws, known))
        return through_one(lambda: with_draws(draws, draws))


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


def made(algorithm: Algorithm | Made) -> Algorithm:
    """The algorithm itself."""
    return algorithm() if isinstance(algorithm, Made) else algorithm


class _Spent(TypedDict):
    seconds: float
    compile_seconds: float
    density_evaluations: int
    gradient_evaluations: int


def _effort(result: FitResult) -> _Spent:
    """Fields of :class:`Fit` that say what was spent."""
    return {
        "seconds": result.seconds,
        "compile_seconds": result.compile_seconds,
        "density_evaluations": result.density_evaluations,
        "gradient_evaluations": result.gradient_evaluations,
    }


def _course(result: FitResult) -> dict[str, object]:
    """How it went, for the record."""
    return {
        "converged": result.converged,
        "stop_reason": result.stop_reason,
        "fit_notes": "; ".join(result.notes) or None,
    }


def _on_density(
    name: str,
    text: str,
    home: str,
    *,
    default: bool = False,
    general: bool = True,
    objective: str = "−ELBO",
    gradients: int | None = None,
    **options: object,
) -> Method:
    run = FittedBy(Made(home, options))
    return Method(
        name, text, "pymc", run, default, general, objective=objective, gradients=gradients
    )


_LAPLACE, _MIXED = "gaussian.laplace:Laplace", "gaussian.mixed:Mixed"
_MAP, _OF_MAP = (
    "hierarchical.algorithm:Hierarchical",
    "a map with the conditional laws of hierarchical models",
)
FLOW = "bernstein.algorithm:Bernstein"
_OF_FLOW = 200_000  # gradients at most: its default steps of 10 draws, without a polish
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
        "batch-match",
        "the best Gaussian, from scores alone",
        "gaussian.batch_match:BatchMatch",
        default=True,
    ),
    _on_density(
        "batch-match-lr",
        "the best Gaussian of low rank plus diagonal, from scores alone",
        "gaussian.batch_match:BatchMatch",
        general=False,  # a posterior may have fewer parameters
        rank=10,
    ),
    _on_density("hierarchical", _OF_MAP, _MAP, default=True),
    _on_density("mixed-mu", "MVI: Laplace with its mean refitted", _MIXED, variant="mu"),
    _on_density(
        "mixed-eig", "MVI: mean and eigenvalues refitted", _MIXED, default=True, variant="eig"
    ),
    _on_density("mixed-lr", "MVI: mean and a rank-one update", _MIXED, variant="lr"),
    _on_density("mixture", "mixture of Laplace fits at several modes", "gaussian.mixture:Mixture"),
    _on_density(
        "basins", "a hierarchical map for every basin that paths find", "basins.algorithm:Basins"
    ),
    _on_density("bernstein", "Bernstein flow on the hierarchical map", FLOW, gradients=_OF_FLOW),
    _on_density(
        "bernstein-laplace",
        "Bernstein flow on a Laplace base",
        FLOW,
        gradients=_OF_FLOW,
        base="laplace",
    ),
    _on_density(
        "bernstein-match",
        "Bernstein flow on a matched Gaussian",
        FLOW,
        gradients=_OF_FLOW,
        base="match",
    ),
    _on_density(
        "viper-full",
        "closed-form logistic VI",
        "logistic.viper:Viper",
        general=False,  # as is the next, for models whose logits are affine, written in PyMC
        covariance="full",
    ),
    _on_density(
        "matching",
        "matched logistic or softmax likelihood",
        "logistic.matching:Matching",
        general=False,
        alpha="elbo",
    ),
)
# In the place of "hierarchical" where nothing but weights is wanted.
EARLY = _on_density("hierarchical", _OF_MAP, _MAP, early=True)
