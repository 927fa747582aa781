"""The first approximation that can be trusted, from cheap to rich; NUTS where none can."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bridge.errors import BridgeError
from bridge.measures.khat import KHat, pareto_khat
from bridge.measures.limits import KHAT_FEWEST_DRAWS, KHAT_USABLE
from bridge.methods.base import Fit, Method
from bridge.methods.problems import DensityProblem, ModelProblem, StanProblem, as_problem
from bridge.methods.resampling import Resampled, resampled
from bridge.methods.table import METHODS, find_methods
from bridge.targets.draws import InferenceData
from bridge.trust import Missed, doubts_of_nuts, missed, modes_not_visited
from stan_models import StanError

if TYPE_CHECKING:
    import pymc as pm

    from pymc_ext.density import Density
    from stan_models import StanProgram
    from stan_models.density import Data

__all__ = ["EXPECTED_FAILURES", "LADDER", "Advice", "Attempt", "fit"]

_log = logging.getLogger(__name__)
LADDER = ("laplace", "hierarchical")  # then NUTS, which costs less than a flow
MIXTURE = "mixture"  # tried next where a mode is missed
REPETITIONS = 5

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
    """

    method: str
    khat: float
    khat_sd: float
    elbo: float
    exact: bool
    seconds: float
    verdict: str


@dataclass(frozen=True)
class Advice:
    """What :func:`fit` settled on.

    Attributes
    ----------
    method
        The name of the method of the draws, or ``"nuts"``.
    idata
        Draws on the constrained space with the model's coords and dims; ``sample_stats`` has
        ``lp``. PSIS-resampled where the method is an approximation.
    attempts
        Every method tried, in order.
    fit
        Draws of the chosen approximation before resampling, with ``log_q``, and of its proposal,
        where it has one: that is what was resampled. None for NUTS.
    draws
        What ``idata`` is made of.
    doubts
        Why the draws of NUTS are not to be trusted, one sentence each; empty where they are.
    """

    method: str
    attempts: tuple[Attempt, ...]
    fit: Fit | None
    draws: Resampled | InferenceData
    doubts: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether the draws may be taken for the posterior."""
        return not self.doubts

    @cached_property
    def idata(self) -> InferenceData:
        """The draws as ArviZ holds them."""
        return self.draws.inference_data() if isinstance(self.draws, Resampled) else self.draws

    @property
    def reasons(self) -> str:
        """One line a method tried, and what was taken in the end."""
        lines = [f"{a.method}: {a.verdict} ({a.seconds:.1f} s)" for a in self.attempts]
        lines.append(f"taken: {self.method}")
        lines += [f"not trusted: {doubt}" for doubt in self.doubts]
        return "\n".join(lines)


def fit(
    model: pm.Model | StanProgram | Density | str | os.PathLike[str] | None = None,
    data: Data = None,
    *,
    methods: Sequence[str | Method] | str | Method = LADDER,
    khat: float = KHAT_USABLE,
    draws: int = 4_000,
    fresh_draws: int = 20_000,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> Advice:
    """Fit methods from cheap to rich and return the first whose k̂ is good enough.

    Each is judged by Pareto k̂ on ``fresh_draws`` draws in five batches,

    .. math:: \\hat k(\\log \\tilde p - \\log q) < \\texttt{khat}\\ \\text{(median over batches)},

    and by the ELBO on the same draws. Before one is trusted, paths from 24 dispersed points search
    for mass outside it, which k̂ cannot see; where they find more than 1 %, a mixture is tried. The
    draws returned are resampled with Pareto-smoothed importance weights. If no approximation is
    good enough, NUTS runs: Stan's for a Stan program, PyMC's for a model; it is judged by R̂, ESS
    and divergences, and ``Advice.doubts`` says why it is not to be trusted.

    Parameters
    ----------
    model
        A ``pm.Model`` (None: the one of the ``with`` context), a `stan_models.StanProgram`, Stan
        source, the path of a ``.stan`` file, or any density (``px.CallableDensity``, say).
    data
        Data of a Stan program: a mapping, the path of a JSON file, or None.
    methods
        Approximations in the order to try them: names from `python -m bridge list`, or methods of
        your own (:class:`bridge.Method`).
    khat
        The largest k̂ that is good enough, in (0, 1]; 0.7 is the limit of Vehtari et al. (2024).
    draws
        Draws returned.
    fresh_draws
        Draws each method is judged by, at least 1,000.
    random_seed
        Seeds the fits, the draws and the resampling.
    progressbar
        Whether NUTS shows its progress.

    Returns
    -------
    Advice
        ``idata``, ``method``, ``attempts`` and ``reasons``.

    Raises
    ------
    UnknownMethodError
        With the near names.
    StanCompileError, StanDataError, UndefinedDensityError
        Of a Stan program that no method can run on.
    DensityError
        The density lacks a member, or is not finite at the origin.
    ValueError
        A limit is out of range, a method is a sampler, or ``data`` is given with a PyMC model.
    Exception
        Of a method that fails with anything but `EXPECTED_FAILURES`: an error in its code.

    Examples
    --------
    >>> with pm.Model():
    ...     pm.Normal("x", 0, 1, shape=3)
    ...     advice = bridge.fit(random_seed=1)
    >>> advice.method
    'laplace'

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?: evaluating variational
    inference, ICML, arXiv:1802.02538.
    """
    chosen = _approximations(methods)
    _check(khat, draws, fresh_draws)
    seed = int(np.random.default_rng(random_seed).integers(2**31))
    problem = as_problem(model, data)
    attempts: list[Attempt] = []
    waiting, modes = list(chosen), list[Missed]()
    while waiting:
        method = waiting.pop(0)
        _log.info("trying %s", method.name)
        attempt, found, k = _try(method, problem, khat, fresh_draws, seed)
        if found is not None and k is not None and k.weights is not None:
            outside = missed(found, k.log_marginal_is, seed)
            if outside is None:
                taken = resampled(problem, found, k.weights, draws, seed)
                return Advice(method.name, (*attempts, attempt), found, taken)
            modes.append(outside)
            attempt = replace(attempt, verdict=f"refused: {outside.sentence}")
            if MIXTURE not in {a.method for a in attempts} | {m.name for m in (method, *waiting)}:
                waiting.insert(0, METHODS[MIXTURE])
        attempts.append(attempt)
    _log.info("no approximation is good enough: running NUTS")
    idata = problem.nuts(draws, seed, progressbar)
    doubts = (*modes_not_visited(modes[:1], problem.pymc_target, idata), *doubts_of_nuts(idata))
    return Advice("nuts", tuple(attempts), None, idata, doubts)


def _check(khat: float, draws: int, fresh_draws: int) -> None:
    if not 0 < khat <= 1:
        raise ValueError(f"khat must be in (0, 1], got {khat}")
    fewest = KHAT_FEWEST_DRAWS * REPETITIONS
    if draws < 4 or fresh_draws < fewest:
        raise ValueError(f"need draws >= 4 and fresh_draws >= {fewest}, got {draws}, {fresh_draws}")


def _approximations(methods: Sequence[str | Method] | str | Method) -> list[Method]:
    found = find_methods(methods)
    if not found or any(method.sampler for method in found):
        raise ValueError(
            f"methods must name approximations, got {[method.name for method in found]}: NUTS runs "
            "by itself if all fail"
        )
    return found


def _try(
    method: Method,
    problem: ModelProblem | StanProblem | DensityProblem,
    limit: float,
    draws: int,
    seed: int,
) -> tuple[Attempt, Fit | None, KHat | None]:
    """The attempt, and the fit with its k̂ over all draws where it is good enough."""
    begin, nan = time.perf_counter(), float("nan")
    if method.representation == "stan" and not problem.has_program:
        verdict = "not tried: it needs a Stan program"
        return Attempt(method.name, nan, nan, nan, False, 0.0, verdict), None, None
    try:
        found = method.run(problem, draws, seed)
    except Exception as error:
        if not _is_expected(error):
            raise
        _log.debug("%s failed", method.name, exc_info=True)
        verdict = f"failed: {type(error).__name__}: {error}"
        seconds = time.perf_counter() - begin
        return Attempt(method.name, nan, nan, nan, False, seconds, verdict), None, None
    lp, lq = _log_densities(method, found)
    assert found.lq is not None
    size = lp.size // REPETITIONS
    lp_batches, lq_batches = (x[: size * REPETITIONS].reshape(REPETITIONS, size) for x in (lp, lq))
    k = pareto_khat(lp_batches, lq_batches)
    good = k.exact or k.value < limit
    attempt = Attempt(
        method=method.name,
        khat=k.value,
        khat_sd=k.sd,
        elbo=float((found.lp - found.lq).mean()),
        exact=k.exact,
        seconds=time.perf_counter() - begin,
        verdict=_verdict(k, limit),
    )
    return attempt, found if good else None, pareto_khat(lp, lq) if good else None


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


def _log_densities(method: Method, found: Fit) -> tuple[np.ndarray, np.ndarray]:
    """log p̃ and log q of the draws for weights."""
    weighted = found.weighted
    if weighted is None or found.lq is None:
        raise TypeError(
            f"method {method.name} gave draws without log q, by which it would be judged: mark it "
            "as sampler=True, or let its Fit have lq"
        )
    return weighted.lp.ravel(), weighted.lq.ravel()


def _verdict(k: KHat, limit: float) -> str:
    if k.exact:
        return "exact: its log ratios to the posterior are constant"
    if np.isnan(k.value):
        return f"refused: no k̂ ({k.reason})"
    sign, word = ("<", "good enough") if k.value < limit else (">=", "refused")
    return f"{word}: k̂ = {k.value:.2f} {sign} {limit:g}"
