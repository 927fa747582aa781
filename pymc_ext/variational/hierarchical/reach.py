"""A proposal beside the map that reaches the tails of what governs others' scales.

Draws of q know nothing of a neck that q lacks: its weights look well, and the sd of a log scale is
a fifth too small. Laws by Laplace's method along the governors (:mod:`.nested`) know it, and are
too rough in the bulk: half of the proposal's draws are q's, the others theirs, so that no weight is
more than twice what q gives, nor more than a few times what they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.defensive import DefensiveMixture, DrawnAgain
from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.core.posterior import Posterior, fresh_draws
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.weights import KHAT_USABLE
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.nested import NestedLaplace, nested_laplace
from pymc_ext.variational.hierarchical.slices import governors_of

MOST_DIMENSIONS, MOST_GOVERNORS = 100, 2  # a Hessian at each place takes 2 D scores
# Share of the law's sd below which a proposal has to reach further: sds are to be known to a
# twentieth, the error of a mean of 400 draws.
NEARLY = 0.95


def laws_of_governors(
    density: CountedDensity, q: HierarchicalMap, theta: Array
) -> tuple[NestedLaplace, ...]:
    """Along what governs most, around draws ``theta`` (N, D); none beyond 100 dimensions."""
    if q.dimension > MOST_DIMENSIONS:
        return ()
    along = (int(q.order[place]) for place in governors_of(q)[:MOST_GOVERNORS])
    found = (nested_laplace(density, theta, j, q.order) for j in along)
    return tuple(law for law in found if law is not None)


@dataclass(frozen=True)
class Reached:
    """What weights are of.

    Parameters
    ----------
    laws
        Along governors; None where they were not looked for, or not to the end.
    proposal, fresh
        Beside q and how its own draws judge it; None where q serves.
    """

    laws: tuple[NestedLaplace, ...] | None = None
    proposal: Posterior | None = None
    fresh: FreshDraws | None = None


def reaching(
    q: HierarchicalMap,
    density: CountedDensity,
    fresh: FreshDraws,
    proposal: DefensiveMixture | None,
    fresh_proposal: FreshDraws | None,
    seed: int | None,
) -> Reached:
    """``proposal``, or with laws of governors where these reach further or weights do not serve.

    Parameters
    ----------
    q, density
        The map, and log p̃.
    fresh, proposal, fresh_proposal
        How q is judged, and what was found for its heavy tails, as `defended` gives them.
    seed
        Of the fit.
    """
    weighted, judged = proposal or q, fresh_proposal or fresh
    if judged.ess == 0:  # no draw has a weight
        return Reached(None, proposal, fresh_proposal)
    drawn = DrawnAgain(weighted, judged)
    theta, w = np.concatenate(list(drawn.theta())), drawn.weights
    laws = laws_of_governors(density, q, theta)
    mean = w @ theta
    sd = np.sqrt(w @ (theta - mean) ** 2)
    short = any(sd[law.j] < NEARLY * law.sd_along for law in laws)
    if not laws or not (short or judged.khat > KHAT_USABLE):
        return Reached(laws, proposal, fresh_proposal)
    shares = np.array([0.5, *[0.5 / len(laws)] * len(laws)])
    mixture = PosteriorMixture(np.log(shares), (weighted, *laws))
    found = fresh_draws(mixture, density, stream(seed, Purpose.NECKS))
    if short or found.khat < judged.khat:  # of what q lacks its own draws know nothing
        return Reached(laws, mixture, found)
    return Reached(laws, proposal, fresh_proposal)
