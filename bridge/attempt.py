"""One method tried by `bridge.fit`: run, and judged by Pareto k̂ on fresh draws."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass

import numpy as np

from bridge.errors import BridgeError
from bridge.measures.khat import KHat, pareto_khat
from bridge.measures.limits import ESS_SHARE_NEGLIGIBLE
from bridge.methods.base import Fit, Method, WeightedDraws
from bridge.methods.problems import DensityProblem, ModelProblem, StanProblem
from pymc_ext.density.protocol import coordinate_names
from pymc_ext.variational.core.precision import weighted_precision
from stan_models import StanError

__all__ = ["EXPECTED_FAILURES", "REPETITIONS", "Attempt", "attempted"]

_log = logging.getLogger(__name__)
REPETITIONS = 5  # batches of the fresh draws: their spread is the spread of k̂

# What a method may fail with on a posterior that does not suit it, so that the next one is tried:
# no mode, a model that the family does not take, data outside a domain (ValueError, with it
# NoModeError, StanDataError and LinAlgError); overflow and the like (ArithmeticError); a sampler or
# an optimiser that gives up (RuntimeError, with it StanError); matrices beyond the memory; files
# and programs (OSError, with it TimeoutError); an Op without a derivative. All else is a fault in
# code, ours or the caller's, that has to be seen: AssertionError, TypeError, AttributeError,
# LookupError, NameError.
EXPECTED_FAILURES = (
    ValueError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    OSError,
    StanError,
    BridgeError,
    NotImplementedError,
)


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
        Its weighted draws may be taken for draws of the posterior, if no mass is missed.
    predicted
        Gradients that it was expected to take, of NUTS.
    search_gradients
        Scores that the search for mass outside it took on top.
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

    @classmethod
    def without_answer(cls, method: str, verdict: str, seconds: float = 0.0) -> Attempt:
        """One that gave no approximation."""
        nan = float("nan")
        return cls(method, nan, nan, nan, False, seconds, verdict)

    @property
    def all_gradients(self) -> int:
        """As far as the method counts them."""
        return (self.gradients or 0) + self.search_gradients

    def __str__(self) -> str:
        spent = "" if self.gradients is None else f", {self.gradients:,} gradients"
        if self.search_gradients:
            spent += f", {self.search_gradients:,} more to look for missed mass"
        if self.predicted is not None:
            spent += f", some {self.predicted:,} predicted"
        return f"{self.method}: {self.verdict} ({self.seconds:.1f} s{spent})"


def attempted(
    method: Method,
    problem: ModelProblem | StanProblem | DensityProblem,
    limit: float,
    ess: float,
    draws: int,
    seed: int,
) -> tuple[Attempt, Fit | None, KHat | None]:
    """The attempt; the fit and its k̂ over all draws, where there is one.

    It is good where it is exact, or where k̂ is below ``limit`` or its weights hardly differ,
    ``draws`` of its draws are worth ``ess``, and every mean and every sd of an unconstrained
    coordinate has a k̂ of its own below ``limit`` and an error of at most 1/√``ess`` sds.
    """
    begin = time.perf_counter()
    if method.representation == "stan" and not problem.has_program:
        verdict = "not tried: it needs a Stan program"
        return Attempt.without_answer(method.name, verdict), None, None
    try:
        found = method.run(problem, draws, seed)
    except Exception as error:
        if not _is_expected(error):
            raise
        _log.debug("%s failed", method.name, exc_info=True)
        verdict = f"failed: {type(error).__name__}: {error}"
        seconds = time.perf_counter() - begin
        return Attempt.without_answer(method.name, verdict, seconds), None, None
    weighted = _weighted(method, found)
    lp, lq = weighted.lp.ravel(), weighted.lq.ravel()
    assert found.lq is not None
    size = lp.size // REPETITIONS
    lp_batches, lq_batches = (x[: size * REPETITIONS].reshape(REPETITIONS, size) for x in (lp, lq))
    k = pareto_khat(lp_batches, lq_batches)
    of_all = pareto_khat(lp, lq)
    good, verdict = _judged(k, limit, ess)
    if good and not k.exact:
        doubt = _imprecise(weighted, of_all, coordinate_names(found.target.density), limit, ess)
        if doubt is not None:
            good, verdict = False, f"refused: {doubt}"
    attempt = Attempt(
        method=method.name,
        khat=k.value,
        khat_sd=k.sd,
        elbo=float((found.lp - found.lq).mean()),
        exact=k.exact,
        seconds=time.perf_counter() - begin,
        verdict=verdict,
        gradients=found.gradient_evaluations,
        log_marginal_is=of_all.log_marginal_is,
        log_marginal_is_se=of_all.log_marginal_is_se,
        good=good,
    )
    return attempt, found, of_all


def _is_expected(error: Exception) -> bool:
    """Also PyTensor's where a model lacks a derivative, bare or behind a family's TypeError."""
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


def _weighted(method: Method, found: Fit) -> WeightedDraws:
    """The draws for weights."""
    weighted = found.weighted
    if weighted is None or found.lq is None:
        raise TypeError(
            f"method {method.name} gave draws without log q, by which it would be judged: mark it "
            "as sampler=True, or let its Fit have lq"
        )
    return weighted


def _imprecise(
    draws: WeightedDraws, k: KHat, names: list[str], limit: float, ess: float
) -> str | None:
    """Which mean or sd the weighted draws do not know well enough."""
    if k.weights is None:  # some batch had no k̂ of its own
        return f"no k̂ ({k.reason})"
    theta = draws.theta.reshape(-1, draws.theta.shape[-1])
    with np.errstate(invalid="ignore"):  # −∞ where p̃ is zero
        log_ratios = (draws.lp - draws.lq).ravel()
    return weighted_precision(theta, log_ratios, k.weights.ravel()).doubt(names, limit, ess)


def _judged(k: KHat, limit: float, ess: float) -> tuple[bool, str]:
    """Whether weights make draws of the posterior of it, and why."""
    if k.exact:
        return True, "exact: its log ratios to the posterior are constant"
    if np.isnan(k.value):
        return False, f"refused: no k̂ ({k.reason})"
    draws, share = k.draws * REPETITIONS, k.ess / k.draws
    worth = f"draws worth {share:.2g} of as many"
    if k.value >= limit and share < ESS_SHARE_NEGLIGIBLE:
        return False, f"refused: k̂ = {k.value:.2f} >= {limit:g}, {worth}"
    if share * draws < ess:
        return False, f"refused: {draws:,} draws are worth {share * draws:.0f}, fewer than {ess:g}"
    if k.value >= limit:
        return True, f"good enough: {worth}, so that k̂ = {k.value:.2f} does not matter"
    return True, f"good enough: k̂ = {k.value:.2f} < {limit:g}, {worth}"
