"""The map of models with some globals and many locals: rows of locals hold little but the globals.

From the Gaussian of :mod:`..gaussian.batch_match_low_rank` on: who is global and which locals
belong together (:mod:`.structure`), the Gaussian of that form by the map's own training, who among
the globals governs, and then the same growth as that of dense maps. Cost and memory are O(D k).
"""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.course import Course, Ended, block_of, in_doubling_blocks
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.numbers import antithetic, shorten_outliers, whole_pairs
from pymc_ext.variational.hierarchical.arrow_root import ArrowRoot, globals_root
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.growth import FIRST_BLOCK
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.moments import MomentSums
from pymc_ext.variational.hierarchical.structure import Structure
from pymc_ext.variational.hierarchical.training import Training

ORDER_DRAWS, TOGETHER = 1000, 100  # behind who governs, as up to 40 dimensions; and at once
SEEKING_BLOCK = 40  # steps whose second half, 1,000 draws, shows the first links


def arrow_found(
    density: CountedDensity,
    course: Course[HierarchicalMap],
    found: LowRankGaussian,
    structure: Structure,
    rng: np.random.Generator,
) -> tuple[Ended[HierarchicalMap], Training]:
    """The Gaussian of arrow form, its strongest governors first, and the training behind it.

    Blocks double until links promise more than the last one gained: the standard errors of a
    thousand groups' links fall with every block, and those of weak links are seen late.
    """
    q = arrow_gaussian(found, structure)
    nothing = Free.none(q.dimension, q.governors)
    course.offer(q)
    q = block_of(Training(density, q, nothing, rng), course, FIRST_BLOCK).q
    q = in_order_of_governors(density, q, rng)
    training = Training(density, q, nothing, rng)
    ended = in_doubling_blocks(
        training,
        course,
        course.offer(q),
        SEEKING_BLOCK,
        lambda _: training.moments.moments().promised,
    )
    return ended, training


def arrow_gaussian(q: LowRankGaussian, structure: Structure) -> HierarchicalMap:
    """q as a map of the structure's form, but for correlations between groups given the globals."""
    order, k = structure.order, len(structure.globals)
    factor, variance = q.factor[order], q.scale[order] ** 2
    root = ArrowRoot.of_factors(factor, variance, k, structure.sizes)
    return HierarchicalMap.linear(order, q.mean[order], root)


def in_order_of_governors(
    density: CountedDensity, q: HierarchicalMap, rng: np.random.Generator
) -> HierarchicalMap:
    """A Gaussian map with globals that govern more than they are governed first, strongest first.

    As :func:`.moments.governors_first`, in the coordinates of the globals' symmetric root.
    """
    assert isinstance(q.root, ArrowRoot)
    k, sums = q.governors, MomentSums(q.governors)
    turn = globals_root(q.root.left)
    for _ in range(ORDER_DRAWS // TOGETHER):
        v = antithetic(rng, TOGETHER, q.dimension)
        with np.errstate(all="ignore"):
            log_p, scores = density.log_density_gradient(q.forward(v)[0])
        usable = whole_pairs(np.isfinite(log_p) & np.isfinite(scores).all(axis=1))
        v, r = v[usable], q.pullback(v[usable], scores[usable]) + v[usable]
        v[:, :k], r[:, :k] = v[:, :k] @ turn, r[:, :k] @ turn
        sums.add(shorten_outliers(r), v)
    places = np.argsort(-np.maximum(sums.moments().lead, 0.0), kind="stable")
    order = np.concatenate([q.order[:k][places], q.order[k:]])
    center = np.concatenate([q.center[:k][places], q.center[k:]])
    return HierarchicalMap.linear(order, center, q.root.reordered(places))
