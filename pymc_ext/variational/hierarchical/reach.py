"""A proposal beside the map that reaches the tails of what governs others' scales.

Draws of q know nothing of a neck that q lacks: its weights look well, and the sd of a log scale is
a fifth too small. A law by Laplace's method along the governors (:mod:`.nested`) knows it, and may
be too rough in the bulk: half of the proposal's draws are q's, the others of that law, so that no
weight is more than twice what either gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.defensive import BULK_SHARE, DefensiveMixture, DrawnAgain
from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.core.posterior import Posterior, fresh_draws
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.weights import KHAT_GOOD, KHAT_USABLE, weighted_moments
from pymc_ext.variational.hierarchical.lattice import lattice_laplace
from pymc_ext.variational.hierarchical.law import LawAlong
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.maxima import (
    MOST_SHARED,
    coupled,
    quadratic_part,
    with_shifted_modes,
)
from pymc_ext.variational.hierarchical.nested import nested_laplace
from pymc_ext.variational.hierarchical.others import Coordinates
from pymc_ext.variational.hierarchical.scan import (
    Middle,
    conditional_sds,
    middle_of,
    scans_along,
)
from pymc_ext.variational.hierarchical.slices import governors_of
from pymc_ext.variational.ill_posed.endless import RAISED

MOST_DIMENSIONS = 300  # a maximum's Hessian is dense, and which of its entries are zero is looked
# for by 4 D scores; beyond, maps are sparse too
MOST_GOVERNORS = 3  # cells in a space of as many dimensions
MOST_LOOK = 1_000  # scores, a quarter of those of a fit
MOST_CROSSING = 5  # governors and correlations: three on a lattice, two that add up
# Share of the law's sd below which a proposal has to reach further: sds are to be known to a
# twentieth, the error of a mean of 400 draws.
NEARLY = 0.95
# Share that draws must have: on ten centred hierarchies of 12 groups the sd by Laplace's method
# along one governor was .97 to 1.13 of the exact one, and draws of less had sds 12 to 41 % too
# small.
LEAST_SD = 0.8
# Draws at which two governors are moved by so many sds each, and the nats by which both together
# may differ from the sum: levels of a hierarchy not centred multiply one another.
CROSSED, FARTHER, MOST_CROSS = 16, 4.0, 1.0
# Draws by which a law is judged, of which k̂ is known to .1; the worst of a hundred coordinates' own
# is large by chance, and four times as many tell.
JUDGED = 1_000, 4_000


def crossings(density: CountedDensity, theta: Array, along: Sequence[int]) -> NDArray[np.bool_]:
    """Which pairs of coordinates (G, G) have terms in log p̃ that do not add up, at draws
    ``theta`` (N, D) and far from these on both sides."""
    _, sds = middle_of(theta, along)
    step, at = FARTHER * np.diag(sds), theta[:CROSSED]
    found = np.zeros((len(along), len(along)), dtype=bool)

    def log_p(*moved: Array) -> Array:
        return density.log_density(at + np.sum(moved, axis=0))

    @np.errstate(all="ignore")
    def cross(j: int, k: int) -> bool:
        try:
            more = [
                log_p(u, v) - log_p(u) - log_p(v) + log_p(0 * u)
                for u, v in ((step[j], step[k]), (-step[j], -step[k]))
            ]
        except RAISED:  # such numbers are an error there: nothing is known of a sum
            return True
        return not np.median(np.abs(more), axis=1).max() < MOST_CROSS

    for a, b in combinations(range(len(along)), 2):
        found[a, b] = found[b, a] = cross(along[a], along[b])
    return found


def governors(q: HierarchicalMap, density: CountedDensity, theta: Array) -> list[int]:
    """Coordinates of θ that govern most, three at most, whose terms in log p̃ add up at draws
    ``theta`` (N, D); none beyond `MOST_DIMENSIONS`."""
    if q.dimension > MOST_DIMENSIONS:
        return []
    along = [int(q.order[place]) for place in governors_of(q)[:MOST_GOVERNORS]]
    crossing = crossings(density, theta, along)
    while crossing[: len(along), : len(along)][-1:].any():
        along.pop()
    return along


def joined(density: CountedDensity, start: Middle, theta: Array, along: list[int]) -> list[int]:
    """``along`` and what else has to be integrated out for a law, as a residual's sd, three at most
    whose terms add up; ``along`` where it would take more than `MOST_LOOK` scores to know."""
    others = start.maximum.others
    if 2 * min(MOST_SHARED, len(others)) * (2 * len(others.columns) + 1) > MOST_LOOK:
        return along
    shifted = with_shifted_modes(density, start.maximum).tolist()
    most = min(MOST_GOVERNORS - len(along), len(others) - 1)  # something has to be left to move
    more = along + shifted[:most]
    crossing = crossings(density, theta, more)
    while len(more) > len(along) and crossing[: len(more), : len(more)][-1].any():
        more.pop()
    return more


def law_of_crossing(density: CountedDensity, q: HierarchicalMap, theta: Array) -> LawAlong | None:
    """Along two or three governors whose terms do not add up, and as many that do: those of q, and
    what changes curvatures as a correlation of effects does. None where there are none, or more, or
    no law."""
    most = [int(q.order[place]) for place in governors_of(q)[:MOST_GOVERNORS]]
    if q.dimension > MOST_DIMENSIONS or not most:
        return None
    rest = _upwards(q, most)
    at, _ = middle_of(theta, most)
    others = coupled(density, np.array([at, theta[0]]), conditional_sds(theta, rest), rest)
    sds = conditional_sds(theta, others.places)
    tried: list[list[int]] = []
    for fewest in (0, 1):  # given scales the others may have a maximum for one correlation only
        kept = quadratic_part(density, at, sds, others, np.random.default_rng(0), fewest)
        along = most + [int(k) for k in others.places if k not in kept.places]
        if along in tried or len(along) > MOST_CROSSING:
            break
        tried.append(list(along))
        start = Middle.of(density, theta, along, kept)
        if start is None:
            continue
        shifted = with_shifted_modes(density, start.maximum).tolist()
        along += shifted
        if len(along) > MOST_CROSSING or len(shifted) == len(kept):  # nothing is left to move
            continue
        crossing = crossings(density, theta, along)
        _, group = connected_components(crossing, directed=False)
        together = group == np.argmax(np.bincount(group))
        if not 2 <= together.sum() <= MOST_GOVERNORS or crossing[~together].any():
            continue
        on_lattice = [j for j, own in zip(along, together, strict=True) if own]
        adding = [j for j, own in zip(along, together, strict=True) if not own]
        law = lattice_laplace(density, start.holding(shifted), on_lattice, adding)
        if law is not None:
            return law
    return None


def _upwards(q: HierarchicalMap, along: Sequence[int]) -> Coordinates:
    """All coordinates but ``along``, the governed before what governs them."""
    return np.array([k for k in q.order[::-1] if k not in along], dtype=int)


def law_of_governors(density: CountedDensity, q: HierarchicalMap, theta: Array) -> LawAlong | None:
    """Along what governs most, around draws ``theta`` (N, D): of three governors, or as many as
    the others have a maximum given them. None beyond `MOST_DIMENSIONS`."""
    along = governors(q, density, theta)
    while along:
        start = Middle.of(density, theta, along, _upwards(q, along))
        if start is not None:
            more = joined(density, start, theta, along)
            for count in range(len(more), len(along) - 1, -1):
                held = more[:count]
                law = nested_laplace(density, start.holding(held[len(along) :]), held)
                if law is not None:
                    return law
        along.pop()
    return None


def early_law(
    density: CountedDensity, q: HierarchicalMap, rng: np.random.Generator
) -> tuple[LawAlong | None, bool]:
    """The law, and whether its draws are good ones of p by themselves, and know every mean and sd:
    few weights tell that."""
    z = rng.standard_normal((JUDGED[0], q.latent_dimension))
    theta, _ = q.forward(z)

    def good_draws(law: LawAlong | None) -> Array | None:
        if law is None:
            return None
        for draws in JUDGED:
            fresh = fresh_draws(law, density, rng, draws)
            if not (fresh.khat < KHAT_GOOD and fresh.ess > BULK_SHARE * draws):
                return None
            drawn = DrawnAgain(law, fresh)
            if drawn.doubtful().worst < KHAT_USABLE:
                return _resampled(np.concatenate(list(drawn.theta())), drawn.weights)
        return None

    law, serves = None, False
    along = governors(q, density, theta)
    start = Middle.of(density, theta, along, _upwards(q, along)) if along else None
    if start is not None:
        law = nested_laplace(density, start, along)
        good = good_draws(law)
        if good is None:
            more = joined(density, start, theta, along)
            if len(more) > len(along):
                wider = nested_laplace(density, start.holding(more[len(along) :]), more)
                good, law = good_draws(wider), wider or law
        if good is not None:
            theta, serves = good, True
    if not is_of_all(law, q) and not has_spread(density, q, theta):
        crossed = law_of_crossing(density, q, theta)
        if crossed is not None:
            return crossed, good_draws(crossed) is not None
    return law, serves


def scanned_spreads(
    density: CountedDensity, q: HierarchicalMap, theta: Array
) -> list[tuple[int, float, float]]:
    """Spreads of draws ``theta`` (N, D) and of p along governors, all held but what is governed:
    where terms do not add up to a law, as those of correlated effects do not.

    Of each its coordinate, the sd of draws given all that is held (what a linear regression on it
    leaves), and that of p by Laplace's method with the held in the draws' middle.
    """
    most = [int(q.order[place]) for place in governors_of(q)]
    governed = q.order[np.flatnonzero(q.scales.any(axis=1))]
    places = np.array([k for k in governed[::-1] if k not in most], dtype=int)
    if q.dimension > MOST_DIMENSIONS or not most or not len(places):
        return []
    along = most[:MOST_GOVERNORS]
    at, _ = middle_of(theta, along)
    others = coupled(density, np.array([at, theta[0]]), conditional_sds(theta, places), places)
    sds = conditional_sds(theta, others.places)
    others = quadratic_part(density, at, sds, others, np.random.default_rng(0))
    start = Middle.of(density, theta, along, others)
    found = None if start is None else scans_along(density, start, along)
    if found is None:
        return []
    held = np.setdiff1d(np.arange(q.dimension), others.places)
    spreads = []
    for scan in found[1]:
        given = np.column_stack([np.ones(len(theta)), theta[:, held[held != scan.j]]])
        own = theta[:, scan.j]
        own = own - given @ np.linalg.lstsq(given, own, rcond=None)[0]
        spreads.append((scan.j, float(own.std()), scan.sd))
    return spreads


def has_spread(density: CountedDensity, q: HierarchicalMap, theta: Array) -> bool:
    """Whether draws (N, D) are known to have the spread along governors that scans with all else
    held have."""
    found = scanned_spreads(density, q, theta)
    return bool(found) and all(own >= NEARLY * sd for _, own, sd in found)


def missed_tails(law: LawAlong, sd: Array, names: Sequence[str]) -> str | None:
    """A tail in which draws have far less spread than a law along what governs others' scales.

    Parameters
    ----------
    law
        Along governors.
    sd, names
        Of the draws' coordinates, (D,), and what these are called.
    """
    if law.open_ends:
        ends = [f"{names[j]} beyond {end:.3g}" for j, end in law.open_ends]
        return f"a tail of {' and '.join(ends)}, where p falls too slowly for its mass to be known"
    along = zip(law.governors, law.sd_along, strict=True)
    return in_words([(j, sd[j], of_law) for j, of_law in along], names)


def missed_in_scans(density: CountedDensity, q: HierarchicalMap, theta: Array) -> str | None:
    """The same of draws (N, D) along governors of which there is no law of all together."""
    return in_words(scanned_spreads(density, q, theta), value_names(density), " where the rest is")


def in_words(
    found: Sequence[tuple[int, float, float]], names: Sequence[str], given: str = ""
) -> str | None:
    """Coordinates whose draws have less than `LEAST_SD` of the sd by Laplace's method, each with
    both sds; None where there are none."""
    short = [
        f"{names[j]} (sd {own:.2g}{given}, by Laplace's method {sd:.2g})"
        for j, own, sd in found
        if own < LEAST_SD * sd
    ]
    if not short:
        return None
    return f"a tail of {' and '.join(short)}, on which the scales of others depend"


def is_of_all(law: LawAlong | None, q: HierarchicalMap) -> bool:
    """Whether a law is along all that governs most, so that nothing is left to look at."""
    count = min(len(governors_of(q)), MOST_GOVERNORS) if q.dimension <= MOST_DIMENSIONS else 0
    return count == 0 or (law is not None and len(law.governors) >= count)


def _resampled(theta: Array, weights: Array) -> Array:
    rng = np.random.default_rng(0)
    return np.asarray(theta[rng.choice(len(theta), size=len(theta), p=weights)])


@dataclass(frozen=True)
class Reached:
    """What weights are of.

    Parameters
    ----------
    law
        Along governors; None where there is none, or nobody has looked to the end.
    proposal, fresh
        Beside q and how its own draws judge it; None where q serves.
    missed
        A tail that draws of q miss and those of the proposal have.
    """

    law: LawAlong | None = None
    proposal: Posterior | None = None
    fresh: FreshDraws | None = None
    missed: str | None = None


def reaching(
    q: HierarchicalMap,
    density: CountedDensity,
    fresh: FreshDraws,
    proposal: DefensiveMixture | None,
    fresh_proposal: FreshDraws | None,
    seed: int | None,
    law: LawAlong | None = None,
    serves: bool = False,
) -> Reached:
    """``proposal``, or with a law of governors where this reaches further, or weights do not serve,
    or a law does.

    Parameters
    ----------
    q, density
        The map, and log p̃.
    fresh, proposal, fresh_proposal
        How q is judged, and what was found for its heavy tails, as `defended` gives them.
    seed
        Of the fit.
    law, serves
        What `early_law` found.
    """
    weighted, judged = proposal or q, fresh_proposal or fresh
    # no draw has a weight; or there are no laws, and all draws at once would be hundreds of MB
    if judged.ess == 0 or q.dimension > MOST_DIMENSIONS:
        return Reached(None, proposal, fresh_proposal)
    drawn = DrawnAgain(weighted, judged)
    theta, w = np.concatenate(list(drawn.theta())), drawn.weights
    law = law or law_of_governors(density, q, theta)
    crossed, known = None, judged.khat < KHAT_GOOD and drawn.doubtful().worst < KHAT_USABLE
    looked_at = serves or is_of_all(law, q)
    if not looked_at and not (known and has_spread(density, q, _resampled(theta, w))):
        crossed = law_of_crossing(density, q, theta)
    law = crossed or law
    if law is None:
        return Reached(None, proposal, fresh_proposal)
    _, sd = weighted_moments(theta, w)
    short = serves or np.any(sd[law.governors] < NEARLY * law.sd_along)
    missed = missed_tails(law, sd, value_names(density))
    beyond = missed if law.open_ends else None  # whose mass no draws tell, of whatever spread
    if not short and (known if crossed else judged.khat <= KHAT_USABLE):
        return Reached(law, proposal, fresh_proposal, beyond)
    mixture = PosteriorMixture(np.log([0.5, 0.5]), (q, law))
    found = fresh_draws(mixture, density, stream(seed, Purpose.NECKS))
    if short or found.khat < judged.khat:  # of what q lacks its own draws know nothing
        return Reached(law, mixture, found, missed)
    return Reached(law, proposal, fresh_proposal, beyond)
