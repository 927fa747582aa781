r"""What a map hides from chains in its coordinates: regions that chains in θ walk into.

A map may squeeze part of the posterior: a region a few sds off in θ is then hundreds of units away
in v, where no step that suits the bulk leads. R̂, ESS and divergences are of where chains have been,
and are good. Short chains in θ begin at the edge, at the draws where p exceeds q most. Behind them
lies what is hidden, and some walk into it; where nothing is, they come back, as p leads them.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity, TransportMap
from pymc_ext.maths.types import Array
from pymc_ext.sampling.blocks import Chains
from pymc_ext.variational.missed.descents import scales_of
from pymc_ext.variational.missed.shoulders import TRANSITIONS, wandered

CHAINS = 32  # short ones, of as many transitions and steps as those that look for shoulders
# A coordinate of v this many times as large as that of any draw, and chains that must have come to
# such a point: of one it may be the heaviest draw of a tail. Of 24 looks at a mixture in which a
# map hides 11 % of the mass three to eleven came there each time, of 48 at two models with heavy
# tails whose draws are right none or one.
FARTHER, LEAST = 2.0, 3


def hidden_by(
    density: CountedDensity, transport: TransportMap, chains: Chains, rng: np.random.Generator
) -> Array | None:
    """Where short chains in θ, from draws of ``chains`` in v, come to and these never were, (M, D).

    None where there is nothing of the kind, or ``transport`` has no inverse. Takes 4,128 scores.
    """
    points = chains.points.reshape(-1, density.dimension)
    inverse = getattr(transport, "inverse", None)
    if inverse is None or len(points) < CHAINS:
        return None
    theta, log_q = transport.forward(points)
    at_edge = np.argsort(log_q - chains.lp.ravel())[:CHAINS]
    walked = wandered(density, theta[at_edge], scales_of(theta), rng)
    with np.errstate(all="ignore"):
        v = inverse(walked)
        beyond = (np.abs(v) > FARTHER * np.abs(points).max(axis=0)).any(axis=1)
    come = beyond.reshape(TRANSITIONS, CHAINS).any(axis=0).sum()
    return walked[beyond] if come >= LEAST else None
