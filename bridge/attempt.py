"""One method tried by `bridge.fit`: run, and judged by Pareto k̂ on fresh draws."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bridge.errors import BridgeError
from bridge.measures.khat import KHat
from bridge.methods.families import FittedBy
from bridge.methods.method import Fit, Method
from bridge.methods.problems import GivenProblem, ModelProblem
from bridge.verdict import REFUSED, Judgement, by_weights
from pymc_ext.density import DensityError
from pymc_ext.density.check import NoGradientError
from pymc_ext.density.protocol import value_names
from pymc_ext.interrupts import Interrupts, is_interrupt
from pymc_ext.sampling.prediction import in_words
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.core.monitor import FitStopped
from pymc_ext.variational.core.posterior import FRESH_DRAWS
from pymc_ext.variational.ill_posed.runaway import EndlessError, RunawayError
from stan_models import StanError

__all__ = [
    "EXPECTED_FAILURES",
    "Attempt",
    "Demands",
    "attempted",
    "failure",
    "is_expected",
    "judged_again",
    "require_defined",
]

_log = logging.getLogger(__name__)
FIRST_BLOCK = FRESH_DRAWS  # that a fit has judged itself by, so that they cost no values

# What a method may fail with on a posterior that does not suit it, so that the next one is tried:
# no mode, a model that the family does not take, data outside a domain (ValueError, with it
# NoModeError, StanDataError and LinAlgError); overflow and the like (ArithmeticError); a sampler or
# an optimiser that gives up (RuntimeError, with it StanError), or ends before it has judged one q
# (FitStopped); matrices beyond the memory; files and programs (OSError, with it TimeoutError); an
# Op without a derivative. All else is a fault in code, ours or the caller's, that has to be seen:
# AssertionError, TypeError, AttributeError, LookupError, NameError.
EXPECTED_FAILURES = (
    ValueError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    OSError,
    StanError,
    BridgeError,
    NotImplementedError,
    FitStopped,
)


@dataclass(frozen=True)
class Demands:
    """What an approximation must pass.

    Parameters
    ----------
    khat
        The largest k̂ that is good enough.
    ess
        What all fresh draws must be worth.
    fresh_draws
        Draws that it is judged by at most.
    draws
        What those of a good one are worth where that can be had.
    """

    khat: float
    ess: float
    fresh_draws: int
    draws: int


@dataclass(frozen=True)
class Attempt:
    """One method tried by :func:`fit`.

    Attributes
    ----------
    method
        Its name, as `python -m bridge list` has it.
    khat, khat_sd
        Median Pareto k̂ over five batches of draws and its spread; NaN where the method failed, or
        where the ratios are constant (``exact``). Of the method's proposal, where it has one.
    elbo
        E_q[log p̃ − log q] on draws the fit has not seen, nats.
    exact
        q is the posterior: the log ratios are constant.
    seconds
        Wall time, compilation included.
    verdict
        Why it was taken or not.
    gradients
        Scores of log p̃ that it took; None where the method does not count them.
    log_marginal_is, log_marginal_is_se
        log Z from the importance weights of its fresh draws and its standard error, nats; NaN where
        it gave none.
    good
        Its weighted draws may be taken for draws of the posterior.
    predicted
        Gradients that it was expected to take at least, of NUTS.
    search_gradients
        Scores that the search for mass outside it took on top.
    improper
        Why the posterior looks improper, where it failed as q ran away.
    endless
        It is improper: log p̃ does not fall in some direction, however far.
    checks
        All that it was judged by.
    """

    method: str
    khat: float
    khat_sd: float
    elbo: float
    exact: bool
    seconds: float
    verdict: str
    gradients: int | None = None
    log_marginal_is: float = np.nan
    log_marginal_is_se: float = np.nan
    good: bool = False
    predicted: int | None = None
    search_gradients: int = 0
    improper: str | None = None
    endless: bool = False
    checks: tuple[Check, ...] = field(default=(), repr=False)

    @classmethod
    def without_answer(
        cls, method: str, verdict: str, seconds: float = 0.0, improper: str | None = None
    ) -> Attempt:
        """One that gave no approximation."""
        nan = float("nan")
        return cls(method, nan, nan, nan, False, seconds, verdict, improper=improper)

    def judged(self, check: Check) -> Attempt:
        """With one more thing that was looked at, or once more, refused where it did not pass."""
        others = (other for other in self.checks if other.name != check.name)
        found = replace(self, checks=(*others, check))
        if check.passed:
            return found
        return replace(found, good=False, verdict=f"{REFUSED}{check.found}")

    @property
    def all_gradients(self) -> int:
        """As far as the method counts them."""
        return (self.gradients or 0) + self.search_gradients

    def __str__(self) -> str:
        spent = "" if self.gradients is None else f", {self.gradients:,} gradients"
        if self.search_gradients:
            spent += f", {self.search_gradients:,} more to look for missed mass"
        if self.predicted is not None:
            spent += f", {in_words(self.predicted)} predicted"
        return f"{self.method}: {self.verdict} ({self.seconds:.1f} s{spent})"


def attempted(
    method: Method,
    problem: GivenProblem,
    demands: Demands,
    seed: int,
    others: Sequence[Attempt] = (),
) -> tuple[Attempt, Fit | None, KHat | None]:
    """The attempt; the fit and its k̂ over all draws, where there is one.

    It is good where it is exact, or where k̂ is as small as ``demands`` say or its weights hardly
    differ, its draws are worth their ``ess``, and every mean and every sd of an unconstrained
    coordinate has such a k̂ of its own and an error of at most 1/√``ess`` sds. One that gives more
    draws is judged by twice as many, up to ``fresh_draws``, until that is settled and they are
    worth ``draws``. What it failed with is not said again where one of ``others`` did. Ctrl-C while
    it is judged leaves the first draws, of which the caller knows by
    `pymc_ext.interrupts.Interrupts`.
    """
    begin = time.perf_counter()
    if method.representation == "stan" and not problem.has_program:
        verdict = "not tried: it needs a Stan program"
        return Attempt.without_answer(method.name, verdict), None, None
    draws = demands.fresh_draws
    if isinstance(method.run, FittedBy):  # in blocks
        draws = min(FIRST_BLOCK, draws)
    try:
        with Interrupts() as interrupts:
            found = method.run(problem, draws, seed)
        found, judgement = _judged(method.name, found, demands, interrupts.seen)
    except Exception as error:
        if not is_expected(error):
            raise
        _log.debug("%s failed", method.name, exc_info=True)
        return _failed(method, error, time.perf_counter() - begin, others), None, None
    attempt = _succeeded(method.name, found, judgement, time.perf_counter() - begin)
    attempt = replace(attempt, verdict=attempt.verdict + _of_infinite(problem, found))
    return attempt, found, judgement.of_all


def judged_again(attempt: Attempt, found: Fit, demands: Demands) -> tuple[Attempt, Fit, KHat]:
    """The same of a fit whose draws for weights are others than those of ``attempt``, of which all
    stands that is not of weights."""
    found, judgement = _settled(attempt.method, found, demands)
    again = _succeeded(attempt.method, found, judgement, attempt.seconds)
    return replace(again, search_gradients=attempt.search_gradients), found, judgement.of_all


def _failed(method: Method, error: Exception, seconds: float, others: Sequence[Attempt]) -> Attempt:
    improper = str(error) if isinstance(error, RunawayError) else None
    attempt = Attempt.without_answer(method.name, failure(error, others), seconds, improper)
    return replace(attempt, endless=isinstance(error, EndlessError))


def _succeeded(method: str, found: Fit, judgement: Judgement, seconds: float) -> Attempt:
    k, of_all = judgement.k, judgement.of_all
    assert found.lq is not None  # it was judged by weights
    return Attempt(
        method=method,
        khat=k.value,
        khat_sd=k.sd,
        elbo=float((found.lp - found.lq).mean()),
        exact=k.exact,
        seconds=seconds,
        verdict=judgement.verdict + _of_undefined(found) + _of_images(found),
        gradients=found.gradient_evaluations,
        log_marginal_is=of_all.log_marginal_is,
        log_marginal_is_se=of_all.log_marginal_is_se,
        good=judgement.good,
        checks=judgement.checks,
    )


def _judged(method: str, found: Fit, demands: Demands, interrupted: bool) -> tuple[Fit, Judgement]:
    """What the fit is worth, by its first draws where Ctrl-C came before it was settled."""
    if interrupted:
        return found, _judgement(method, found, demands)
    try:
        return _settled(method, found, demands)
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interrupt(error):
            raise
        return found, _judgement(method, found, demands)


def _settled(method: str, found: Fit, demands: Demands) -> tuple[Fit, Judgement]:
    """The fit with as many draws as settle what it is worth, and what that is."""
    judgement = _judgement(method, found, demands)
    while found.more is not None and (made := judgement.draws) < demands.fresh_draws:
        if judgement.is_settled(demands.ess, demands.draws):
            break
        found = found.more(min(2 * made, demands.fresh_draws))
        judgement = _judgement(method, found, demands)
    return found, judgement


def _of_undefined(found: Fit) -> str:
    """What the verdict adds where log p̃ was undefined at some draws."""
    count = found.info.get("undefined")
    return f"; log p̃ is undefined at {count} draws, which count as none" if count else ""


def _of_infinite(problem: GivenProblem, found: Fit) -> str:
    """What it adds where log p̃ of a PyMC model is +∞ at some draws: whose log p that is."""
    drawn = found.weighted
    if drawn is None or not isinstance(problem, ModelProblem):
        return ""
    lp = drawn.lp.ravel()
    where = np.flatnonzero(lp == np.inf)
    if not len(where):
        return ""
    try:
        terms = problem.terms_at(drawn.theta.reshape(lp.size, -1)[where[0]])
    except Exception as error:  # a model whose terms alone cannot be had
        if not is_expected(error):
            raise
        return ""
    return f"; at the first of these draws {terms}"


def _of_images(found: Fit) -> str:
    """What it adds where each draw is in an image of one mode at random."""
    return "" if found.symmetry is None else f"; {found.symmetry.sentence}"


def failure(error: Exception, others: Sequence[Attempt] = ()) -> str:
    """What is said of it, which is no more than its like where one of ``others`` failed so."""
    said = f"failed: {type(error).__name__}: {error}"
    like = [other.method for other in others if other.verdict == said]
    return f"failed for the same reason as {like[0]}" if like else said


def is_expected(error: Exception) -> bool:
    """Whether it may be the posterior's: `EXPECTED_FAILURES`, and PyTensor's where a model lacks a
    derivative, bare or behind a family's TypeError."""
    return isinstance(error, EXPECTED_FAILURES) or any(
        isinstance(e, _no_derivative()) for e in (error, error.__cause__)
    )


def _no_derivative() -> tuple[type[Exception], ...]:
    """PyTensor's errors; none while it is not imported, as nothing can have raised them then."""
    if "pytensor" not in sys.modules:
        return ()
    from pytensor.gradient import NullTypeGradError
    from pytensor.graph.utils import MethodNotDefined

    return NullTypeGradError, MethodNotDefined, NotImplementedError


def _judgement(method: str, found: Fit, demands: Demands) -> Judgement:
    weighted = found.weighted
    if weighted is None or found.lq is None:
        raise TypeError(
            f"method {method} gave draws without log q, by which it would be judged: mark it "
            "as sampler=True, or let its Fit have lq"
        )
    names = value_names(found.target.density)
    return by_weights(weighted, names, demands.khat, demands.ess)


def require_defined(problem: ModelProblem) -> None:
    """DensityError where a method failed because log p̃ is not finite; programs and densities are
    asked before any method runs, which for a model would be to compile it."""
    try:
        problem.require_defined()
    except NoGradientError:
        return  # the model's own sampler may have steps that need none
    except DensityError:
        raise
    except Exception as error:  # there is none, of a discrete variable say, as the method said
        if not is_expected(error):
            raise
