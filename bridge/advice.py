"""The first approximation that can be trusted, from cheap to rich; NUTS where none can."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from bridge.attempt import EXPECTED_FAILURES, REPETITIONS, Attempt
from bridge.exact import exact_answer
from bridge.measures.limits import KHAT_FEWEST_DRAWS, KHAT_USABLE
from bridge.methods.base import Fit, Method
from bridge.methods.named_draws import NamedDraws, resampled
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS, find_methods
from bridge.search import Search
from bridge.targets.draws import InferenceData
from pymc_ext.sampling.options import Sampling

if TYPE_CHECKING:
    import pymc as pm

    from pymc_ext.density import Density
    from stan_models import StanProgram
    from stan_models.density import Data

__all__ = ["EXPECTED_FAILURES", "LADDER", "Advice", "Attempt", "fit"]

_log = logging.getLogger(__name__)
# Then NUTS, which costs less than a flow. The map is the Gaussian where no more is needed, and its
# paths and batches take fewer gradients than a search for modes with its Hessians: a median of
# 2,200 instead of 7,400 on 34 posteriors with reference draws.
LADDER = ("hierarchical",)
FLOWS = ("bernstein-match",)  # where a density is wanted, of some hundred thousand gradients


@dataclass(frozen=True)
class Advice:
    """What :func:`fit` settled on.

    Attributes
    ----------
    method
        The name of the method of the draws; ``"warm-nuts"`` for chains in the coordinates of an
        approximation, ``"nuts"`` for the sampler of the model's own package.
    idata
        Draws on the constrained space with the model's coords and dims; ``sample_stats`` has
        ``lp``. PSIS-resampled where the method is an approximation; chains as they are.
    attempts
        Every method tried, in order.
    fit
        Draws of the chosen approximation before resampling, with ``log_q``, and of its proposal,
        where it has one: that is what was resampled. None for chains.
    draws
        What ``idata`` is made of.
    doubts
        Why the draws of NUTS are not to be trusted, one sentence each; empty where they are.
    unknown
        Names of quantities with tails so heavy that no number of draws tells their sd, or mean:
        what is trusted of them are quantiles.
    """

    method: str
    attempts: tuple[Attempt, ...]
    fit: Fit | None
    draws: NamedDraws | InferenceData
    doubts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether the draws may be taken for the posterior."""
        return not self.doubts

    @cached_property
    def idata(self) -> InferenceData:
        """The draws as ArviZ holds them."""
        return self.draws.inference_data() if isinstance(self.draws, NamedDraws) else self.draws

    @property
    def reasons(self) -> str:
        """One line a method tried, and what was taken in the end."""
        lines = [str(attempt) for attempt in self.attempts]
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
    ess: float = 400,
    want: Literal["draws", "density"] = "draws",
    random_seed: int | None = None,
    progressbar: bool = True,
) -> Advice:
    """Draws of a posterior that can be trusted, for as little as they can be had.

    Each method is judged by Pareto k̂ of ``fresh_draws`` draws in five batches,

    .. math:: \\hat k(\\log \\tilde p - \\log q) < \\texttt{khat}\\ \\text{(median over batches)},

    or by weights that hardly differ (98 % of the draws are effective), where k̂ says nothing; all of
    them must be worth ``ess`` draws, and every mean and sd known to 1/√``ess`` sds, with a k̂ of
    its own. Before one is trusted, paths from 35 points search
    for mass outside it, which k̂ cannot see; where they find more than 1 %, a mixture of all basins
    is tried. The
    draws returned are resampled with Pareto-smoothed importance weights. If no approximation is
    good enough, NUTS runs in the coordinates of the best one: Stan's own for a Stan program, nutpie
    for all else (without it the model's own sampler); it is judged by R̂, ESS, E-FMI and
    divergences, and ``Advice.doubts`` says why it is not to be trusted.

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
        Draws returned of an approximation; of chains all that they took to reach ``ess``.
    fresh_draws
        Draws each method is judged by, at least 1,000.
    ess
        What the fresh draws of an approximation must be worth; bulk and tail ESS of every quantity,
        and of log p̃, at which NUTS ends.
    want
        ``"draws"``, or ``"density"``: a normalised q, for the evidence or to be evaluated
        (``Advice.fit.log_q``), for which a flow is tried before NUTS.
    random_seed
        Seeds the fits, the draws and the resampling.
    progressbar
        Whether the model's own sampler, where it has to run, shows its progress.

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
    'hierarchical'

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?: evaluating variational
    inference, ICML, arXiv:1802.02538.
    """
    chosen = _approximations(methods)
    _check(khat, draws, fresh_draws, want)
    options = Sampling(ess=ess)
    seed = int(np.random.default_rng(random_seed).integers(2**31))
    problem = as_problem(model, data)
    search = Search(problem, khat, ess, fresh_draws, seed)
    for method in chosen:
        search.attempt(method)
        if search.trusted or search.modes is not None:
            break
    if not search.trusted and search.looks_elsewhere():
        search.attempt(search.basins())
    for name in FLOWS if want == "density" else ():
        if not search.trusted:
            search.attempt(METHODS[name])
    found = search.found
    if search.trusted and found is not None:
        taken = resampled(problem, found, search.weights, draws, seed)
        return Advice(search.attempts[-1].method, tuple(search.attempts), found, taken)
    _log.info("no approximation is good enough: running NUTS")
    begin = time.perf_counter()
    last = exact_answer(
        problem, search.coordinates, search.modes, options,
        draws=draws, seed=seed, progressbar=progressbar,
    )  # fmt: skip
    nan, seconds = float("nan"), time.perf_counter() - begin
    attempt = Attempt(last.method, nan, nan, nan, False, seconds, last.verdict, last.gradients)
    every = (*search.attempts, attempt)
    return Advice(last.method, every, None, last.draws, last.doubts, last.unknown)


def _check(khat: float, draws: int, fresh_draws: int, want: str) -> None:
    if want not in ("draws", "density"):
        raise ValueError(f"want must be 'draws' or 'density', got {want!r}")
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
