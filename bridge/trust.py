"""What an answer must pass before it is trusted: a search for missed mass, and NUTS's own signs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bridge.measures.evidence import log_evidence
from bridge.methods.method import Fit
from bridge.targets.draws import group_names
from bridge.targets.target import Target
from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import Labels, value_names
from pymc_ext.maths.types import Array
from pymc_ext.sampling.attempts import DIVERGENT_CONDEMNS
from pymc_ext.sampling.diagnostics import RHAT_AGREES
from pymc_ext.sampling.modes import is_visited, left_behind
from pymc_ext.sampling.progress import now
from pymc_ext.sampling.tails import advised, tails_not_reached
from pymc_ext.variational.gaussian.missed_mass import (
    NEGLIGIBLE,
    SEARCHED,
    MissedMass,
    mass_outside,
)
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.reach import is_of_all, missed_in_scans

if TYPE_CHECKING:
    from bridge.targets.draws import InferenceData
    from pymc_ext.variational.hierarchical.law import LawAlong

__all__ = [
    "doubts_of_nuts",
    "missed",
    "missed_by_chains",
    "not_visited",
    "open_end",
    "short_tails",
]

FEWEST_EFFECTIVE = 100  # bulk draws of a quantity below which a mean is not known to .1 sd
MOST_FOR_MASS = 4_000  # draws by which bridge sampling knows a mass to some percent


def missed(found: Fit, log_z: float, seed: int) -> tuple[MissedMass | None, int]:
    """What mass the paths find outside an approximation, None where it does not matter; and the
    gradients that they took.

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
    result = mass_outside(density, theta, found.lp.ravel(), log_q, log_z, rng, found.transport)
    return result if result.matters else None, result.gradients


def forgotten(found: Fit, modes: MissedMass, seed: int) -> MissedMass | None:
    """Of modes known from before, each worth 1 % at least, those that an approximation has hardly a
    draw in: its own search, from other starts, need not meet a narrow one again.

    What each is worth is known beside an earlier approximation only, of one mode of many perhaps.
    """
    rng = np.random.default_rng([seed, 5])
    theta = found.theta.reshape(-1, found.theta.shape[-1])
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
        sd = np.sqrt(w @ (theta - w @ theta) ** 2)
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


def missed_by_chains(found: Fit, seed: int) -> tuple[MissedMass | None, int]:
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
    if not unseen:
        return None, result.gradients
    return replace(result, basins=tuple(unseen), covered="the draws cover"), result.gradients


def not_visited(
    modes: MissedMass, target: Target, idata: InferenceData, seed: int
) -> tuple[str, ...]:
    """:func:`left_behind` of constrained draws."""
    posterior = idata["posterior"]
    flat = {
        str(name): np.asarray(posterior[name]).reshape(-1, *posterior[name].shape[2:])
        for name in posterior.data_vars
        if str(name) in target.parameter_names
    }
    return left_behind(modes, np.asarray(target.unconstrain(flat)), seed)


def doubts_of_nuts(idata: InferenceData, labels: Labels | None = None) -> tuple[str, ...]:
    """Why the draws of NUTS are not to be trusted, one sentence each; nothing where they are.

    Parameters
    ----------
    idata
        The draws.
    labels
        Names of the elements of arrays; None: ArviZ's, by coords or indices from 0.
    """
    import arviz as az

    doubts = []
    posterior = idata["posterior"]
    generated = json.loads(posterior.attrs.get("generated_quantities", "[]"))  # no parameters
    names = [str(name) for name in posterior.data_vars if name not in generated]
    summary = az.summary(idata, var_names=names, kind="diagnostics", round_to="none")
    rows = [str(row) for row in summary.index]
    if labels is not None:
        rows = [row for name in names for row in labels(name, posterior[name].shape[2:])]
    rhat = np.asarray(summary["r_hat"], dtype=float)
    bulk = np.asarray(summary["ess_bulk"], dtype=float)
    known = np.isfinite(rhat)  # constants, as a Cholesky factor's zeros, have none
    if known.any():
        worst = int(np.argmax(np.where(known, rhat, -np.inf)))
        if rhat[worst] > RHAT_AGREES:
            doubts.append(f"the chains disagree about {rows[worst]}: R̂ {rhat[worst]:.2f}")
        fewest = int(np.argmin(np.where(known, bulk, np.inf)))
        if bulk[fewest] < FEWEST_EFFECTIVE:
            doubts.append(f"{bulk[fewest]:.0f} effective draws of {rows[fewest]}")
    # steps of discrete variables do not diverge, and those of Gibbs have no statistics at all
    statistics = idata["sample_stats"] if "sample_stats" in group_names(idata) else {}
    diverging = np.asarray(statistics["diverging"]) if "diverging" in statistics else np.zeros(1)
    if diverging.mean() > DIVERGENT_CONDEMNS:
        doubts.append(f"{int(diverging.sum())} of {diverging.size} transitions diverged")
    return tuple(doubts)
