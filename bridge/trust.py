"""What an answer must pass before it is trusted, beside its weights: what it may miss."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bridge.attempt import Attempt
from bridge.measures.evidence import log_evidence
from bridge.measures.khat import pareto_khat
from bridge.measures.limits import KHAT_GOOD
from bridge.methods.method import Fit
from bridge.targets.target import Target
from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.sampling.modes import is_visited, left_behind
from pymc_ext.sampling.progress import now
from pymc_ext.sampling.tails import advised, tails_not_reached
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.core.weights import ESS_SHARE_ENOUGH, weighted_moments
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.reach import is_of_all, missed_in_scans
from pymc_ext.variational.missed.missed_mass import (
    NEGLIGIBLE,
    SEARCHED,
    MissedMass,
    mass_outside,
)
from pymc_ext.variational.missed.shoulders import moments_beside

if TYPE_CHECKING:
    from bridge.targets.draws import InferenceData
    from pymc_ext.variational.core.posterior import Posterior
    from pymc_ext.variational.hierarchical.law import LawAlong

__all__ = [
    "missed",
    "missed_by_chains",
    "not_visited",
    "of_several_modes",
    "open_end",
    "short_tails",
]

MOST_FOR_MASS = 4_000  # draws by which bridge sampling knows a mass to 1/√4,000, 1.6 % at best


def missed(found: Fit, log_z: float, seed: int) -> MissedMass:
    """What mass the paths find outside an approximation, whether it matters or not.

    Parameters
    ----------
    found
        The approximation, with its draws.
    log_z
        log of the mass that it covers.
    seed
        Of the search.
    """
    now("looking for mass outside the approximation")
    theta = found.theta.reshape(-1, found.theta.shape[-1])
    # weights are of the proposal: its log density tells what they miss, where it is known anywhere
    log_q = found.log_q
    if found.proposal is not None and found.proposal.log_q is not None:
        log_q = found.proposal.log_q
    density = CountedDensity(found.target.density)
    rng = np.random.default_rng([seed, 2])
    return mass_outside(
        density, theta, found.lp.ravel(), log_q, log_z, rng, found.transport,
        shoulders=_beside_shoulders(found),
    )  # fmt: skip


def _beside_shoulders(found: Fit) -> tuple[Array, Array] | None:
    """Mean and sds by the weights that an approximation is judged by, where these are such that it
    may miss a shoulder."""
    draws = found.weighted
    if draws is None or draws.lq is None:
        return None
    k = pareto_khat(draws.lp.ravel(), draws.lq.ravel())
    if k.weights is None:
        return None
    theta = draws.theta.reshape(-1, draws.theta.shape[-1])
    return moments_beside(theta, k.weights.ravel(), k.value, k.ess / k.draws)


def forgotten(found: Fit, modes: MissedMass, seed: int) -> MissedMass | None:
    """Of modes known from before, each worth 1 % at least, those that an approximation has hardly a
    draw in: its own search, from other starts, need not meet a narrow one again.

    What each is worth is known beside an earlier approximation only, of one mode of many perhaps.
    """
    rng = np.random.default_rng([seed, 5])
    theta = found.at_random(found.theta.reshape(-1, found.theta.shape[-1]), seed)
    left = [
        basin
        for basin in modes.basins
        if basin.log_ratio > np.log(NEGLIGIBLE) and not is_visited(basin, theta, rng, NEGLIGIBLE)
    ]
    return replace(modes, basins=tuple(left)) if left else None


def short_tails(
    found: Fit, weights: Array | None, law: LawAlong | None, seed: int
) -> tuple[tuple[str, ...], int]:
    """Tails of what governs others' scales which weighted draws miss, in a sentence at most; and
    the gradients that the look took.

    Those along a ``law`` that another fit has found, or along governors of this map that its own
    law is not along, and what lies beyond the end of its own.
    """
    if weights is None or found.weighted is None:
        return (), 0
    theta, w = found.weighted.theta.reshape(-1, found.theta.shape[-1]), weights.ravel()
    w = w / w.sum()
    density = CountedDensity(found.target.density)
    own = found.law or law
    if own is not None and (found.law is None or own.open_ends):
        sd = weighted_moments(theta, w)[1]
        return tails_not_reached(own, sd, value_names(density)), 0
    if not isinstance(found.transport, HierarchicalMap) or is_of_all(found.law, found.transport):
        return (), 0
    drawn = theta[np.random.default_rng([seed, 4]).choice(len(w), size=MOST_FOR_MASS, p=w)]
    return advised(missed_in_scans(density, found.transport, drawn)), density.gradients


def open_end(found: Fit, weights: Array | None) -> str | None:
    """What lies beyond the end of the fit's own law, in a sentence; None where it has no such end.

    Chains are held to that law as weights are, so that no draws of theirs would be trusted.
    """
    if found.law is None or not found.law.open_ends:
        return None
    return next(iter(short_tails(found, weights, None, seed=0)[0]), None)


def of_several_modes(attempt: Attempt, has_proposal: bool, weights: Array | None) -> Attempt:
    """An attempt at several modes, held to k̂ < .5 where it has no proposal with heavier tails.

    Beside one mode's fit there is such a proposal from there on. A mixture of two normals whose
    labels are free was trusted with k̂ .55 and sds of .76 of the true ones: no draw was where one
    component has hardly a row and follows its prior, which 1 % of the mass does. Weights that
    hardly differ leave no such room.
    """
    if not attempt.good or has_proposal or weights is None or attempt.khat < KHAT_GOOD:
        return attempt
    w = weights.ravel()
    if 1 / (w.size * float(w @ w)) >= ESS_SHARE_ENOUGH:
        return attempt
    why = f"k̂ = {attempt.khat:.2f} >= {KHAT_GOOD:g}, with no proposal of heavier tails"
    check = Check("weights", False, f"{why} for several modes", attempt.khat, KHAT_GOOD)
    return attempt.judged(check)


def missed_by_chains(found: Fit, seed: int) -> MissedMass:
    """The same of what a sampler drew: modes that its chains have visited far too seldom.

    Paths start around the Gaussian of the draws' moments, and the mass that chains cover is known
    by bridge sampling. A basin outside that Gaussian counts where fewer draws lie in it than a
    tenth of what it is worth: the neck of a funnel is outside, and visited.

    Parameters
    ----------
    found
        What was drawn, of several chains.
    seed
        Of the search.

    Raises
    ------
    ValueError
        The draws do not tell the mass that they cover: too few, or constant in a coordinate.
    """
    chains, length = found.theta.shape[:2]
    step = max(1, chains * length // MOST_FOR_MASS)
    evidence = log_evidence(found.target, found.theta[:, ::step], seed, swap=False)
    if not np.isfinite(evidence.value):
        raise ValueError(f"the mass that the draws cover is not known: {evidence.reason}")
    density, rng = CountedDensity(found.target.density), np.random.default_rng([seed, 2])
    theta = rng.permutation(found.theta.reshape(chains * length, -1))[:SEARCHED]
    log_p = found.target.log_density(theta)
    result = mass_outside(density, theta, log_p, None, evidence.value, rng)
    unseen = [
        basin for basin in result.basins if basin.matters and not is_visited(basin, theta, rng)
    ]
    return replace(result, basins=tuple(unseen), covered="the draws cover")


def not_visited(
    modes: MissedMass, target: Target, idata: InferenceData, seed: int, q: Posterior | None = None
) -> tuple[str, ...]:
    """:func:`left_behind` of constrained draws."""
    posterior = idata["posterior"]
    flat = {
        str(name): np.asarray(posterior[name]).reshape(-1, *posterior[name].shape[2:])
        for name in posterior.data_vars
        if str(name) in target.parameter_names
    }
    return left_behind(modes, np.asarray(target.unconstrain(flat)), seed, q)
