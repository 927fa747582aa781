"""Approximations tried one after the other, and what is known of the posterior by then."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from bridge.advice.kept_law import kept_law
from bridge.advice.shoulder_draws import widens, with_shoulder
from bridge.attempt import EXPECTED_FAILURES, Attempt, attempted, judged_again, require_defined
from bridge.measures.khat import KHat, pareto_khat
from bridge.measures.limits import KHAT_WITHOUT_MEAN
from bridge.methods.families import FittedBy
from bridge.methods.images import IMAGES, images_of
from bridge.methods.method import Fit, Method
from bridge.methods.problems import GivenProblem, ModelProblem
from bridge.methods.table import METHODS
from bridge.trust import forgotten, missed, of_several_modes, open_end, short_tails
from pymc_ext.density import CountedDensity, TransportMap
from pymc_ext.interrupts import Interrupts
from pymc_ext.maths.types import Array
from pymc_ext.sampling.images import images_among
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.prediction import UP_TO, in_words, nuts_gradients, weighted_kurtosis
from pymc_ext.sampling.progress import now
from pymc_ext.variational.core.checks import MISSED, Check
from pymc_ext.variational.ill_posed.jumps import Jump, jump_among
from pymc_ext.variational.missed.missed_mass import LEAST_ON_SHOULDER, MissedMass
from pymc_ext.variational.missed.outside import is_inside

if TYPE_CHECKING:
    from pymc_ext.variational.core.mixture import Component
    from pymc_ext.variational.hierarchical.law import LawAlong

__all__ = ["Search"]

_log = logging.getLogger(__name__)
UNSEARCHED = "interrupted while mass outside it was looked for"
NONE = "no mass that matters found outside"
MASS_IS_MISSED = "mass is missed"  # as :attr:`.MissedMass.sentence` has it
BASINS = "basins"  # what is tried where a mode is missed
MOST_TRIES = 3  # of basins, each with what the one before missed (a choice)
# Effective draws that are to lie on a shoulder, so that its mass is known to a third, and the most
# that are asked for in all: with 4,000 three of four such runs spent their budget and were refused.
ON_SHOULDER, MOST_FOR_SHOULDER = 8, 1_000
# Of predicted gradients, that chains may take on a posterior that looks improper: most take fewer
# where the posterior is proper, and no number of draws settles an improper one.
PATIENCE = 4


class Search:
    """For an approximation that can be trusted.

    Parameters
    ----------
    problem
        Whose posterior it is.
    khat, ess
        The largest k̂ that is good enough, and what all fresh draws must be worth.
    effort
        Gradients that approximations may take in vain, in those that NUTS is predicted to take;
        None: any number.
    fresh_draws
        Draws that each is judged by at most.
    draws
        What those of a good one are worth where that can be had.
    seed
        Of fits and draws.

    Attributes
    ----------
    attempts
        All so far.
    found, weights, of_found
        The fit of highest ELBO, or the one that is trusted, the weights of its draws, its attempt.
    trusted
        Whether the last one may be taken for the posterior.
    modes
        Outside an approximation that looked good, or outside the best of those that did not.
    of_one_mode
        The fit of highest ELBO that has coordinates, where there are several modes.
    law
        Along what governs others' scales, of the last fit that found one.
    open_end
        A tail of such a law whose mass cannot be known, whoever draws, in a sentence.
    jump
        Of log p̃ between draws of the best fit, where every fit was refused.
    """

    def __init__(
        self,
        problem: GivenProblem,
        khat: float,
        ess: float,
        effort: float | None,
        fresh_draws: int,
        draws: int,
        seed: int,
    ) -> None:
        self.problem, self.khat, self.ess, self.effort = problem, khat, ess, effort
        self.fresh_draws, self.draws, self.seed = fresh_draws, draws, seed
        self.attempts: list[Attempt] = []
        self.found: Fit | None = None
        self.weights: Array = np.empty(0)
        self.of_found: Attempt | None = None
        self.modes: MissedMass | None = None
        self.of_one_mode: Fit | None = None
        self.law: LawAlong | None = None
        self.open_end: str | None = None
        self.jump: Jump | None = None
        self.trusted = False
        self._elbo_of_one = -np.inf
        self._new_mode = False  # whether the heaviest that the last search found was not known

    def attempt(self, method: Method) -> None:
        """Fit, judge by k̂, and look for mass outside before it is trusted.

        After Ctrl-C the best fit stands, not trusted where mass outside was not looked for.
        """
        _log.info("trying %s", method.name)
        now(f"{method.name}: fitting")
        begin = time.perf_counter()
        with Interrupts() as interrupts:
            attempt, found, k = attempted(
                method, self.problem, self.khat, self.ess, self.fresh_draws, self.draws, self.seed,
                self.attempts,
            )  # fmt: skip
        if found is not None and k is not None:
            attempt = self._held(attempt, found, k)
            if attempt.good and interrupts.seen:
                attempt = attempt.judged(Check("end", False, UNSEARCHED))
            if attempt.good:
                attempt, found, k = self._looked_outside(attempt, found, k)
                attempt = replace(attempt, seconds=time.perf_counter() - begin)
            if found.transport is not None and attempt.elbo > self._elbo_of_one:
                self.of_one_mode, self._elbo_of_one = found, attempt.elbo
            self.law = found.law or self.law
            if k.ess >= self.ess:  # fewer weighted draws know nothing of a tail
                self.open_end = open_end(found, k.weights) or self.open_end
            self.trusted = attempt.good and k.weights is not None
            best = self.of_found is None or attempt.elbo > self.of_found.elbo  # −∞ by p̃'s edges
            if k.weights is not None and (self.trusted or best):
                self.found, self.weights, self.of_found = found, k.weights, attempt
        elif isinstance(self.problem, ModelProblem):
            require_defined(self.problem)
        self.attempts.append(attempt)

    def attempt_density(self, method: Method) -> None:
        """The same where a normalised q is wanted: what was trusted before stays, unless this is
        trusted too and has the higher ELBO."""
        before, best = (self.found, self.weights), self.of_found if self.trusted else None
        self.attempt(method)
        if best is None:
            return
        assert self.of_found is not None
        if not (self.trusted and self.of_found.elbo > best.elbo):
            self.trusted, self.of_found, (self.found, self.weights) = True, best, before

    @property
    def own_error(self) -> str | None:
        """What is wrong with draws of the law that would be kept, without weights."""
        kept = None if self.found is None else kept_law(self.found, self.weights)
        return None if kept is None else kept.wrong

    def _held(self, attempt: Attempt, found: Fit, k: KHat) -> Attempt:
        """The attempt, held to more where it is at several modes."""
        if attempt.method not in (BASINS, IMAGES):
            return attempt
        return of_several_modes(attempt, found.proposal is not None, k.weights)

    def _looked_outside(self, attempt: Attempt, found: Fit, k: KHat) -> tuple[Attempt, Fit, KHat]:
        """The attempt as it stands after a search for what it misses; the fit with draws of a
        shoulder that was found, where weights serve with them."""
        said = NONE
        try:
            attempt, outside, wider = self._searched(attempt, found)
            settled = not outside.matters
            if wider is not None and wider[0].good:
                (attempt, found, k), said, settled = wider, _weighted_too(outside), True
            elif wider is not None and widens(found, k.weights, wider[1], wider[2].weights):
                outside, settled = outside.unsettled(), False  # chains have to say by how much
            left = self._forgotten(found, said != NONE) if settled else outside
            if left is not None:
                return self._missing(attempt, left), found, k
            return self._held_to_tails(attempt, found, k, said), found, k
        except KeyboardInterrupt:
            return attempt.judged(Check("end", False, UNSEARCHED)), found, k

    def _searched(
        self, attempt: Attempt, found: Fit
    ) -> tuple[Attempt, MissedMass, tuple[Attempt, Fit, KHat] | None]:
        """The attempt with what a search took, what it found outside, and the fit with draws of a
        shoulder beside its own, judged again by its weights; None where there is no shoulder, or
        none whose draws can be weighted."""
        outside = missed(found, attempt.log_marginal_is, self.seed)
        spent = attempt.search_gradients + outside.gradients
        attempt = replace(attempt, search_gradients=spent)
        if outside.shoulder is None or outside.shoulder.kernels is None:
            return attempt, outside, None
        wider = with_shoulder(found, outside.shoulder.kernels, self.seed)
        if wider is None:
            return attempt, outside, None
        again, wider, k = judged_again(
            attempt, wider, self.khat, self.ess, self.fresh_draws, self.draws
        )
        again = self._held(again, found, k)  # kernels are no heavier tails of all modes
        return attempt, outside, (again, wider, k)

    def _forgotten(self, found: Fit, has_shoulder: bool) -> MissedMass | None:
        """Of the modes known from before those that a fit misses; not the shoulder that it has."""
        if self.modes is None:
            return None
        known = (b for b in self.modes.basins if b.is_mode or not has_shoulder)
        return forgotten(found, replace(self.modes, basins=tuple(known)), self.seed)

    def _missing(self, attempt: Attempt, outside: MissedMass) -> Attempt:
        """The attempt, refused for mass that matters, which is known from now on."""
        known = () if self.modes is None else self.modes.basins
        basin = outside.heaviest
        self._new_mode = not any(is_inside(basin.q.mean, other.q) for other in known)
        self.modes = outside if self.modes is None else self.modes.and_more(outside)
        limit = float(np.exp(basin.log_limit))
        return attempt.judged(Check(MISSED, False, outside.sentence, basin.share, limit))

    def _held_to_tails(self, attempt: Attempt, found: Fit, k: KHat, nothing: str) -> Attempt:
        """The attempt, refused where its weights miss a tail of what governs others' scales."""
        tails, more = short_tails(found, k.weights, self.law, self.seed)
        attempt = replace(attempt, search_gradients=attempt.search_gradients + more)
        return attempt.judged(Check(MISSED, not tails, tails[0] if tails else nothing))

    def affordable(self, method: Method) -> bool:
        """Whether it may run; where not, that is noted among the attempts."""
        if self.effort is None or not self.attempts or (predicted := self.predicted) is None:
            return True
        spent = sum(attempt.all_gradients for attempt in self.attempts)
        if spent + (method.gradients or 0) <= self.effort * predicted:
            return True
        takes = "" if method.gradients is None else f", it takes some {method.gradients:,}"
        verdict = (
            f"not tried: {spent:,} gradients are spent{takes}, and NUTS is predicted to take "
            f"{in_words(predicted)}"
        )
        self.attempts.append(Attempt.without_answer(method.name, verdict))
        return False

    @property
    def dimension(self) -> int | None:
        """D; None where there is no density on R^D, as of discrete variables."""
        try:
            return self.problem.target.dimension
        except EXPECTED_FAILURES:
            return None

    @property
    def predicted(self) -> int | None:
        """Gradients of NUTS, in the best fit's coordinates where it runs in these; None where no
        score can be had."""
        dimension = self.dimension
        if dimension is None:
            return None
        if self.found is None or self.chain_coordinates is None:
            return nuts_gradients(dimension, self.ess, None)
        assert self.found.lq is not None  # of q, in whose coordinates it runs, not of its proposal
        weights = pareto_khat(self.found.lp.ravel(), self.found.lq.ravel()).weights
        if weights is None:
            return nuts_gradients(dimension, self.ess, None)
        w = weights.ravel()
        columns = self.found.theta.reshape(w.size, -1).T
        kurtosis = max(weighted_kurtosis(x, w) for x in columns)
        return nuts_gradients(dimension, self.ess, 1 / (w.size * float(w @ w)), kurtosis)

    def looks_elsewhere(self) -> bool:
        """Whether modes are known outside the best fit; looks for them where none did so far."""
        if self.modes is None and self.found is not None and self.of_found is not None:
            begin, best = time.perf_counter(), self.of_found
            attempt, outside, wider = self._searched(best, self.found)
            if wider is not None and wider[0].good:
                again, found, k = wider
                again = self._held_to_tails(again, found, k, _weighted_too(outside))
                attempt = replace(attempt, search_gradients=again.search_gradients)
                if again.good and k.weights is not None:
                    self.found, self.weights, self.trusted = found, k.weights, True
                    attempt = again
            self.modes = outside if outside.matters and not self.trusted else None
            place = next(i for i, tried in enumerate(self.attempts) if tried is best)
            seconds = best.seconds + time.perf_counter() - begin
            self.of_found = self.attempts[place] = replace(attempt, seconds=seconds)
            if self.trusted:
                return False
        if self.modes is None or not self.modes.has_modes:  # nothing is fitted to a shoulder
            return False
        return BASINS not in {a.method for a in self.attempts}

    def images(self) -> Method | None:
        """The fit of one mode for all modes that are known, where these are its images."""
        fit, basin = self.of_one_mode, self.basin
        if fit is None or fit.log_q is None or basin is None or self.modes is None:
            return None
        found = images_among(self.modes, fit.target, basin, self.seed)
        return None if found is None or found.others.matters else images_of(fit, found.symmetry)

    @property
    def misses_more(self) -> bool:
        """Whether the last attempt failed, or a search found mass outside it: no chains in its
        coordinates mend that."""
        last = self.attempts[-1].verdict
        return last.startswith("failed") or MASS_IS_MISSED in last

    @property
    def more_basins(self) -> bool:
        """Whether a search found a mode outside the basins just tried that was not known before."""
        last = self.attempts[-1]
        tried = sum(attempt.method == BASINS for attempt in self.attempts)
        return (
            last.method == BASINS
            and MASS_IS_MISSED in last.verdict
            and self._new_mode
            and tried < MOST_TRIES
        )

    def basins(self) -> Method:
        """A map for every basin: the best so far and what is known outside it are the first."""
        method = METHODS[BASINS]
        assert isinstance(method.run, FittedBy)
        from pymc_ext.variational.basins.algorithm import Explored

        state: object = self.coordinates or self.basin
        if state is not None and self.modes is not None:
            state = Explored(cast("Component", state), self.modes)
        return replace(method, run=replace(method.run, state=state))

    @property
    def ended_early(self) -> bool:
        """Whether the best fit's training ended for weights that did not serve after all."""
        from pymc_ext.variational.hierarchical.algorithm import LAW_SERVES

        if self.trusted or self.modes is not None or self.found is None or self.open_end:
            return False
        return self.found.info.get("stop_reason") == LAW_SERVES

    @property
    def improper(self) -> str | None:
        """Why the posterior looks improper, in words: a fit of it, or of a basin, ran away."""
        return next((a.improper for a in self.attempts if a.improper), None)

    @property
    def endless(self) -> bool:
        """Whether the posterior is improper, so that no draws are of it."""
        return any(a.endless for a in self.attempts)

    @property
    def weighs_basins(self) -> bool:
        """Whether the best fit covers several basins, and its weights have a mean at least."""
        best = self.of_found
        if best is None or best.method not in (BASINS, IMAGES):
            return False
        return best.khat < KHAT_WITHOUT_MEAN

    def looks_for_jumps(self) -> int:
        """Whether log p̃ jumps between the likelier half of the best fit's draws; scores taken."""
        if self.found is None or self.dimension is None:
            return 0
        density, lp = CountedDensity(self.found.target.density), self.found.lp.ravel()
        theta = self.found.theta.reshape(len(lp), -1)[lp >= np.median(lp)]
        self.jump = jump_among(density, theta, self.seed)
        return density.gradients

    def within(self, options: Sampling) -> Sampling:
        """Options of chains, with a budget by what they are predicted to take where every fit ran
        away, or log p̃ jumps: then steps may shrink until trees are full; beside a shoulder with as
        many effective draws as tell what lies there."""
        if self.modes is not None and not self.modes.has_modes:
            wanted = min(
                np.ceil(ON_SHOULDER / max(self.modes.heaviest.share, LEAST_ON_SHOULDER)),
                MOST_FOR_SHOULDER,
            )
            options = replace(options, ess=max(options.ess, float(wanted)))
        if self.jump is not None:
            most = UP_TO
        elif self.improper is not None and self.found is None:
            most = PATIENCE
        else:
            return options
        if (predicted := self.predicted) is None:
            return options
        return replace(options, budget=min(options.budget, most * predicted))

    @property
    def basin(self) -> TransportMap | None:
        """q of one mode."""
        return None if self.of_one_mode is None else self.of_one_mode.transport

    @property
    def coordinates(self) -> TransportMap | None:
        """The best fit as coordinates."""
        return None if self.found is None else self.found.transport

    @property
    def chain_coordinates(self) -> TransportMap | None:
        """Those for chains: none where mass is on a shoulder, into which a map squeezes so little
        that steps which suit all else seldom enter."""
        modes = self.modes
        return self.coordinates if modes is None or modes.has_modes else None


def _weighted_too(outside: MissedMass) -> str:
    """What is known beside a fit that has draws of a shoulder."""
    assert outside.shoulder is not None
    return f"draws of {outside.of(outside.shoulder)} are weighted too"
