"""The last rung of `bridge.fit`: chains, in the coordinates of the best approximation tried."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from bridge.advice.own_sampler import own_draws
from bridge.attempt import Attempt, failure
from bridge.methods.named_draws import NamedDraws, of_chains
from bridge.methods.problems import DensityProblem, GivenProblem, StanProblem
from bridge.methods.warm_nuts import FLOW_STEPS, expected_failures, sampled
from bridge.stan.sampler import StanNUTS, takes
from bridge.targets.draws import InferenceData
from bridge.trust import not_visited
from pymc_ext.density import CountedDensity, DensityError, TransportMap
from pymc_ext.density.coordinates import as_transport
from pymc_ext.interrupts import Interrupts
from pymc_ext.sampling.attempts import INTERRUPTED
from pymc_ext.sampling.heavy import MOST_NAMED, Heavy
from pymc_ext.sampling.hmc import HMC
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.progress import now
from pymc_ext.sampling.run import BudgetSpentError
from pymc_ext.variational.core.algorithm import run_algorithm
from pymc_ext.variational.core.checks import MISSED, Check
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.ill_posed.runaway import RunawayError
from pymc_ext.variational.missed.missed_mass import MissedMass
from stan_models import StanDensity

__all__ = ["BENT", "COLD", "WARM", "Exact", "exact_answer", "in_a_flow"]

_log = logging.getLogger(__name__)
WARM, BENT, COLD = "warm-nuts", "flow-nuts", "nuts"
SPOKEN = {StanNUTS.name: "Stan's NUTS", HMC.name: "HMC"}  # of samplers
MOST_DIMENSIONS = 300  # of a flow, whose step costs D²: there 3,000 take some 30 CPU seconds


@dataclass(frozen=True)
class Exact:
    """Draws of chains and what they are worth.

    Parameters
    ----------
    method
        ``"warm-nuts"``, ``"flow-nuts"`` in a flow's coordinates, or ``"nuts"`` where only a cold
        sampler could run.
    draws
        The draws.
    doubts
        Why they are not to be trusted, one sentence each; empty where they are.
    verdict
        What ran, in words.
    gradients
        Scores taken; None where the sampler does not count them.
    heavy
        Quantities whose sd, or mean and sd, draws do not tell.
    interrupted
        Ctrl-C ended the chains.
    checks
        All that they were judged by.
    """

    method: str
    draws: NamedDraws | InferenceData
    doubts: tuple[str, ...]
    verdict: str
    gradients: int | None
    heavy: tuple[Heavy, ...] = ()
    interrupted: bool = False
    checks: tuple[Check, ...] = ()


def exact_answer(
    problem: GivenProblem,
    transport: TransportMap | None,
    modes: MissedMass | None,
    options: Sampling,
    *,
    draws: int,
    seed: int,
    progressbar: bool,
    improper: str | None = None,
    attempts: Sequence[Attempt] = (),
    basin: TransportMap | None = None,
) -> Exact:
    """Chains until their ESS is enough, from q and from every mode that is known.

    Parameters
    ----------
    problem
        Whose posterior it is.
    transport
        q of the best approximation; None where none serves as coordinates.
    modes
        Found outside q: a chain starts in each.
    options
        ESS, budget, chains.
    draws
        Of the model's own sampler, at first, which runs where this one cannot: nutpie is not
        installed, or no approximation takes the model, as with discrete variables.
    seed, progressbar
        Of the sampler.
    improper
        Why the posterior looks improper, which is the first doubt of chains that fail as well.
    attempts
        Those before, whose reasons are not said again.
    basin
        q of one mode, in which chains run where all are images of that one.

    Raises
    ------
    RunawayError
        Chains on a posterior that looks improper had not warmed up within their budget.
    BudgetSpentError
        Nor had those on another.
    """
    why = _no_sampler(problem)
    if why is None:
        try:
            found = _from_where_it_can(problem, transport, modes, options, seed, basin)
            if improper is None or not found.doubts:
                return found
            return replace(found, doubts=(improper, *found.doubts))
        except expected_failures() as error:
            if improper is not None:
                # a larger budget, which is what the error advises, settles no improper posterior
                said = error.why if isinstance(error, BudgetSpentError) else error
                raise RunawayError(
                    f"the posterior looks improper, and NUTS gave no draws either: {said}"
                ) from error
            # a density has no sampler of its own; one at its defaults has no budget, and would
            # take as long for what ours were not done with
            if isinstance(problem, DensityProblem) or isinstance(error, BudgetSpentError):
                raise
            _log.debug("%s failed", WARM, exc_info=True)
            why = f"{WARM} {failure(error, attempts)}"
    assert not isinstance(problem, DensityProblem)
    labels = StanDensity.labels if problem.has_program else None
    own = own_draws(problem, draws, options.ess, seed, progressbar, labels)
    elsewhere = () if modes is None else not_visited(modes, problem.target, own.idata, seed, basin)
    doubts = (*elsewhere, *own.doubts(options.ess))
    advice = own.advice(options.ess)
    if advice is not None:
        doubts = (*doubts, advice)
    ran = f"the sampler's own defaults ({why})"
    checks = _with_missed(own.checks(options.ess), elsewhere)
    unknown = own.unknown(options.ess)
    return Exact(COLD, own.idata, doubts, ran, own.gradients, unknown, checks=checks)


def _from_where_it_can(
    problem: GivenProblem,
    transport: TransportMap | None,
    modes: MissedMass | None,
    options: Sampling,
    seed: int,
    basin: TransportMap | None,
) -> Exact:
    """Chains from q and the modes; from random starts where log p̃ is flat or undefined there."""
    try:
        return _warm(problem, transport, modes, options, seed, basin=basin)
    except DensityError:
        if transport is None and modes is None:
            raise
        _log.debug("no chain can start from q and the modes", exc_info=True)
    found = _warm(problem, None, None, options, seed)
    if modes is None:
        return found
    assert isinstance(found.draws, NamedDraws)
    elsewhere = not_visited(modes, problem.target, found.draws.inference_data(), seed, basin)
    own = [check for check in found.checks if not (check.name == MISSED and check.passed)]
    checks = _with_missed(own, elsewhere)
    return replace(found, doubts=(*elsewhere, *found.doubts), checks=checks)


def in_a_flow(
    problem: GivenProblem,
    transport: TransportMap | None,
    options: Sampling,
    *,
    seed: int,
) -> Exact | None:
    """Chains in a short flow on the best q, for what chains in its own coordinates did not answer.

    Some thousand steps bend the necks and ridges that make NUTS diverge, for some 30,000 gradients,
    less than what such chains have taken. None where no flow can be had. Raises KeyboardInterrupt
    where that comes before its chains.
    """
    from pymc_ext.variational.bernstein.algorithm import Bernstein
    from pymc_ext.variational.bernstein.whitening import FittedBase

    target = problem.target
    if (
        not isinstance(transport, FittedBase)
        or target.dimension > MOST_DIMENSIONS
        or find_spec("nutpie") is None
    ):
        return None
    now("a short flow, for NUTS in its coordinates")
    density = CountedDensity(target.density)
    try:
        with Monitor.silent() as monitor, Interrupts() as interrupts:
            q = run_algorithm(
                Bernstein(base=transport, polish=None), density, problem.start, FLOW_STEPS,
                random_seed=seed, monitor=monitor,
            ).q  # fmt: skip
        if interrupts.seen:  # the flow took it as its own end
            raise KeyboardInterrupt("interrupted before the flow was fitted")
        found = _warm(problem, as_transport(q), None, options, seed, False, transport)
    except expected_failures():
        _log.debug("%s failed", BENT, exc_info=True)
        return None
    gradients = None if found.gradients is None else found.gradients + density.gradients
    return replace(found, method=BENT, gradients=gradients)


def _no_sampler(problem: GivenProblem) -> str | None:
    """Why no sampler of `pymc_ext.sampling` can run."""
    if find_spec("nutpie") is not None or isinstance(problem, DensityProblem):
        return None  # a density has no sampler of its own: PyMC's steps in the approximation's
    if isinstance(problem, StanProblem) and takes(problem.density, None):
        return None
    return "nutpie, which samples in an approximation's coordinates, is not installed"


def _warm(
    problem: GivenProblem,
    transport: TransportMap | None,
    modes: MissedMass | None,
    options: Sampling,
    seed: int,
    fall_back: bool = True,
    hierarchy: TransportMap | None = None,
    basin: TransportMap | None = None,
) -> Exact:
    target = problem.target
    found = sampled(target, transport, modes, options, seed, fall_back, hierarchy, basin)
    on = SPOKEN.get(found.sampler, found.sampler)
    how = "in the approximation's coordinates" if found.in_map else "with its own adaptation"
    verdict = f"{on} {how}: {found.theta.shape[0]} chains, {found.stop_reason}"
    heavy = found.diagnostics.unknown(options.ess)
    verdict = "; ".join([verdict, *found.notes])
    if len(heavy) > MOST_NAMED:
        verdict += f"; all {len(heavy)} are in advice.unknown"
    return Exact(
        method=WARM,
        draws=of_chains(problem, target, found, seed),
        doubts=found.reasons,
        verdict=verdict,
        gradients=found.gradient_evaluations,
        heavy=heavy,
        interrupted=found.stop_reason == INTERRUPTED,
        checks=_with_missed(found.checks),
    )


def _with_missed(checks: Sequence[Check], doubts: Sequence[str] = ()) -> tuple[Check, ...]:
    """Checks of chains, and what they miss where that is not among them: nothing, or ``doubts``."""
    missed = [Check(MISSED, False, doubt) for doubt in doubts]
    if not missed and not any(check.name == MISSED for check in checks):
        missed = [Check(MISSED, True, "draws are in every mode and tail that is known")]
    return (*checks, *missed)
