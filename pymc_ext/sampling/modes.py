"""Modes outside a q, looked for before chains start from its draws."""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity, Density
from pymc_ext.density.coordinates import as_transport
from pymc_ext.variational.core.posterior import FRESH_DRAWS, Posterior
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.missed_mass import MissedMass, mass_outside


def modes_outside(density: Density, q: Posterior, random_seed: int | None) -> MissedMass | None:
    """Search from dispersed starts, as before a verdict; see `missed_mass`.

    None where no draw of q has a finite log p̃, so that there is nothing to compare with.
    """
    counted, rng = CountedDensity(density), stream(random_seed, Purpose.SEARCH)
    theta, log_q = q.forward(rng.standard_normal((FRESH_DRAWS, q.latent_dimension)))
    with np.errstate(all="ignore"):
        log_p = counted.log_density(theta)
        log_ratios = log_p - log_q
    log_ratios = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    fresh = FreshDraws.from_log_ratios(log_ratios)
    if fresh.ess == 0:
        return None
    log_density = getattr(q, "log_density", None)
    along = as_transport(q)
    return mass_outside(counted, theta, log_p, log_density, fresh.log_marginal_is, rng, along)
