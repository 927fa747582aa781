"""Fits under an improper posterior: the ELBO rises for ever, or does not depend on a mean."""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.seeds import Purpose, stream


class RunawayError(ValueError):
    """q widened, moved or shrank without end: the posterior looks improper or unbounded."""


class EndlessError(RunawayError):
    """log p̃ never falls in some direction: the posterior is improper, and no draws are of it."""


RESCALE = (  # the other remedy: coordinates in raw units, which are no fault of the priors
    "or, where numbers of this size are meant, let these coordinates be of order 1: in Stan "
    "declare real<offset=M, multiplier=S> with their rough mean and sd, in PyMC divide the data"
)
POINT = (  # the density of equal rows about their mean rises as the sd of their noise falls to zero
    "the posterior is unbounded at that point, as where rows that are all equal have a noise that "
    "may vanish: give the scale of that noise a prior that keeps it from zero, or the data a noise "
    "of their rounding"
)
ABSURD = 1e10  # of the unit base, by which a free coordinate's mean or sd, or 1/sd, may differ
ABSURD_LOG = 100.0  # the same for coordinates that are logarithms or logits of bounded variables
DRAWS = 64  # enough to tell such numbers
PROBES, FAR = 2, 1e6  # draws moved along a coordinate, and by how many sd: a vague prior shows
FARTHEST = 1e100  # of what is probed: a q that ran away has sds near the largest number there is
# Change of log p̃ over one sd, by its score, from which a coordinate is not flat and need not be
# moved: hardly one in 10⁶ has less at both draws of a fitted q.
STEEP = 1e-3


def refuse_runaway(q: Posterior, density: CountedDensity, random_seed: int | None) -> None:
    """Raise `RunawayError` where q, started at a unit scale, ended at an absurd location or scale.

    `EndlessError` where log p̃ is constant along a coordinate: a family that leaves q's scale as it
    was has nothing that could run away.
    """
    names = density.unconstrained_names
    rng = stream(random_seed, Purpose.FRESH)
    with np.errstate(all="ignore"):  # a scale that ran away to the largest number there is
        theta, _ = q.forward(rng.standard_normal((DRAWS, q.latent_dimension)))
    _refuse_flat(density, density.value_names, theta)
    with np.errstate(all="ignore"):
        location, sd = np.abs(theta.mean(axis=0)), theta.std(axis=0)
        size = np.maximum(location, sd)
        absurd = ~(size < ABSURD) | (sd < 1 / ABSURD)
        large = ~(size < ABSURD_LOG)
        if large.any():
            absurd |= large & np.isin(names, density.bounded_names)
    if absurd.any():
        i, shown = int(np.argmax(absurd)), density.value_names
        said = "the posterior is improper or unbounded there: give these variables proper priors"
        raise RunawayError(
            f"the ELBO kept rising along {[shown[i] for i in np.flatnonzero(absurd)]}: "
            f"{shown[i]} has mean about {theta[:, i].mean():.3g} and sd {sd[i]:.3g}; "
            f"{POINT if sd[i] < 1 / ABSURD else said}; {RESCALE}"
        )


def _refuse_flat(density: CountedDensity, names: list[str], theta: Array) -> None:
    with np.errstate(all="ignore"):
        probes = np.clip(theta[:PROBES], -FARTHEST, FARTHEST)
        # a q that shrank to a point would not leave it
        sd = np.clip(theta.std(axis=0), 1 / ABSURD, FARTHEST)
        before, scores = density.log_density_gradient(probes)
        steep = np.any(np.abs(scores) * sd > STEEP, axis=0)
    if not np.isfinite(before).all():  # outside the support nothing depends on anything
        return

    def stays(i: np.integer, distance: float) -> bool:
        moved = probes.copy()
        moved[:, i] += distance
        with np.errstate(all="ignore"):
            return np.array_equal(density.log_density(moved), before)

    flat = [i for i in np.flatnonzero(~steep) if stays(i, FAR * sd[i])]
    if flat:
        endless = [i for i in flat if stays(i, FARTHEST)]
        error = EndlessError if endless else RunawayError
        raise error(
            f"log p̃ does not depend on {[names[i] for i in endless or flat]}: the posterior is "
            "improper there; give these variables proper priors"
        )
