"""Quantities whose tails are so heavy that draws do not tell their sd, or not even their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pymc_ext.density.protocol import Labels, numbered
from pymc_ext.maths.convergence import sd_error
from pymc_ext.maths.psis import FEWEST_TAIL, tail_khat
from pymc_ext.maths.types import Array
from pymc_ext.sampling.quantities import columns_of
from pymc_ext.variational.core.weights import KHAT_USABLE

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

MOST_NAMED = 5  # quantities in one note


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
        Of (x − m)², twice that of x − m: from 1 on the sd itself is infinite, if the tail goes on
        as it is among these draws, and the mean has no standard error; from `NO_MEAN` on draws do
        not tell the mean either.
    """

    name: str
    sd_error: float
    khat: float

    def __str__(self) -> str:
        if np.isinf(self.khat):
            return f"mean and sd of {self.name} (a few draws hold its variance)"
        if self.khat >= NO_MEAN:
            return f"mean and sd of {self.name} (tail k̂ {self.khat:.2f})"
        infinite = ": infinite, unless it ends beyond these draws" if self.khat >= NO_SD else ""
        return f"sd of {self.name} (tail k̂ {self.khat:.2f}{infinite})"


def heavy_among(names: Sequence[str], errors: Array, khat: Array) -> tuple[Heavy, ...]:
    """Those without a variance, by errors of sds (K,) and k̂ of squares (K,).

    A name is one quantity, as a density's coordinates are its constrained values too.
    """
    found = {
        names[i]: Heavy(names[i], float(errors[i]), float(khat[i]))
        for i in map(int, np.flatnonzero(khat >= NO_VARIANCE))
    }
    return tuple(found.values())


def not_told(heavy: Sequence[Heavy], ess: float) -> tuple[Heavy, ...]:
    """Whose sd is not known to 1/√``ess`` of itself, by what the draws say."""
    return tuple(q for q in heavy if not q.sd_error <= 1 / np.sqrt(ess))


def unknown_moments(
    values: Mapping[str, Array], ess: float, labels: Labels = numbered
) -> tuple[Heavy, ...]:
    """Quantities whose sd, or mean, draws do not tell, of those that a user reads.

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
    real = {k: v for k, v in values.items() if v.dtype.kind == "f"}
    columns, names = columns_of(real, labels)
    if not columns or np.prod(columns[0].shape[:2]) < DRAWS_FOR_TAIL:
        return ()
    quantities = np.concatenate(columns, axis=-1)
    khat = khat_of_squares(quantities)
    heavy = np.flatnonzero(khat >= NO_VARIANCE)
    if not len(heavy):
        return ()
    errors = sd_error(quantities[..., heavy])
    return not_told(heavy_among([names[i] for i in heavy], errors, khat[heavy]), ess)


def take_quantiles(unknown: Sequence[str]) -> str:
    """What is said of quantities, the first of them named, whose moments no draws tell."""
    more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
    named = ", ".join(unknown[:MOST_NAMED])
    return f"not told by these draws, take quantiles: {named}{more}"


def khat_of_squares(quantities: Array) -> Array:
    """k̂ of (x − m)² of each quantity, (chains, draws, K) -> (K,).

    −∞ of a constant, of what is not always finite, which R̂ and ESS refuse, and of a tail of a few
    values, as of counts, or of a chain that is stuck, which these refuse too: that is no long tail.
    ∞ of one so long that fewer draws than a tail must have hold the variance.
    """
    x = quantities.reshape(-1, quantities.shape[-1]).T
    x = np.where(np.isfinite(x).all(axis=1, keepdims=True), x, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # of draws of 1e308
        apart = np.abs(x - x.mean(axis=1, keepdims=True))
        varies = apart.max(axis=1) > 0
        apart = apart[varies]
        found = tail_khat(2 * np.log(apart))
        held = (apart / apart.max(axis=1, keepdims=True)) ** 2
        fits = np.isfinite(found) | ~(held.sum(axis=1) > FEWEST_TAIL)
    khat = np.full(len(x), -np.inf)
    khat[varies] = np.where(fits, found, -np.inf)
    for i in np.flatnonzero(khat >= NO_VARIANCE):
        if len(np.unique(x[i])) <= FEWEST_TAIL:  # such as a state, most often the same
            khat[i] = -np.inf
    return khat
