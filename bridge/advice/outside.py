"""Attempts held to what lies outside them: modes, shoulders, and tails of what governs scales."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bridge.advice.shoulder_draws import widens, with_shoulder
from bridge.attempt import Attempt, Demands, judged_again
from bridge.measures.khat import KHat
from bridge.methods.images import IMAGES
from bridge.methods.method import Fit
from bridge.trust import forgotten, missed, of_several_modes, short_tails
from pymc_ext.variational.core.checks import MISSED, Check
from pymc_ext.variational.missed.missed_mass import MissedMass
from pymc_ext.variational.missed.outside import is_inside

if TYPE_CHECKING:
    from pymc_ext.variational.hierarchical.law import LawAlong

__all__ = ["BASINS", "MassOutside"]

UNSEARCHED = Check("end", False, "interrupted while mass outside it was looked for")
NONE = "no mass that matters found outside"
BASINS = "basins"  # what is tried where a mode is missed


class MassOutside:
    """What is known of mass that approximations miss.

    Parameters
    ----------
    demands
        What a fit with draws of a shoulder must pass.
    seed
        Of searches and draws.

    Attributes
    ----------
    modes
        Outside an approximation that looked good, or outside the best of those that did not.
    newest
        Whether the heaviest that the last search found was not known before.
    """

    def __init__(self, demands: Demands, seed: int) -> None:
        self.demands, self.seed = demands, seed
        self.modes: MissedMass | None = None
        self.newest = False

    def held(self, attempt: Attempt, found: Fit, k: KHat) -> Attempt:
        """The attempt, held to more where it is at several modes."""
        if attempt.method not in (BASINS, IMAGES):
            return attempt
        return of_several_modes(attempt, found.proposal is not None, k.weights)

    def searched(
        self, attempt: Attempt, found: Fit, k: KHat, law: LawAlong | None
    ) -> tuple[Attempt, Fit, KHat]:
        """The attempt as it stands after a search for what it misses; the fit with draws of a
        shoulder that was found, where weights serve with them."""
        said = NONE
        try:
            attempt, outside, wider = self._found(attempt, found)
            settled = not outside.matters
            if wider is not None and wider[0].good:
                (attempt, found, k), said, settled = wider, _weighted_too(outside), True
            elif wider is not None and widens(found, k.weights, wider[1], wider[2].weights):
                outside, settled = outside.unsettled(), False  # chains have to say by how much
            left = self._forgotten(found, said != NONE) if settled else outside
            if left is not None:
                return self._missing(attempt, left), found, k
            return self._held_to_tails(attempt, found, k, law, said), found, k
        except KeyboardInterrupt:
            return attempt.judged(UNSEARCHED), found, k

    def beside(
        self, best: Attempt, found: Fit, law: LawAlong | None
    ) -> tuple[Attempt, tuple[Fit, KHat] | None]:
        """The best of attempts that were refused, after a search that it was not worth before; with
        the fit that has draws of a shoulder and its k̂, where that can be trusted."""
        attempt, outside, wider = self._found(best, found)
        if wider is not None and wider[0].good:
            again, with_more, k = wider
            again = self._held_to_tails(again, with_more, k, law, _weighted_too(outside))
            attempt = replace(attempt, search_gradients=again.search_gradients)
            if again.good and k.weights is not None:
                return again, (with_more, k)
        self.modes = outside if outside.matters else None
        return attempt, None

    def _found(
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
        again, wider, k = judged_again(attempt, wider, self.demands)
        again = self.held(again, found, k)  # kernels are no heavier tails of all modes
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
        self.newest = not any(is_inside(basin.q.mean, other.q) for other in known)
        self.modes = outside if self.modes is None else self.modes.and_more(outside)
        limit = float(np.exp(basin.log_limit))
        return attempt.judged(Check(MISSED, False, outside.sentence, basin.share, limit))

    def _held_to_tails(
        self, attempt: Attempt, found: Fit, k: KHat, law: LawAlong | None, nothing: str
    ) -> Attempt:
        """The attempt, refused where its weights miss a tail of what governs others' scales."""
        tails, more = short_tails(found, k.weights, law, self.seed)
        attempt = replace(attempt, search_gradients=attempt.search_gradients + more)
        return attempt.judged(Check(MISSED, not tails, tails[0] if tails else nothing))


def _weighted_too(outside: MissedMass) -> str:
    """What is known beside a fit that has draws of a shoulder."""
    assert outside.shoulder is not None
    return f"draws of {outside.of(outside.shoulder)} are weighted too"
