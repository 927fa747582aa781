"""Approximations tried one after the other, and what is known of the posterior by then."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from bridge.advice.kept_law import kept_law
from bridge.advice.outside import BASINS, UNSEARCHED, MassOutside
from bridge.attempt import EXPECTED_FAILURES, Attempt, Demands, attempted, require_defined
from bridge.measures.khat import pareto_khat
from bridge.measures.limits import KHAT_WITHOUT_MEAN
from bridge.methods.families import FittedBy
from bridge.methods.images import IMAGES, images_of
from bridge.methods.method import Fit, Method
from bridge.methods.problems import GivenProblem, ModelProblem
from bridge.methods.table import METHODS
from bridge.trust import open_end
from pymc_ext.density import CountedDensity, TransportMap
from pymc_ext.interrupts import Interrupts
from pymc_ext.maths.types import Array
from pymc_ext.sampling.images import images_among
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.prediction import UP_TO, chain_gradients, in_words, weighted_kurtosis
from pymc_ext.sampling.progress import now
from pymc_ext.variational.ill_posed.jumps import Jump, jump_among
from pymc_ext.variational.missed.missed_mass import LEAST_ON_SHOULDER, MissedMass

if TYPE_CHECKING:
    from pymc_ext.variational.core.mixture import Component
    from pymc_ext.variational.hierarchical.law import LawAlong

__all__ = ["Search"]

_log = logging.getLogger(__name__)
MASS_IS_MISSED = "mass is missed"  # as :attr:`.MissedMass.sentence` has it
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
    demands
        What it must pass.
    effort
        Gradients that approximations may take in vain, in those that chains are predicted to take;
        None: any number.
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
    outside
        What is known of mass outside them.
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
        self, problem: GivenProblem, demands: Demands, effort: float | None, seed: int
    ) -> None:
        self.problem, self.demands, self.effort, self.seed = problem, demands, effort, seed
        self.outside = MassOutside(demands, seed)
        self.attempts: list[Attempt] = []
        self.found: Fit | None = None
        self.weights: Array = np.empty(0)
        self.of_found: Attempt | None = None
        self.of_one_mode: Fit | None = None
        self.law: LawAlong | None = None
        self.open_end: str | None = None
        self.jump: Jump | None = None
        self.trusted = False
        self._elbo_of_one = -np.inf

    @property
    def modes(self) -> MissedMass | None:
        """Outside an approximation that looked good, or outside the best of those that did not."""
        return self.outside.modes

    def attempt(self, method: Method) -> None:
        """Fit, judge by k̂, and look for mass outside before it is trusted.

        After Ctrl-C the best fit stands, not trusted where mass outside was not looked for.
        """
        _log.info("trying %s", method.name)
        now(f"{method.name}: fitting")
        begin = time.perf_counter()
        with Interrupts() as interrupts:
            attempt, found, k = attempted(
                method, self.problem, self.demands, self.seed, self.attempts
            )
        if found is not None and k is not None:
            attempt = self.outside.held(attempt, found, k)
            if attempt.good and interrupts.seen:
                attempt = attempt.judged(UNSEARCHED)
            if attempt.good:
                attempt, found, k = self.outside.searched(attempt, found, k, self.law)
                attempt = replace(attempt, seconds=time.perf_counter() - begin)
            if found.transport is not None and attempt.elbo > self._elbo_of_one:
                self.of_one_mode, self._elbo_of_one = found, attempt.elbo
            self.law = found.law or self.law
            if k.ess >= self.demands.ess:  # fewer weighted draws know nothing of a tail
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

    def affordable(self, method: Method) -> bool:
        """Whether it may run; where not, that is noted among the attempts."""
        if self.effort is None or not self.attempts or (predicted := self.predicted) is None:
            return True
        spent = sum(attempt.all_gradients for attempt in self.attempts)
        if spent + (method.gradients or 0) <= self.effort * predicted:
            return True
        takes = "" if method.gradients is None else f", it takes some {method.gradients:,}"
        verdict = (
            f"not tried: {spent:,} gradients are spent{takes}, and chains are predicted to take "
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
            return chain_gradients(dimension, self.demands.ess, None)
        assert self.found.lq is not None  # of q, in whose coordinates it runs, not of its proposal
        weights = pareto_khat(self.found.lp.ravel(), self.found.lq.ravel()).weights
        if weights is None:
            return chain_gradients(dimension, self.demands.ess, None)
        w = weights.ravel()
        columns = self.found.theta.reshape(w.size, -1).T
        kurtosis = max(weighted_kurtosis(x, w) for x in columns)
        return chain_gradients(dimension, self.demands.ess, 1 / (w.size * float(w @ w)), kurtosis)

    def looks_elsewhere(self) -> bool:
        """Whether modes are known outside the best fit; looks for them where none did so far.

        Beside a mode that outweighs the fit the tails of its law are those of what it is stuck in.
        """
        if self.modes is None and self.found is not None and self.of_found is not None:
            begin, best = time.perf_counter(), self.of_found
            attempt, wider = self.outside.beside(best, self.found, self.law)
            place = next(i for i, tried in enumerate(self.attempts) if tried is best)
            seconds = best.seconds + time.perf_counter() - begin
            self.of_found = self.attempts[place] = replace(attempt, seconds=seconds)
            if wider is not None:
                self.found, k = wider
                assert k.weights is not None
                self.weights, self.trusted = k.weights, True
                return False
        if self.modes is not None and self.modes.has_modes and self.modes.heaviest.share > 1:
            self.open_end = self.law = None
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
            and self.outside.newest
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
        from pymc_ext.variational.hierarchical.algorithm import GROUPS_SERVE, LAW_SERVES

        if self.trusted or self.modes is not None or self.found is None or self.open_end:
            return False
        return self.found.info.get("stop_reason") in (GROUPS_SERVE, LAW_SERVES)

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
