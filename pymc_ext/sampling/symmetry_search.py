"""Which orders of labels, and which signs, leave a posterior the same: found by trying."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.types import Array
from pymc_ext.sampling.symmetry import (
    COMPLEMENT,
    SIGN,
    Change,
    Named,
    Symmetry,
    image_of,
    parameters_of,
    same_log_density,
)

__all__ = ["find_symmetry"]

MOST_IMAGES = 120  # the orders of five labels: every draw is compared with all of its images
MOST_TRIED = 4096  # changes that are looked at, each for a value of log p̃
MOST_LABELS = 5  # of an axis: the orders of six are more than MOST_IMAGES
# Draws that each part of a change must leave in the support; and at which log p̃ must be the same
# after it, and after all that changes generate: 100 find what is none on 3 % of the mass.
POINTS, MORE_POINTS = 4, 100
APART = 2.0  # sds of a coordinate by which an image of a mode is another: chains mix nearer ones
MOST_DIMENSIONS = 300  # a volume takes 2 D points
SAME_VOLUME, STEP = 1e-3, 1e-4  # rounding of a change's volume; differences that tell it

Part = TypeVar("Part")


def find_symmetry(target: Named, theta: Array, elsewhere: Array | None = None) -> Symmetry | None:
    """The changes of labels and signs that leave a posterior the same, and move a mode to another
    one; None where there are none.

    Looked at are exchanges of two entries of any variables that have an axis of one length, where
    it is two with variables in (0, 1) against their complement, as a mixture's one weight; and
    signs of any variables. What takes more than ``MOST_TRIED`` values of log p̃, or gives a point
    more than ``MOST_IMAGES`` images, is not found.

    Parameters
    ----------
    target
        The posterior.
    theta
        Draws of one of its modes, unconstrained, (N, D), N at least ``POINTS``.
    elsewhere
        Points (M, D) of other modes: a change of signs can keep what two of three modes are.
    """
    if theta.shape[1] > MOST_DIMENSIONS:
        return None
    points = theta[:MORE_POINTS]
    values = parameters_of(target, theta[:POINTS])
    if elsewhere is not None:
        points = np.concatenate([points, elsewhere])
    tried = list(islice(_tried(target, values), MOST_TRIED + 1))
    if not 0 < len(tried) <= MOST_TRIED:
        return None
    with np.errstate(all="ignore"):  # log p̃ after a change that does not keep it may overflow
        lp = target.log_density(points)
        at_one = {name: value[:1] for name, value in values.items()}
        images = [change(at_one) for change in tried]
        stacked = {name: np.concatenate([image[name] for image in images]) for name in values}
        same = same_log_density(target.log_density(target.unconstrain(stacked)), lp[0])
        kept = [change for change, is_same in zip(tried, same, strict=True) if is_same]
        kept = [c for c in kept if not any(c.contains(other) for other in kept)]
        kept = [
            c
            for c in kept
            if same_log_density(target.log_density(image_of(target, c, points)), lp).all()
        ]
    mean, sd = theta.mean(axis=0), theta.std(axis=0)
    changes = [
        c
        for c in kept
        if np.any(np.abs(image_of(target, c, mean[None])[0] - mean) > APART * sd)
        and abs(_log_volume(target, c, points[0])) < SAME_VOLUME
    ]
    changes.sort(key=lambda change: len(change.reflected))  # of two for one element the plainer
    words = _words(target, changes, points[:1])
    found = Symmetry(target, changes, words, mean, sd)
    return found if words and found.keeps_all(theta[:MORE_POINTS]) else None


def _tried(target: Named, values: Mapping[str, NDArray]) -> Iterator[Change]:
    """Changes of values (N, *shape) of which no part leaves the support."""
    signs, complements = (
        [
            [(name, kind)]
            for name in values
            if _stays(target, Change(reflected=((name, kind),)), values)
        ]
        for kind in (SIGN, COMPLEMENT)
    )
    yield from (Change(reflected=some) for some in _choices(signs) if some)
    lengths = {n for value in values.values() for n in value.shape[1:] if 1 < n <= MOST_LABELS}
    for length in sorted(lengths):
        for pair in combinations(range(length), 2):
            exchanges = [
                [
                    (name, axes)
                    for axes in _axes(value.shape[1:], length)
                    if _stays(target, Change(pair, ((name, axes),)), values)
                ]
                for name, value in values.items()
            ]
            for along in _choices(exchanges):
                for reflected in _choices(complements if length == 2 else []):
                    if along:
                        yield Change(pair, along, reflected)


def _axes(shape: tuple[int, ...], length: int) -> list[tuple[int, ...]]:
    """Axes of that length: each alone, and all."""
    having = tuple(i for i, n in enumerate(shape) if n == length)
    return [*((i,) for i in having), *([having] if len(having) > 1 else [])]


def _choices(options: Sequence[Sequence[Part]]) -> Iterator[tuple[Part, ...]]:
    """At most one of each of the ``options``, in every way, none of any first; only that where
    there are too many ways."""
    if prod(1 + len(some) for some in options) > MOST_TRIED:
        options = []
    for chosen in product(*([None, *some] for some in options)):
        yield tuple(part for part in chosen if part is not None)


def _stays(target: Named, change: Change, values: Mapping[str, NDArray]) -> bool:
    """Whether changed values (N, *shape) are in the support."""
    try:
        with np.errstate(all="ignore"):
            return bool(np.isfinite(target.unconstrain(change(values))).all())
    except (ValueError, ArithmeticError, RuntimeError):  # PyMC's and Stan's words for outside
        return False


def _log_volume(target: Named, change: Change, point: Array) -> float:
    """log |det ∂ g θ / ∂θ| at a point (D,), by differences."""
    steps = STEP * np.eye(len(point))
    moved = image_of(target, change, np.concatenate([point + steps, point - steps]))
    up, down = np.split(moved, 2)
    return float(np.linalg.slogdet((up - down) / (2 * STEP))[1])


def _words(target: Named, changes: Sequence[Change], point: Array) -> list[tuple[int, int]]:
    """How all elements come about, by the images of a point (1, D); none where these are too
    many."""
    images, words = [point], list[tuple[int, int]]()
    for element, image in enumerate(images):  # which grow
        for number, change in enumerate(changes):
            new = image_of(target, change, image)
            if any(np.allclose(new, known, rtol=1e-6, atol=1e-6) for known in images):
                continue
            if len(images) == MOST_IMAGES:
                return []
            images.append(new)
            words.append((element, number))
    return words
