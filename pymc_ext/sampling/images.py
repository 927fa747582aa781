"""Modes that are images of one: chains in that one, and an image at random of each draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from pymc_ext.density import CountedDensity, TransportMap
from pymc_ext.sampling.modes import left_behind
from pymc_ext.sampling.result import Sampled
from pymc_ext.sampling.symmetry import Named, Symmetry
from pymc_ext.sampling.symmetry_search import find_symmetry
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.missed.missed_mass import SEARCHED, Basin, MissedMass
from pymc_ext.variational.missed.outside import Misses, edge_of

__all__ = ["Images", "images_among"]

BROKEN = (
    "log p̃ is the same for other orders of labels, or signs, around one mode, not at all draws: "
    "the other modes are no images of that one"
)


@dataclass(frozen=True)
class Images:
    """What is left to sample where modes are images of one.

    Parameters
    ----------
    symmetry
        The changes that make them.
    modes
        All that are known.
    others
        Modes that are none, each in the order of labels of the one.
    """

    symmetry: Symmetry
    modes: MissedMass
    others: MissedMass

    def of_all(self, found: Sampled, seed: int) -> Sampled:
        """The answer of chains in one mode, each draw with an image at random."""
        theta = found.theta
        rng = np.random.default_rng([seed, 5])
        flat = self.symmetry.at_random(theta.reshape(-1, theta.shape[-1]), rng)
        if not self.symmetry.is_kept(flat, found.lp.ravel()):
            return found.missing([BROKEN])
        if found.trusted:
            copies = self.symmetry.order
            found = found.missing(left_behind(self.modes, flat, seed, copies=copies))
        said = f"chains are judged in one mode; {self.symmetry.sentence}"
        return replace(found, theta=flat.reshape(theta.shape), notes=(*found.notes, said))


def images_among(modes: MissedMass, target: Named, basin: TransportMap, seed: int) -> Images | None:
    """Which known modes are images of the one that ``basin`` covers; None where none is.

    Parameters
    ----------
    modes
        Outside q.
    target
        The posterior.
    basin
        q of one mode, with its log density.
    seed
        Of q's draws.
    """
    log_density = getattr(basin, "log_density", None)
    if log_density is None or not hasattr(basin, "inverse"):
        return None
    rng = np.random.default_rng([seed, 4])
    theta, log_q = basin.forward(rng.standard_normal((SEARCHED, basin.latent_dimension)))
    symmetry = find_symmetry(target, theta, np.array([mode.q.mean for mode in modes.basins]))
    if symmetry is None:
        return None
    with np.errstate(all="ignore"):
        log_ratios = target.log_density(theta) - log_q
    log_z = float(logsumexp(log_ratios[np.isfinite(log_ratios)]) - np.log(len(log_ratios)))
    missed = Misses(
        CountedDensity(target.density), log_density, edge_of(log_q), log_z,
        theta.mean(axis=0), theta.std(axis=0),
    )  # fmt: skip
    others = list[Basin]()
    for mode in modes.basins:
        points = mode.q.forward(rng.standard_normal((SEARCHED, mode.q.latent_dimension)))[0]
        points = symmetry.one_order(points)
        if missed(points):  # outside q, or a spike inside it
            others.append(replace(mode, q=Gaussian.of_draws(points)))
    if len(others) == len(modes.basins):
        return None
    return Images(symmetry, modes, replace(modes, basins=tuple(others)))
