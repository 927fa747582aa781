"""In which order of coordinates a map is begun: each one's law is given those before it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.course import Course
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.variable_order import blocks_of, variable_order
from pymc_ext.variational.gaussian.batch_match import Found
from pymc_ext.variational.gaussian.natural_gradient import Batch
from pymc_ext.variational.hierarchical.growth import Growth
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.moments import (
    Moments,
    completed,
    governors_first,
    moments_in,
)

AS_MUCH = 0.5  # of what the other order promises, from which on an order is worth a block
NEARLY_ALL = 0.95  # relative ESS beyond which another order has too little to gain for its block
SURE = 2.0  # standard errors by which another order must be better than who governs first


def new_growth(
    density: CountedDensity, course: Course[HierarchicalMap], found: Found, seed: int | None
) -> Growth | None:
    """The Gaussian as a map, in the best order of coordinates.

    None where q has no draws with scores, as one that ran away.

    Third derivatives are symmetric: a governor after what it governs may promise as much, as a bend
    of its mean. Where orders promise about as much by links that contradict one another, the ELBO
    after a first block in each decides.
    """
    rng = stream(seed, Purpose.INITIAL)
    batch = completed(found.batch, density, rng)
    if not len(batch.theta):
        return None
    first, *others = (Growth(density, course, rng, *begun) for begun in in_orders(batch, density))
    enough = AS_MUCH * max(growth.moments.promised for growth in (first, *others))
    if first.moments.promised < enough:
        first, others = others[0], others[1:]
    for other in others:
        if other.moments.promised < enough:
            continue
        if not (first.contradicts(other) or other.contradicts(first)):
            continue
        begun = first.begin()
        if begun.relative_ess > NEARLY_ALL:
            break
        gain, error = other.begin().gain_over(begun)
        first = other if gain > SURE * error else first
    return first


def in_orders(batch: Batch, density: CountedDensity) -> Iterator[tuple[HierarchicalMap, Moments]]:
    """The batch's Gaussian, with its moments, in orders that may be right.

    Who governs, from the scores alone; variables with few elements before those with many; and
    of a PyMC model its own, in which all that a variable's prior depends on comes before it.
    """
    blocks = blocks_of(density.density)
    variable = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
    orders = [governors_first(batch, variable), variable_order(blocks, None)[0]]
    if getattr(density.density, "parents_first", False):
        orders.append(np.arange(density.dimension))
    for k, order in enumerate(orders):
        if any(np.array_equal(order, earlier) for earlier in orders[:k]):
            continue
        q = HierarchicalMap.gaussian(batch.q.mean, batch.q.cov, order)
        yield q, moments_in(batch, q)


def promised_gain(density: CountedDensity, batch: Batch) -> float:
    """Nats that links and marginals would gain, from a batch of the Gaussian's own steps."""
    if not len(batch.theta):
        return 0.0
    return max(moments.promised for _, moments in in_orders(batch, density))
