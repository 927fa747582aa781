r"""Orders of labels, and signs, under which a posterior is the same, taken out of draws.

The posterior of a mixture whose components nothing tells apart has K! modes, each the image of one,
and no chain goes from one to all others. Nor need it: draws of which each is put into the same
order of labels are draws of what orders do not change, whether chains have mixed is told by these,
and an order at random for each makes them draws of the posterior,

.. math:: \theta \sim p, \; g \sim U(G) \;\Rightarrow\; g\,\theta \sim p
    \quad\text{where}\quad p(g\,\theta)\,|\det \partial g\,\theta| = p(\theta).

That p is the same is not assumed: log p̃ is compared at images of several points, and the volume at
one.

References
----------
Frühwirth-Schnatter (2001), Markov chain Monte Carlo estimation of classical and dynamic switching
and mixture models, JASA 96(453), doi:10.1198/016214501750333063: a permutation at random after
each step of a sampler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import prod
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density
from pymc_ext.maths.types import Array

__all__ = ["Change", "Named", "Symmetry", "find_symmetry"]

MOST_IMAGES = 120  # the orders of five labels: every draw is compared with all of its images
MOST_TRIED = 4096  # changes that are looked at, each for a value of log p̃
MOST_LABELS = 5  # of an axis: the orders of six are more than MOST_IMAGES
# Draws that each part of a change must leave in the support; and at which log p̃ must be the same
# after it, and after all that changes generate: 100 find what is none on 3 % of the mass.
POINTS, MORE_POINTS = 4, 100
APART = 2.0  # sds of a coordinate by which an image of a mode is another: chains mix nearer ones
MOST_DIMENSIONS = 300  # a volume takes 2 D points
# Rounding of log p̃, relative and in nats at most; and of a change's volume, with the steps of the
# differences that tell it.
SAME_LOG_DENSITY, MOST_ROUNDING, SAME_VOLUME, STEP = 1e-8, 1e-2, 1e-3, 1e-4
# Digits of a linear change's entries, which are 0 and ±1 of labels and signs; and how near, in sds,
# its images are to those of the change itself.
ENTRIES, SAME_IMAGE = 8, 1e-6
NUMBERS_TOGETHER = 2**20  # of images that are made at once: 8 MB
SIGN, COMPLEMENT = "sign", "complement"  # x -> −x, x -> 1 − x

Part = TypeVar("Part")


class Named(Protocol):
    """log p̃ with what its coordinates mean."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Of the constrained parameters."""

    @property
    def density(self) -> Density:
        """log p̃ with its score."""

    def log_density(self, theta: Array) -> Array:
        """log p̃, (N, D) -> (N,)."""

    def constrain(self, theta: Array) -> Mapping[str, NDArray]:
        """Values by name, (N, D) -> (N, *shape) each; more than the parameters, maybe."""

    def unconstrain(self, draws: Mapping[str, NDArray]) -> Array:
        """Its inverse, of the parameters."""


@dataclass(frozen=True)
class Change:
    """Two entries of some variables exchanged, others reflected.

    Parameters
    ----------
    pair
        The two entries.
    along
        Axes of each variable that has them, by name: of a transition matrix both.
    reflected
        `SIGN` or `COMPLEMENT` of each of the others, by name.
    """

    pair: tuple[int, int] = (0, 0)
    along: tuple[tuple[str, tuple[int, ...]], ...] = ()
    reflected: tuple[tuple[str, str], ...] = ()

    def __call__(self, values: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Of values by name, (N, *shape) each."""
        changed = dict(values)
        for name, axes in self.along:
            for axis in axes:
                order = np.arange(changed[name].shape[1 + axis])
                order[list(self.pair)] = self.pair[::-1]
                changed[name] = np.take(changed[name], order, axis=1 + axis)
        for name, kind in self.reflected:
            changed[name] = -values[name] if kind == SIGN else 1 - values[name]
        return changed

    def contains(self, other: Change) -> bool:
        """Whether it is another one and more."""
        parts = {*self.along, *self.reflected}
        return self.pair == other.pair and parts > {*other.along, *other.reflected}


class Symmetry:
    """Changes of θ that leave a posterior as it is, with all that they generate.

    Parameters
    ----------
    target
        The posterior.
    changes
        From which all others come.
    words
        How the elements beside the identity, number 0, come about: element n is change c of
        element e for ``words[n - 1] = (e, c)``, e < n.
    mean, sd
        Of draws of one mode (D,).
    """

    def __init__(
        self,
        target: Named,
        changes: Sequence[Change],
        words: Sequence[tuple[int, int]],
        mean: Array,
        sd: Array,
    ) -> None:
        self.target, self.changes, self.words = target, tuple(changes), tuple(words)
        self.mean, self.sd = mean, sd

    @property
    def order(self) -> int:
        """How many images a point has, itself with them."""
        return 1 + len(self.words)

    def images(self, theta: Array) -> Array:
        """Of points (N, D), themselves first: (order, N, D)."""
        images = [theta]
        for element, change in self.words:
            images.append(_changed(self.target, self.changes[change], images[element]))
        return np.stack(images)

    def in_parts(self, theta: Array) -> Iterator[Array]:
        """:meth:`images` of some points after the other, (order, n, D) each."""
        rows = max(1, NUMBERS_TOGETHER // (self.order * theta.shape[1]))
        return (self.images(theta[n : n + rows]) for n in range(0, len(theta), rows))

    def one_order(self, theta: Array) -> Array:
        """Of each point (N, D) the image that is next to the mode's mean, in sds."""
        folded = [theta[:0]]
        for images in self.in_parts(theta):
            distances = (((images - self.mean) / self.sd) ** 2).sum(axis=2)
            nearest = np.where(np.isnan(distances), np.inf, distances).argmin(axis=0)
            folded.append(images[nearest, np.arange(images.shape[1])])
        return np.concatenate(folded)

    def at_random(self, theta: Array, rng: np.random.Generator) -> Array:
        """Of each point (N, D) an image at random, of all as many; itself on an edge of the
        support."""
        chosen = rng.permutation(np.arange(len(theta)) % self.order)
        scattered = theta.copy()
        for element in range(1, self.order):
            rows = np.flatnonzero(chosen == element)
            scattered[rows] = self._element(element, theta[rows])
        on_edge = ~np.isfinite(scattered).all(axis=1)
        scattered[on_edge] = theta[on_edge]
        return scattered

    def _element(self, element: int, theta: Array) -> Array:
        """One image of each point (N, D)."""
        if element == 0:
            return theta
        before, change = self.words[element - 1]
        return _changed(self.target, self.changes[change], self._element(before, theta))

    def matrices(self, theta: Array) -> Array | None:
        """A of g θ = A θ for each element, (order, D, D), where all are linear as far as points
        (N, D) tell; None where one is not, as of Stan's simplex of three."""
        steps = np.diag(self.sd)
        up, down = np.split(self.images(np.r_[self.mean + steps, self.mean - steps]), 2, axis=1)
        rows = np.round((up - down) / (2 * self.sd[:, None]), ENTRIES)
        images = self.images(theta)
        rounding = SAME_IMAGE * images.std(axis=1, keepdims=True)
        same = np.abs(theta @ rows - images) <= rounding
        return np.swapaxes(rows, 1, 2) if same.all() else None

    def keeps_all(self, theta: Array) -> bool:
        """Whether log p̃ is that of points (N, D) at all of their images."""
        lp = self.target.log_density(theta)
        theta, lp = theta[np.isfinite(lp)], lp[np.isfinite(lp)]
        for image in self.images(theta):
            inside = np.isfinite(image).all(axis=1)
            if not self.is_kept(image[inside], lp[inside]):
                return False
        return True

    def is_kept(self, theta: Array, lp: Array) -> bool:
        """Whether images (N, D) have the log p̃ (N,) of what they are images of."""
        return bool(_same(self.target.log_density(theta), lp).all())

    def __str__(self) -> str:
        used = {self.changes[number] for _, number in self.words}
        exchanged = sorted({name for change in used for name, _ in change.along})
        reflected = sorted({part for change in used for part in change.reflected})
        said = [f"the order of the entries of {', '.join(exchanged)}"] if exchanged else []
        signs = [name for name, kind in reflected if kind == SIGN]
        said += [f"the sign of {', '.join(signs)}"] if signs else []
        said += [f"{name} against 1 − {name}" for name, kind in reflected if kind == COMPLEMENT]
        return ", ".join(said)


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
    values = _parameters(target, theta[:POINTS])
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
        same = _same(target.log_density(target.unconstrain(stacked)), lp[0])
        kept = [change for change, is_same in zip(tried, same, strict=True) if is_same]
        kept = [c for c in kept if not any(c.contains(other) for other in kept)]
        kept = [c for c in kept if _same(target.log_density(_changed(target, c, points)), lp).all()]
    mean, sd = theta.mean(axis=0), theta.std(axis=0)
    changes = [
        c
        for c in kept
        if np.any(np.abs(_changed(target, c, mean[None])[0] - mean) > APART * sd)
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


def _parameters(target: Named, theta: Array) -> dict[str, NDArray]:
    values = target.constrain(theta)
    return {name: np.asarray(values[name]) for name in target.parameter_names}


def _changed(target: Named, change: Change, theta: Array) -> Array:
    """Images of points (N, D); NaN of those that rounding has put on an edge of the support."""
    values = change(_parameters(target, theta))
    try:
        return target.unconstrain(values)
    except (ValueError, RuntimeError):  # of some
        image = np.full_like(theta, np.nan)
        for n in range(len(theta)):
            with suppress(ValueError, RuntimeError):
                image[n] = target.unconstrain({k: value[[n]] for k, value in values.items()})[0]
        return image


def _same(lp: Array, other: Array) -> NDArray[np.bool_]:
    """Whether log densities differ by their rounding alone; NaN differs."""
    rounding = np.minimum(SAME_LOG_DENSITY * (1 + np.abs(other)), MOST_ROUNDING)
    return np.asarray(np.abs(lp - other) <= rounding)


def _log_volume(target: Named, change: Change, point: Array) -> float:
    """log |det ∂ g θ / ∂θ| at a point (D,), by differences."""
    steps = STEP * np.eye(len(point))
    moved = _changed(target, change, np.concatenate([point + steps, point - steps]))
    up, down = np.split(moved, 2)
    return float(np.linalg.slogdet((up - down) / (2 * STEP))[1])


def _words(target: Named, changes: Sequence[Change], point: Array) -> list[tuple[int, int]]:
    """How all elements come about, by the images of a point (1, D); none where these are too
    many."""
    images, words = [point], list[tuple[int, int]]()
    for element, image in enumerate(images):  # which grow
        for number, change in enumerate(changes):
            new = _changed(target, change, image)
            if any(np.allclose(new, known, rtol=1e-6, atol=1e-6) for known in images):
                continue
            if len(images) == MOST_IMAGES:
                return []
            images.append(new)
            words.append((element, number))
    return words
