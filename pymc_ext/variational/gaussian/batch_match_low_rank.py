r"""The three parts of :mod:`.batch_match` for a Gaussian of low rank plus diagonal.

Memory and a step's cost grow as D times the rank. Two starts are tried, the best Gaussian of the
paths and a narrow one around the user's start, and go on from the one whose ELBO is higher after
the first block: in large hierarchies paths end in the neck of a funnel, where their Gaussians have
a fair ELBO and no way out.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.course import Candidate, Course, Ended, block_of, in_doubling_blocks
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.low_rank_gradient import LowRankGradient
from pymc_ext.variational.gaussian.low_rank_match import matched_low_rank, patched
from pymc_ext.variational.gaussian.path import all_paths, best_of
from pymc_ext.variational.gaussian.trust_region_matching import TrustRegionMatching

DENSE = 300  # dimensions up to which a dense Gaussian is fitted; its steps take D draws and D³ time
# Numbers in Λ by default: D/draws of noise come with each factor, and nothing in a model of 10,000
# dimensions was seen to need more than ten.
FACTOR_NUMBERS, FEWEST_FACTORS, MOST_FACTORS = 32_000, 10, 32
MOST_BATCHES = 20  # of matching: from then on natural gradients gain more for a score, D = 1,000
# Steps of the ELBO's part after which the starts are compared: with half as many the logistic
# hierarchy of 1,000 groups stayed in its neck.
FIRST_BLOCK = 20
START_SD = 0.1  # of the narrow start, as batch and match begins with (Modi, Cai & Saul 2025)
START_FACTOR = 0.1  # of its sd: what its factors add, so that gradients reach them


def resolved_rank(rank: int | None, dimension: int) -> int | None:
    """The rank of q; None for a dense one.

    Raises ValueError where ``rank`` is no integer of 1 … D.
    """
    if rank is None:
        if dimension <= DENSE:
            return None
        return int(np.clip(FACTOR_NUMBERS // dimension, FEWEST_FACTORS, MOST_FACTORS))
    if rank > dimension:
        raise ValueError(
            f"rank must be at most the number of parameters, {dimension}, got {rank}; None takes a "
            f"dense Gaussian up to {DENSE} parameters and a rank by rule beyond"
        )
    return rank


def find_low_rank(
    density: CountedDensity,
    start: Array,
    seed: int | None,
    course: Course[LowRankGaussian],
    *,
    paths: int,
    rank: int,
    finish: bool,
) -> Ended[LowRankGaussian]:
    """All parts, from ``start`` (D,)."""
    if finish:
        reached, steps = first_low_rank(density, start, seed, course, paths=paths, rank=rank)
        return in_doubling_blocks(steps, course, reached, FIRST_BLOCK)
    _matched_starts(density, start, seed, course, paths, rank)
    assert course.best is not None  # they have been offered
    return Ended(course.best, 0.0, 0.0, "batches no longer raise the ELBO")


def first_low_rank(
    density: CountedDensity,
    start: Array,
    seed: int | None,
    course: Course[LowRankGaussian],
    *,
    paths: int,
    rank: int,
) -> tuple[Candidate[LowRankGaussian], LowRankGradient]:
    """The better start after a first block of the ELBO's part, and the steps to go on with."""
    matched = _matched_starts(density, start, seed, course, paths, rank)
    rng = stream(seed, Purpose.INITIAL)
    begun = [
        (block_of(steps, course, FIRST_BLOCK), steps)
        for steps in (LowRankGradient(density, q, rng) for q in matched)
    ]
    return max(begun, key=lambda pair: pair[0].elbo)


def _matched_starts(
    density: CountedDensity,
    start: Array,
    seed: int | None,
    course: Course[LowRankGaussian],
    paths: int,
    rank: int,
) -> list[LowRankGaussian]:
    """The Gaussians of both starts after matching; each is offered."""
    found = all_paths(
        density, start, stream(seed, Purpose.STARTS), paths,
        lambda q: course.offer(patched(q, rank)),
    )  # fmt: skip
    rng = stream(seed, Purpose.TRAIN)
    starts = [_narrow(start, rank, rng)]
    if found:
        course.offer(q := patched(best_of(found).q, rank))
        starts.insert(0, q)
    step = partial(matched_low_rank, rank=rank)
    matched = [TrustRegionMatching(density, q, rng, step).run(course, MOST_BATCHES) for q in starts]
    for q in matched:
        course.offer(q)
    return matched


def _narrow(start: Array, rank: int, rng: np.random.Generator) -> LowRankGaussian:
    """N(start, 0.1² I) with some factors."""
    factor = START_FACTOR * START_SD * rng.standard_normal((len(start), rank))
    return LowRankGaussian.from_factor(start, factor, np.full(len(start), START_SD**2))
