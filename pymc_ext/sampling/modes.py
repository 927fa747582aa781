"""Modes outside a q, looked for before chains start from its draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity, Density
from pymc_ext.density.protocol import coordinate_names
from pymc_ext.variational.core.posterior import FRESH_DRAWS, Posterior
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.missed_mass import mass_outside

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Modes:
    """What the paths found.

    Parameters
    ----------
    places
        Middles of modes beyond 1 % of the mass that q covers, the heaviest's first, unconstrained,
        (M, D).
    mode
        Where the heaviest is and how much it is worth, in words; None where there is none.
    gradients
        What the search cost.
    """

    places: Array
    mode: str | None
    gradients: int


def modes_outside(density: Density, q: Posterior, random_seed: int | None) -> Modes:
    """Search from dispersed starts, as before a verdict; see `missed_mass`.

    A q of whose draws none has a finite log p̃ leaves nothing to compare with: none are found.
    """
    counted, rng = CountedDensity(density), stream(random_seed, Purpose.SEARCH)
    none = np.empty((0, density.dimension))
    theta, log_q = q.forward(rng.standard_normal((FRESH_DRAWS, q.latent_dimension)))
    with np.errstate(all="ignore"):
        log_p = counted.log_density(theta)
        log_ratios = log_p - log_q
    log_ratios = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    fresh = FreshDraws.from_log_ratios(log_ratios)
    if fresh.ess == 0:
        return Modes(none, None, 0)
    log_density = getattr(q, "log_density", None)
    found = mass_outside(counted, theta, log_p, log_density, fresh.log_marginal_is, rng)
    if not found.matters:
        return Modes(none, None, found.gradients)
    mean, sd = theta.mean(axis=0), theta.std(axis=0)
    return Modes(found.places, found.mode(coordinate_names(density), mean, sd), found.gradients)
