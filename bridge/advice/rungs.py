"""The rungs of `bridge.fit`, from cheap to rich, and the answer of the one that serves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from bridge.advice.answer import Advice, NoAnswerError
from bridge.advice.exact import BENT, COLD, WARM, Exact, exact_answer, in_a_flow
from bridge.advice.search import Search
from bridge.attempt import EXPECTED_FAILURES, Attempt
from bridge.methods.families import EARLY
from bridge.methods.method import Method
from bridge.methods.named_draws import resampled, weighted
from bridge.methods.table import METHODS
from pymc_ext.density.protocol import labels_of
from pymc_ext.interrupts import Interrupts, is_interrupt
from pymc_ext.sampling.heavy import unknown_moments
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.prediction import in_words
from pymc_ext.sampling.progress import at_work
from pymc_ext.sampling.run import BudgetSpentError

__all__ = ["answered"]

_log = logging.getLogger(__name__)
FLOW = "bernstein"  # where a density is wanted
# Of the budget, what chains in a flow have where those before them spent it: a quarter of
# 1,000,000 is more than the 150,000 that they took of any target that they served.
FLOW_SHARE = 4
CHAINS_AS_WELL = "NUTS did not run, as it would miss that tail as well"
NOTHING_YET = "interrupted before there was any approximation: nothing is kept"
IMPROPER = "the posterior is improper, so that there are none; NUTS did not run"


def answered(
    search: Search, methods: Sequence[Method], options: Sampling, density: bool, progressbar: bool
) -> Advice:
    """Draws of the first approximation that is trusted, else of chains.

    Parameters
    ----------
    search
        What is known of the posterior; nothing yet.
    methods
        Approximations in their order.
    options
        Of chains.
    density
        Whether a normalised q is wanted, so that a flow is tried before chains.
    progressbar
        Whether a line says what is done.

    Raises
    ------
    NoAnswerError
        The posterior is improper, or nothing gave draws.
    KeyboardInterrupt
        Ctrl-C before there was any approximation.
    """
    with at_work(progressbar), Interrupts() as interrupts:
        try:
            for attempt in _approximations(search, methods, density):
                attempt()
                if interrupts.seen:  # a fit took it as its own end
                    break
        except KeyboardInterrupt:
            interrupts.seen = True
        if search.trusted:
            return _of_weights(search)
        if interrupts.seen:
            return _so_far(search)
        if search.open_end is not None:
            return _short_of_a_tail(search, search.open_end)
        answer = _of_chains(search, options, progressbar)
        if search.jump is not None and answer.doubts:
            check = search.jump.check
            answer = replace(answer, doubts=(check.found, *answer.doubts), _more=(check,))
        if interrupts.seen and answer.method == COLD:  # PyMC's sampler says nothing of it
            short = "interrupted before all draws were made"
            return replace(answer, doubts=(short, *answer.doubts))
        return answer


def _approximations(
    search: Search, methods: Sequence[Method], density: bool
) -> Iterator[Callable[[], None]]:
    """Attempts at approximations, each where those before it leave it something to do."""
    for method in methods:
        if search.affordable(method):
            yield partial(search.attempt, method)
            if method is EARLY and search.ended_early:  # chains want the map, not the law's weights
                yield partial(search.attempt, METHODS[EARLY.name])
        stuck = search.endless or search.open_end is not None
        if search.trusted or search.modes is not None or stuck:
            break
    if search.endless:
        return
    elsewhere = not search.trusted and search.looks_elsewhere()
    if search.open_end is not None:
        return
    if elsewhere:
        images = search.images()
        if images is not None and search.affordable(images):
            yield partial(search.attempt, images)
        if not search.trusted and (images is None or search.misses_more):
            yield from _in_basins(search)
    if density and (not search.trusted or search.own_error is not None):
        yield partial(search.attempt_density, METHODS[FLOW])


def _in_basins(search: Search) -> Iterator[Callable[[], None]]:
    """A map for every basin that is known, again where a search finds another one."""
    while True:
        basins = search.basins()
        if not search.affordable(basins):
            return
        yield partial(search.attempt, basins)
        if not search.more_basins:
            return


def _of_weights(search: Search) -> Advice:
    """Draws of the best fit, resampled by its weights."""
    found, best, w = search.found, search.of_found, search.weights
    assert found is not None and best is not None
    taken = resampled(search.problem, found, w, search.demands.draws, search.seed)
    heavy = unknown_moments(taken.values, search.demands.ess, labels_of(found.target.density))
    return Advice(
        best.method,
        tuple(search.attempts),
        found,
        taken,
        heavy=heavy,
        effective_draws=float(w.sum() ** 2 / (w**2).sum()),
        _attempt=best,
        _weights=w,
        _weighted=partial(weighted, search.problem, found, w, search.seed),
    )


def _refused(search: Search, *doubts: str) -> Advice:
    """Draws of the best fit, which is refused, and what is said against chains."""
    assert search.of_found is not None
    first = f"{search.of_found.method}: {search.of_found.verdict}"
    return replace(_of_weights(search), doubts=(first, *doubts))


def _so_far(search: Search) -> Advice:
    """Draws of the best fit before Ctrl-C. Raises KeyboardInterrupt where there is none."""
    if search.of_found is None:
        raise KeyboardInterrupt(NOTHING_YET)
    found = f"{search.of_found.method}: {search.of_found.verdict}"
    doubts = ("interrupted: these are weighted draws of the best approximation by then", found)
    return replace(_of_weights(search), doubts=doubts)


def _short_of_a_tail(search: Search, open_end: str) -> Advice:
    """Draws of the best fit, where those of chains could be trusted no more than these."""
    return replace(_of_weights(search), doubts=(open_end, CHAINS_AS_WELL))


def _of_chains(search: Search, options: Sampling, progressbar: bool) -> Advice:
    """Draws of chains, in a flow's coordinates where those in the best fit's are not trusted; where
    chains keep to modes of their own, those of the mixture that weighs them."""
    if search.endless:
        raise NoAnswerError(IMPROPER, tuple(search.attempts))
    predicted = search.predicted
    takes = "" if predicted is None else f", {in_words(predicted)} gradients"
    _log.info("no approximation is good enough: running chains%s", takes)
    begin = time.perf_counter()
    try:
        looked = search.looks_for_jumps()
        options = search.within(options)
        last = exact_answer(
            search.problem, search.chain_coordinates, search.modes, options,
            draws=search.demands.draws, seed=search.seed, progressbar=progressbar,
            improper=search.improper, attempts=search.attempts, basin=search.basin,
        )  # fmt: skip
    except BudgetSpentError as error:
        made = Attempt.without_answer(WARM, error.why, time.perf_counter() - begin)
        spent = error.spent + looked
        search.attempts.append(replace(made, gradients=spent, predicted=predicted))
        if search.of_found is None:
            raise NoAnswerError(error.why, tuple(search.attempts)) from error
        return _refused(search, f"{WARM}: {error.why}")
    except EXPECTED_FAILURES as error:
        raise NoAnswerError(str(error), tuple(search.attempts)) from error
    except KeyboardInterrupt:  # before any draw
        return _so_far(search)
    ran = _ran(last, begin, predicted)
    if ran.gradients is not None:
        ran = replace(ran, gradients=ran.gradients + looked)
    search.attempts.append(ran)
    last = _in_a_flow(search, options, last) or last
    if last.doubts and search.weighs_basins:  # chains that keep to their modes weigh none of them
        return _refused(search, *(f"{last.method}: {doubt}" for doubt in last.doubts))
    attempts = tuple(search.attempts)
    return Advice(last.method, attempts, None, last.draws, last.doubts, last.heavy)


def _in_a_flow(search: Search, options: Sampling, before: Exact) -> Exact | None:
    """Chains in a flow's coordinates, where they are trusted and those before them are not."""
    if before.method != WARM or before.interrupted or not before.doubts:
        return None
    # a flow ends before a tail without moments that the first chains have seen: so do its chains
    if before.heavy or search.modes is not None:
        return None
    begin = time.perf_counter()
    left = max(options.budget - (before.gradients or 0), options.budget // FLOW_SHARE)
    options = replace(options, budget=left)
    try:
        found = in_a_flow(search.problem, search.coordinates, options, seed=search.seed)
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interrupt(error):
            raise
        seconds = time.perf_counter() - begin
        search.attempts.append(Attempt.without_answer(BENT, "interrupted", seconds))
        return None
    if found is None:
        return None
    attempt = _ran(found, begin, None)
    if found.doubts:
        refused = f"{attempt.verdict}; not trusted either: {found.doubts[0]}"
        attempt = replace(attempt, verdict=refused)
    search.attempts.append(attempt)
    return None if found.doubts else found


def _ran(last: Exact, begin: float, predicted: int | None) -> Attempt:
    """Chains that were run, as an attempt."""
    made = Attempt.without_answer(last.method, last.verdict, time.perf_counter() - begin)
    return replace(made, gradients=last.gradients, predicted=predicted, checks=last.checks)
