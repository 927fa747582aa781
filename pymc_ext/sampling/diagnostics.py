"""What the draws of several chains are worth, and whether they are to be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from pymc_ext.density.protocol import Labels, numbered
from pymc_ext.maths.convergence import bulk_ess_and_rhat, energy_fmi, sd_error, tail_ess
from pymc_ext.maths.rounding import above, below
from pymc_ext.maths.types import Array
from pymc_ext.sampling.heavy import (
    DRAWS_FOR_TAIL,
    NO_VARIANCE,
    Heavy,
    heavy_among,
    khat_of_squares,
    not_told,
    take_quantiles,
)
from pymc_ext.sampling.quantities import columns_of, once
from pymc_ext.variational.core.checks import Check

# The largest R̂ of any quantity at which chains count as agreeing: with 400 effective draws in eight
# half-chains the worst of a hundred equal quantities comes to 1.02 by chance, so that the 1.01 of
# Vehtari et al. (2021) would ask for twice the draws.
RHAT_AGREES: Final = 1.02

# The smallest E-FMI of any chain: below it the energies that momenta can reach limit the chain;
# Stan's own limit (`stansummary`, `diagnose`), after Betancourt (2016), arXiv:1604.00695.
ENERGY_FMI_LEAST: Final = 0.3

# The largest share of divergent transitions; one alone is always borne. On centred eight schools
# maps that let chains into the neck had up to 0.13 %, maps that kept them out of the 5 % of the
# mass that lie there 0.2 to 0.8 %, whatever the steps, while R̂, ESS and E-FMI said nothing.
DIVERGENT_MOST: Final = 0.001

# That a share is larger is said where the count would be one of 20 by chance at that share; where
# it may be, from fewer transitions than four chains of 1,600, more are made before it is borne.
CHANCE: Final = 0.05
TRANSITIONS_TO_TELL: Final = 6_400

# Quantities that are watched between blocks, where there are four times as many: as long as one of
# these is short of draws, all together are, and ranking hundreds took a third of a run's time.
WATCHED: Final = 50


@dataclass(frozen=True)
class Diagnostics:
    """Of the draws of several chains, the worst quantity each.

    Attributes
    ----------
    ess_bulk, ess_tail
        Smallest effective sample sizes, over all chains.
    scarcest
        Name of the quantity that has the smaller of them.
    rhat
        Largest R̂.
    apart
        Name of the quantity that has it.
    energy_fmi
        Smallest of any chain; infinite where the sampler has no energies.
    divergences, transitions
        Number of divergent transitions, none where the sampler does not tell them, and of all.
    sd_error
        Largest standard error of an sd, as a share of it, of those that more draws would tell.
    vaguest
        Name of the quantity that has it.
    heavy
        The others, whose quantiles are all that draws can tell.
    worst
        Names of the quantities that lack draws most and of those that disagree most, up to
        `WATCHED` each; None where there are few in all.
    tells_divergences
        Whether the sampler does.
    """

    ess_bulk: float
    ess_tail: float
    scarcest: str
    rhat: float
    apart: str
    energy_fmi: float
    divergences: int
    transitions: int
    sd_error: float
    vaguest: str
    heavy: tuple[Heavy, ...]
    worst: frozenset[str] | None = field(default=None, repr=False, compare=False)
    tells_divergences: bool = True

    @classmethod
    def of(
        cls, quantities: Array, names: Sequence[str], statistics: Mapping[str, NDArray]
    ) -> Diagnostics:
        """Of quantities (chains, draws, K) and statistics (chains, draws); a sampler that lacks
        ``energy`` or ``diverging`` is not judged by it."""
        (bulk, rhat), tail = bulk_ess_and_rhat(quantities), tail_ess(quantities)
        errors, khat = sd_error(quantities), np.full(len(names), -np.inf)
        if quantities.shape[0] * quantities.shape[1] >= DRAWS_FOR_TAIL:
            khat = khat_of_squares(quantities)
        known = np.where(khat < NO_VARIANCE, errors, 0.0)
        vaguest = int(np.argmax(known))
        scarcest, apart = int(np.argmin(np.minimum(bulk, tail))), int(np.argmax(rhat))
        return cls(
            ess_bulk=float(bulk.min()),
            ess_tail=float(tail.min()),
            scarcest=names[scarcest],
            rhat=float(rhat[apart]),
            apart=names[apart],
            energy_fmi=(
                float(energy_fmi(statistics["energy"]).min()) if "energy" in statistics else np.inf
            ),
            divergences=int(np.sum(statistics.get("diverging", 0))),
            transitions=quantities.shape[0] * quantities.shape[1],
            sd_error=float(known[vaguest]),
            vaguest=names[vaguest],
            heavy=heavy_among(names, errors, khat),
            worst=_worst(names, np.minimum(bulk, tail), known, rhat),
            tells_divergences="diverging" in statistics,
        )

    @classmethod
    def of_draws(
        cls,
        theta: Array,
        lp: Array,
        names: Sequence[str],
        derived: Mapping[str, Array],
        statistics: Mapping[str, NDArray],
        only: frozenset[str] | None = None,
        labels: Labels = numbered,
    ) -> Diagnostics:
        """Of all that draws say, or of some.

        Parameters
        ----------
        theta, lp
            Draws (chains, draws, D), unconstrained, and their log p̃ (chains, draws).
        names
            Of the coordinates.
        derived
            Other quantities by name, as `scalars` gives them; those that are not always finite are
            left out.
        statistics
            Of the sampler, by ArviZ's names, (chains, draws) each.
        only
            Names of the quantities to look at, as `worst` of an earlier judgement; all if None.
        labels
            Names of the elements of derived arrays.
        """
        columns, more = columns_of(derived, labels)
        values = np.concatenate([theta, lp[..., None], *columns], axis=-1)
        named = [*names, "log p̃", *more]
        places = once(values, theta.shape[-1])
        if only is not None:
            places = [i for i in places if named[i] in only] or places
        return cls.of(values[..., places], [named[i] for i in places], statistics)

    @property
    def ess(self) -> float:
        """The smaller ESS."""
        return min(self.ess_bulk, self.ess_tail)

    @property
    def diverges(self) -> bool:
        """Whether too many transitions diverged, beyond chance."""
        # of as many or more by binomial chance; scipy.stats takes .2 CPU seconds to import
        chance = bdtrc(self.divergences - 1, self.transitions, DIVERGENT_MOST)
        return self._many_diverge and bool(chance < CHANCE)

    @property
    def may_diverge(self) -> bool:
        """Whether the share of divergent transitions is above its limit, but not beyond chance, and
        more transitions would tell."""
        told = self.diverges or self.transitions >= TRANSITIONS_TO_TELL
        return self._many_diverge and not told

    @property
    def _many_diverge(self) -> bool:
        return self.divergences > max(1.0, DIVERGENT_MOST * self.transitions)

    def enough(self, ess: float) -> bool:
        """Whether all quantities have that ESS, and all sds the error of as many, and the chains
        agree, and it is known whether they diverge."""
        return self.shortage(ess) <= 1 and self.rhat <= RHAT_AGREES

    def shortage(self, ess: float) -> float:
        """By what factor draws are too few: for the ESS, and for sds known to 1/√ESS of
        themselves, which is what a mean is known to, and to know whether they diverge."""
        # of undefined numbers as few as can be: max() keeps its first argument beside NaN
        short = max(ess / max(1.0, self.ess), ess * self.sd_error**2)
        return max(short, TRANSITIONS_TO_TELL / self.transitions) if self.may_diverge else short

    def unknown(self, ess: float) -> tuple[Heavy, ...]:
        """Whose sd, or mean, these draws do not tell, nor would more of them."""
        return not_told(self.heavy, ess)

    def doubts(self, ess: float) -> tuple[str, ...]:
        """Why the draws are not to be trusted, in words; nothing where they are."""
        return tuple(check.found for check in self.checks(ess) if not check.passed)

    def checks(self, ess: float) -> tuple[Check, ...]:
        """All that they are judged by."""
        checks = [self._of_rhat, self._of_draws(ess), self._of_sds(ess)]
        if self.tells_divergences:
            checks.append(self._of_divergences)
        if self.energy_fmi != np.inf:  # which it is where the sampler tells no energies
            checks.append(self._of_energies)
        return tuple(checks)

    def _of_draws(self, ess: float) -> Check:
        passed = self.ess >= ess
        found = f"{below(self.ess, 0)} of {self.scarcest}, the fewest"
        if not passed:
            found = (
                f"{below(self.ess, 0)} effective draws of {self.scarcest}, of the {ess:g} asked for"
            )
        return Check("effective draws", passed, found, self.ess, ess)

    @property
    def _of_rhat(self) -> Check:
        passed = self.rhat <= RHAT_AGREES
        found = f"{self.rhat:.3f} of {self.apart}, the largest"
        if not passed:
            found = (
                f"the chains disagree about {self.apart}: R̂ = {above(self.rhat, 3)}, which must "
                f"be at most {RHAT_AGREES:g}"
            )
        return Check("R̂", passed, found, self.rhat, RHAT_AGREES)

    def _of_sds(self, ess: float) -> Check:
        limit = float(1 / np.sqrt(ess))
        passed = bool(np.isfinite(self.sd_error) and ess * self.sd_error**2 <= 1)
        if not np.isfinite(self.sd_error):  # draws of 1e200, whose squares no number holds
            found = f"the sd of {self.vaguest} is not known: its draws run off"
        elif not passed:
            found = (
                f"the sd of {self.vaguest} is known to {above(100 * self.sd_error, 1)} % of "
                f"itself, where {ess:g} effective draws ask for {100 * limit:.3g} %"
            )
        else:
            found = f"known to {100 * self.sd_error:.1f} % of themselves"
        return Check("sds", passed, found, self.sd_error, limit)

    @property
    def _of_divergences(self) -> Check:
        found = f"{self.divergences} of {self.transitions} transitions diverged"
        if self.diverges:
            found += (
                f", more than {100 * DIVERGENT_MOST:g} %: there are regions that the sampler "
                "cannot enter"
            )
        share = self.divergences / self.transitions
        return Check("divergences", not self.diverges, found, share, DIVERGENT_MOST)

    @property
    def _of_energies(self) -> Check:
        passed = self.energy_fmi >= ENERGY_FMI_LEAST
        found = f"{self.energy_fmi:.2f}, of the worst chain"
        if not passed:
            found = (
                f"E-FMI = {below(self.energy_fmi, 2)}, which must be at least "
                f"{ENERGY_FMI_LEAST:g}: a chain explores the energies too slowly for its tails to "
                "be known"
            )
        return Check("E-FMI", passed, found, self.energy_fmi, ENERGY_FMI_LEAST)

    def notes(self, ess: float) -> tuple[str, ...]:
        """What is worth knowing though it does not refute the draws."""
        found = []
        if self.divergences and not self.diverges:
            found.append(f"{self.divergences} of {self.transitions} transitions diverged")
        unknown = self.unknown(ess)
        if unknown:
            found.append(take_quantiles([str(quantity) for quantity in unknown]))
        return tuple(found)


def _worst(
    names: Sequence[str], effective: Array, errors: Array, rhat: Array
) -> frozenset[str] | None:
    """What lacks draws most, by ESS and error of the sd, and what disagrees most."""
    if len(rhat) < 4 * WATCHED:
        return None
    short = np.maximum(1 / np.maximum(effective, 1.0), errors**2)
    ranked = (np.argsort(-np.nan_to_num(x, nan=np.inf))[:WATCHED] for x in (short, rhat))
    return frozenset(names[i] for order in ranked for i in order)
