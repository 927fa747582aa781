"""What a method is, what it is given, and what it answers with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bridge.targets.target import Target
from pymc_ext.density import TransportMap
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    import pymc as pm

    from pymc_ext.sampling.symmetry import Symmetry
    from pymc_ext.variational.core.posterior import Posterior
    from pymc_ext.variational.hierarchical.law import LawAlong
    from stan_models import StanProgram
    from stan_models.density import Data

__all__ = [
    "Fit",
    "LogDensity",
    "Method",
    "Problem",
    "RunMethod",
    "WeightedDraws",
    "engine_of",
]

LogDensity = Callable[[Array], Array]
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")


class Problem(Protocol):
    """A posterior as methods see it: from Stan, from PyMC, or from both.

    Each property is made when first asked for; asking for a form that the posterior does not have
    raises `bridge.errors.NoModelError`, which says where another one may be had.
    """

    @property
    def has_program(self) -> bool:
        """Whether there is a Stan program, so that methods of Stan can run."""

    @property
    def program(self) -> StanProgram:
        """The Stan program."""

    @property
    def data(self) -> Data:
        """Data of the Stan program, as `StanProgram.density` takes them."""

    @property
    def stan_target(self) -> Target:
        """log p̃ of the Stan program."""

    @property
    def model(self) -> pm.Model:
        """A PyMC model: a model of its own, or the Stan program as one."""

    @property
    def target(self) -> Target:
        """log p̃ that families fit, unconstrained: of the program, the model, or as it is given."""

    @property
    def start(self) -> Array:
        """Where fits on `target` start, unconstrained, shape (D,)."""


@dataclass(frozen=True)
class WeightedDraws:
    """Draws of which importance weights p̃/q are taken; as in :class:`Fit`."""

    theta: Array
    lp: Array
    lq: Array
    log_q: LogDensity | None = None


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
    proposal
        Draws of what the method offers for importance weights beside q; None where q serves.
    law
        Along what governs others' scales, as a hierarchical map knows it, whose tails the weights
        reach; None where there is none.
    symmetry
        Changes of labels and signs that leave log p̃ as it is, where the draws are of one mode of
        several that are its images: :meth:`at_random` puts them into all.
    q
        The approximation itself, as the families of `pymc_ext` have it in numbers, to be kept
        (:attr:`bridge.Advice.density`); None where the method has no such thing.
    transport
        θ = T(v) of q, in whose coordinates NUTS can run; None where q has no pullback.
    seconds
        Wall time of the fit without compilation: for Stan the run of the compiled program.
    compile_seconds
        Wall time of compilation, where the method knows it: next to none where the cache has all.
    density_evaluations, gradient_evaluations
        Of log p̃, where the method lets them be counted.
    losses, loss_iterations
        Trace of the objective (:attr:`Method.objective`) as the method reports it, (T,), and the
        iterations of its entries, (T,); None for every iteration.
    statistics
        Of a sampler, by ArviZ's names, (chains, draws) each: ``diverging`` and ``energy`` are
        judged where they are there.
    info
        Anything else worth a column of the record (divergences, engine, stop reason); of a sampler
        that judges itself ``trusted`` and ``verdict``.
    more
        The same fit with as many draws in all for weights, of its proposal where it has one, those
        it has among them; None where a method gives no more than it was asked for.
    """

    target: Target
    theta: Array
    lp: Array
    seconds: float
    lq: Array | None = None
    log_q: LogDensity | None = None
    proposal: WeightedDraws | None = None
    law: LawAlong | None = None
    symmetry: Symmetry | None = None
    q: Posterior | None = None
    transport: TransportMap | None = None
    compile_seconds: float | None = None
    density_evaluations: int | None = None
    gradient_evaluations: int | None = None
    losses: Array | None = None
    loss_iterations: NDArray[np.integer] | None = None
    statistics: Mapping[str, NDArray] = field(default_factory=dict, repr=False)
    info: dict[str, object] = field(default_factory=dict)
    more: Callable[[int], Fit] | None = field(default=None, repr=False, compare=False)

    @property
    def weighted(self) -> WeightedDraws | None:
        """What k̂ and weights are of: the proposal, else q; None for a sampler."""
        if self.proposal is not None or self.lq is None:
            return self.proposal
        return WeightedDraws(self.theta, self.lp, self.lq, self.log_q)

    def at_random(self, theta: Array, seed: int) -> Array:
        """Draws of this fit, each in any of the modes that are images of its own, (..., D) ->
        (..., D), unconstrained."""
        if self.symmetry is None:
            return theta
        flat = theta.reshape(-1, theta.shape[-1])
        rng = np.random.default_rng([seed, 6])
        return self.symmetry.at_random(flat, rng).reshape(theta.shape)


RunMethod = Callable[[Problem, int, int], Fit]


@dataclass(frozen=True)
class Method:
    """A method of :func:`bridge.compare`, :func:`bridge.sweep` and :func:`bridge.fit`.

    Parameters
    ----------
    name
        What records, files and tables call it: letters, digits and ``. _ + -``.
    description
        A few words, for ``python -m bridge list``.
    representation
        The form of the posterior it works on: "stan" (`Problem.program`) or "pymc"
        (`Problem.model`).
    run
        ``run(problem, draws, seed)`` -> :class:`Fit`. It may run in another process, so that it
        must be picklable: a function of a module, or an instance of a class.
    default
        Whether a comparison that names no methods runs it.
    general
        Whether a sweep that names no methods runs it: it works on any posterior, and is not there
        only to be compared with.
    objective
        What its losses are.
    sampler
        Whether its draws have no log q: those of chains, or particles.
    gradients
        Scores of log p̃ that a run takes, about, where they are known beforehand; None where not.

    Raises
    ------
    ValueError
        The name cannot be that of a file, or the representation is another word.

    Examples
    --------
    >>> def prior(problem, draws, seed):  # wider than the posterior, so that weights repair it
    ...     target, rng = problem.target, np.random.default_rng(seed)
    ...     theta = rng.standard_normal((1, draws, target.dimension))
    ...     lq = scipy.stats.norm.logpdf(theta).sum(axis=2)
    ...     return bridge.Fit(target, theta, target.log_density(theta[0])[None], 0.0, lq)
    >>> method = bridge.Method("prior", "a standard normal", "pymc", prior)
    >>> bridge.fit(model, methods=[method, "laplace"], random_seed=1).method
    'prior'
    """

    name: str
    description: str
    representation: Literal["stan", "pymc"]
    run: RunMethod
    default: bool = True
    general: bool = True
    objective: str = "−ELBO"
    sampler: bool = False
    gradients: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                "the name of a method must be of letters, digits and . _ + -, as files are named "
                f"by it, got {self.name!r}"
            )
        if self.representation not in ("stan", "pymc"):
            raise ValueError(
                f"method {self.name}: representation must be 'stan' or 'pymc', got "
                f"{self.representation!r}"
            )


def engine_of(what: str, target: Target) -> dict[str, str]:
    """What made a fit, and on which density, for its `Fit.info`."""
    if hasattr(target.density, "program"):
        return {"engine": f"{what} on a Stan program", "representation": "stan"}
    return {"engine": f"{what} on PyMC {version('pymc')}"}
