"""What the draws of several chains are worth, and whether they are to be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.convergence import bulk_ess, energy_fmi, split_rhat, tail_ess

Array = NDArray[np.floating]

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
        Smallest of any chain.
    divergences, transitions
        Number of divergent transitions, and of all.
    """

    ess_bulk: float
    ess_tail: float
    scarcest: str
    rhat: float
    apart: str
    energy_fmi: float
    divergences: int
    transitions: int

    @classmethod
    def of(
        cls, quantities: Array, names: Sequence[str], statistics: Mapping[str, NDArray]
    ) -> Diagnostics:
        """Of quantities (chains, draws, K) and statistics (chains, draws)."""
        bulk, tail, rhat = bulk_ess(quantities), tail_ess(quantities), split_rhat(quantities)
        scarcest, apart = int(np.argmin(np.minimum(bulk, tail))), int(np.argmax(rhat))
        return cls(
            ess_bulk=float(bulk.min()),
            ess_tail=float(tail.min()),
            scarcest=names[scarcest],
            rhat=float(rhat[apart]),
            apart=names[apart],
            energy_fmi=float(energy_fmi(statistics["energy"]).min()),
            divergences=int(np.sum(statistics["diverging"])),
            transitions=int(statistics["diverging"].size),
        )

    @property
    def ess(self) -> float:
        """The smaller ESS."""
        return min(self.ess_bulk, self.ess_tail)

    @property
    def diverges(self) -> bool:
        """Whether too many transitions diverged."""
        return self.divergences > max(1.0, DIVERGENT_MOST * self.transitions)

    def enough(self, ess: float) -> bool:
        """Whether all quantities have that ESS and the chains agree."""
        return self.ess >= ess and self.rhat <= RHAT_AGREES

    def doubts(self, ess: float) -> tuple[str, ...]:
        """Why the draws are not to be trusted, in words; nothing where they are."""
        found = []
        if not self.rhat <= RHAT_AGREES:
            found.append(
                f"the chains disagree about {self.apart}: R̂ = {self.rhat:.3f}, which must be at "
                f"most {RHAT_AGREES:g}"
            )
        if not self.ess >= ess:
            found.append(
                f"{self.ess:.0f} effective draws of {self.scarcest}, of the {ess:g} asked for"
            )
        if self.diverges:
            found.append(
                f"{self.divergences} of {self.transitions} transitions diverged, more than "
                f"{100 * DIVERGENT_MOST:g} %: there are regions that the sampler cannot enter"
            )
        if not self.energy_fmi >= ENERGY_FMI_LEAST:
            found.append(
                f"E-FMI = {self.energy_fmi:.2f}, which must be at least {ENERGY_FMI_LEAST:g}: a "
                "chain explores the energies too slowly for its tails to be known"
            )
        return tuple(found)

    def notes(self) -> tuple[str, ...]:
        """What is worth knowing though it does not refute the draws."""
        if self.divergences and not self.diverges:
            return (f"{self.divergences} of {self.transitions} transitions diverged",)
        return ()
