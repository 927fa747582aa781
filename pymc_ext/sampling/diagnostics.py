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
from pymc_ext.maths.psis import tail_khat
from pymc_ext.maths.rounding import above, below
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.weights import KHAT_USABLE

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

MOST_NAMED = 5  # quantities in one note

# Quantities that are watched between blocks, where there are four times as many: as long as one of
# these is short of draws, all together are, and ranking hundreds took a third of a run's time.
WATCHED: Final = 50

# k̂ of (x − m)² from which on its variance is infinite, so that the error of an sd falls so slowly
# that more draws do not help: moments of order 1/k̂ of a Pareto tail exist.
NO_VARIANCE: Final = 0.5

# k̂ of (x − m)² from which on it has no mean, so that the sd is infinite; and from which on draws do
# not tell the mean of x: its own k̂, half of that, is no longer usable.
NO_SD: Final = 1.0
NO_MEAN: Final = 2 * KHAT_USABLE

# Draws, over all chains, from which on k̂ may say so: their tail holds 189, by which k̂ of .5 is
# known to .11. By 1,000 draws a marginalised spike and slab, which has all moments, had k̂ of .6 to
# .8, and chains ended with an interval a quarter too short.
DRAWS_FOR_TAIL: Final = 4_000


@dataclass(frozen=True)
class Heavy:
    """A quantity whose tail leaves its sd without a known error.

    Parameters
    ----------
    name
        Of the quantity.
    sd_error
        What the draws say it is, as a share of the sd.
    khat
        Of (x − m)², twice that of x − m: from 1 on the sd itself is infinite, and the mean has no
        standard error; from `NO_MEAN` on draws do not tell the mean either.
    """

    name: str
    sd_error: float
    khat: float

    def __str__(self) -> str:
        if self.khat >= NO_MEAN:
            return f"mean and sd of {self.name} (tail k̂ {self.khat:.2f})"
        infinite = ": infinite" if self.khat >= NO_SD else ""
        return f"sd of {self.name} (tail k̂ {self.khat:.2f}{infinite})"


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

    @classmethod
    def of(
        cls, quantities: Array, names: Sequence[str], statistics: Mapping[str, NDArray]
    ) -> Diagnostics:
        """Of quantities (chains, draws, K) and statistics (chains, draws); a sampler that lacks
        ``energy`` or ``diverging`` is not judged by it."""
        (bulk, rhat), tail = bulk_ess_and_rhat(quantities), tail_ess(quantities)
        errors, khat = sd_error(quantities), np.full(len(names), -np.inf)
        if quantities.shape[0] * quantities.shape[1] >= DRAWS_FOR_TAIL:
            khat = _khat_of_squares(quantities)
        known = np.where(khat < NO_VARIANCE, errors, 0.0)
        vaguest = int(np.argmax(known))
        heavy = {  # by name, as a density's coordinates are its constrained values too
            names[i]: Heavy(names[i], float(errors[i]), float(khat[i]))
            for i in map(int, np.flatnonzero(khat >= NO_VARIANCE))
        }
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
            heavy=tuple(heavy.values()),
            worst=_worst(names, np.minimum(bulk, tail), known, rhat),
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
        columns, more = _columns(derived, labels)
        values = np.concatenate([theta, lp[..., None], *columns], axis=-1)
        named = [*names, "log p̃", *more]
        places = _once(values, theta.shape[-1])
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
        return tuple(q for q in self.heavy if not q.sd_error <= 1 / np.sqrt(ess))

    def doubts(self, ess: float) -> tuple[str, ...]:
        """Why the draws are not to be trusted, in words; nothing where they are."""
        found = []
        if not self.rhat <= RHAT_AGREES:
            found.append(
                f"the chains disagree about {self.apart}: R̂ = {above(self.rhat, 3)}, which must "
                f"be at most {RHAT_AGREES:g}"
            )
        if not self.ess >= ess:
            found.append(
                f"{below(self.ess, 0)} effective draws of {self.scarcest}, of the {ess:g} asked for"
            )
        if not np.isfinite(self.sd_error):  # draws of 1e200, whose squares no number holds
            found.append(f"the sd of {self.vaguest} is not known: its draws run off")
        elif not ess * self.sd_error**2 <= 1:
            found.append(
                f"the sd of {self.vaguest} is known to {above(100 * self.sd_error, 1)} % of "
                f"itself, where {ess:g} effective draws ask for {100 / np.sqrt(ess):.3g} %"
            )
        if self.diverges:
            found.append(
                f"{self.divergences} of {self.transitions} transitions diverged, more than "
                f"{100 * DIVERGENT_MOST:g} %: there are regions that the sampler cannot enter"
            )
        if not self.energy_fmi >= ENERGY_FMI_LEAST:
            found.append(
                f"E-FMI = {below(self.energy_fmi, 2)}, which must be at least "
                f"{ENERGY_FMI_LEAST:g}: a chain explores the energies too slowly for its tails to "
                "be known"
            )
        return tuple(found)

    def notes(self, ess: float) -> tuple[str, ...]:
        """What is worth knowing though it does not refute the draws."""
        found = []
        if self.divergences and not self.diverges:
            found.append(f"{self.divergences} of {self.transitions} transitions diverged")
        unknown = self.unknown(ess)
        if unknown:
            found.append(take_quantiles([str(quantity) for quantity in unknown]))
        return tuple(found)


def take_quantiles(unknown: Sequence[str]) -> str:
    """What is said of quantities, the first of them named, whose moments no draws tell."""
    more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
    named = ", ".join(unknown[:MOST_NAMED])
    return f"not to be had from draws, take quantiles: {named}{more}"


def scalars(values: Mapping[str, NDArray], shape: tuple[int, ...]) -> dict[str, Array]:
    """Real values by name (chains · draws, *size) by chain, (chains, draws, *size) each."""
    real = {k: np.asarray(v) for k, v in values.items() if np.asarray(v).dtype.kind == "f"}
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in real.items()}


def unknown_moments(
    values: Mapping[str, Array], ess: float, labels: Labels = numbered
) -> tuple[Heavy, ...]:
    """Quantities whose sd, or mean, is not to be had from draws, of those that a user reads.

    Weights are judged on the unconstrained space: exp(x) may have no variance where x has all
    moments. Nothing is said of fewer than `DRAWS_FOR_TAIL` draws.

    Parameters
    ----------
    values
        By name, (chains, draws, *shape); of real numbers.
    ess
        Effective draws asked for: an sd known to 1/√ess of itself is known.
    labels
        Names of the elements of arrays.
    """
    columns, names = _columns({k: v for k, v in values.items() if v.dtype.kind == "f"}, labels)
    if not columns or np.prod(columns[0].shape[:2]) < DRAWS_FOR_TAIL:
        return ()
    quantities = np.concatenate(columns, axis=-1)
    heavy = np.flatnonzero(_khat_of_squares(quantities) >= NO_VARIANCE)
    if not len(heavy):
        return ()
    return Diagnostics.of(quantities[..., heavy], [names[i] for i in heavy], {}).unknown(ess)


def _worst(
    names: Sequence[str], effective: Array, errors: Array, rhat: Array
) -> frozenset[str] | None:
    """What lacks draws most, by ESS and error of the sd, and what disagrees most."""
    if len(rhat) < 4 * WATCHED:
        return None
    short = np.maximum(1 / np.maximum(effective, 1.0), errors**2)
    ranked = (np.argsort(-np.nan_to_num(x, nan=np.inf))[:WATCHED] for x in (short, rhat))
    return frozenset(names[i] for order in ranked for i in order)


def _once(values: Array, coordinates: int) -> list[int]:
    """Places of values (chains, draws, K) without those that are one of the first ``coordinates``
    again, as parameters without bounds are."""
    first = {value: i for i, value in enumerate(values[0, 0, :coordinates])}
    twins = ((k, first.get(values[0, 0, k])) for k in range(coordinates, values.shape[-1]))
    again = {
        k for k, i in twins if i is not None and np.array_equal(values[..., k], values[..., i])
    }
    return [k for k in range(values.shape[-1]) if k not in again]


def _columns(values: Mapping[str, Array], labels: Labels) -> tuple[list[Array], list[str]]:
    """Those that are always finite of values (chains, draws, *shape), as (chains, draws, K) a name,
    and their names."""
    columns, names = list[Array](), list[str]()
    for name, value in values.items():
        flat = value.reshape(*value.shape[:2], -1)
        defined = np.isfinite(flat).all(axis=(0, 1))
        columns.append(flat[..., defined])
        every = labels(name, value.shape[2:])
        names += [every[i] for i in np.flatnonzero(defined)]
    return columns, names


def _khat_of_squares(quantities: Array) -> Array:
    """k̂ of (x − m)² of each quantity, (chains, draws, K) -> (K,); −∞ of a constant, and of what is
    not always finite, which R̂ and ESS refuse."""
    x = quantities.reshape(-1, quantities.shape[-1]).T
    x = np.where(np.isfinite(x).all(axis=1, keepdims=True), x, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # of draws of 1e308
        apart = np.abs(x - x.mean(axis=1, keepdims=True))
        varies = apart.max(axis=1) > 0
        khat = np.full(len(x), -np.inf)
        khat[varies] = tail_khat(2 * np.log(apart[varies]))
    return khat
