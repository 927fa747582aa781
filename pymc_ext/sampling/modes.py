"""Modes outside a q: looked for before chains start from its draws, and whether these saw them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit, softmax

from pymc_ext.density import CountedDensity, Density
from pymc_ext.density.coordinates import as_transport
from pymc_ext.maths.types import Array
from pymc_ext.sampling.result import Sampled
from pymc_ext.variational.core.posterior import FRESH_DRAWS, Posterior
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.missed.missed_mass import (
    ONE_MODE,
    SEARCHED,
    Basin,
    MissedMass,
    mass_outside,
)
from pymc_ext.variational.missed.outside import edge_of
from pymc_ext.variational.missed.shoulders import moments_beside

SELDOM = 0.1  # of the draws that a basin is worth: a bound from a rough Gaussian is no closer


def modes_outside(density: Density, q: Posterior, random_seed: int | None) -> MissedMass | None:
    """Search from dispersed starts, as before a verdict; see `missed_mass`.

    Outside q, whatever a proposal beside it covers, as chains start from q alone. None where no
    draw of q has a finite log p̃, so that there is nothing to compare with.
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
    weights = softmax(log_ratios)
    shoulders = moments_beside(theta, weights, fresh.khat, fresh.ess / fresh.draws)
    return mass_outside(
        counted, theta, log_p, log_density, fresh.log_marginal_is, rng, as_transport(q), shoulders
    )


def through_modes(
    found: Sampled, modes: MissedMass | None, seed: int | None, q: Posterior | None = None
) -> Sampled:
    """The answer of chains that started in q and in ``modes``, with what these make of it.

    A doubt where chains have hardly been in one, or in q, or where all together are not to be
    trusted; else a note.
    """
    if modes is None or not modes.matters:
        return found
    said = f"beside the approximation there is {modes.mode}; chains were started there too"
    doubts: tuple[str, ...] = ()
    if not found.trusted and modes.has_modes:
        doubts = (
            f"{said}, but the draws of all together did not pass, so that what each mode is worth "
            f"is not known: {ONE_MODE}, or compare the chains",
        )
    elif found.trusted:
        doubts = left_behind(modes, found.theta.reshape(-1, found.theta.shape[-1]), seed, q)
    if doubts:
        return found.missing(doubts)
    return replace(found, notes=(*found.notes, said))


def left_behind(
    modes: MissedMass,
    theta: Array,
    seed: int | None,
    q: Posterior | None = None,
    copies: int = 1,
) -> tuple[str, ...]:
    """A sentence where chains have hardly a draw (N, D) in a mode that is known, that of q too.

    ``copies`` are the images of q's mode, itself with them, known or not.

    Chains that start there and all drift to one mode agree: R̂ then says nothing of the others.
    """
    rng = np.random.default_rng(None if seed is None else [seed, 3])
    counting = [basin for basin in modes.basins if basin.matters]
    masses = np.array([basin.share for basin in counting])
    shares = masses / max(1 + masses.sum(), copies)
    unseen = [
        basin
        for basin, share in zip(counting, shares, strict=True)
        if not is_visited(basin, theta, rng, share)
    ]
    if unseen:
        missed = replace(modes, basins=tuple(unseen))
        advice = f"; {ONE_MODE}" if missed.has_modes else ""
        return (f"there is mass that chains hardly visited: {missed.mode}{advice}",)
    log_density = getattr(q, "log_density", None)
    if log_density is not None and counting:
        with np.errstate(all="ignore"):
            elsewhere = np.max([basin.q.log_density(theta) for basin in counting], axis=0)
            of_q = np.mean(log_density(theta) >= elsewhere)
        if not of_q >= SELDOM * (1 - shares.sum()):
            most = np.argsort(-np.abs(theta.mean(axis=0) - modes.mean) / modes.std)[:3]
            where = ", ".join(f"{modes.names[i]} = {modes.mean[i]:.3g}" for i in most)
            return (
                "there is mass that chains hardly visited: that of the approximation, around "
                f"{where}; {ONE_MODE}",
            )
    return ()


def is_visited(
    basin: Basin, theta: Array, rng: np.random.Generator, share: float | None = None
) -> bool:
    """Whether as many draws (N, D) lie in a basin as its ``share`` asks for, but for a factor of
    ten; by default the share of it and of what q covers."""
    own = basin.q.forward(rng.standard_normal((SEARCHED, theta.shape[1])))[1]
    inside = np.mean(basin.q.log_density(theta) >= edge_of(own))
    return bool(inside >= SELDOM * (expit(basin.log_ratio) if share is None else share))
