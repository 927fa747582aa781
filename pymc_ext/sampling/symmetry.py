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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density
from pymc_ext.maths.types import Array

__all__ = [
    "COMPLEMENT",
    "SIGN",
    "Change",
    "Named",
    "Symmetry",
    "image_of",
    "parameters_of",
    "same_log_density",
]

SAME_LOG_DENSITY, MOST_ROUNDING = 1e-8, 1e-2  # rounding of log p̃, relative and in nats at most
# Digits of a linear change's entries, which are 0 and ±1 of labels and signs; and how near, in sds,
# its images are to those of the change itself.
ENTRIES, SAME_IMAGE = 8, 1e-6
NUMBERS_TOGETHER = 2**20  # of images that are made at once: 8 MB
SIGN, COMPLEMENT = "sign", "complement"  # x -> −x, x -> 1 − x


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

    @property
    def sentence(self) -> str:
        """What is said of draws that were each put into an image at random."""
        return (
            f"the posterior does not depend on {self}: each draw is in one of {self.order} images "
            "of one mode at random, so sort each draw, or put an order into the model"
        )

    def images(self, theta: Array) -> Array:
        """Of points (N, D), themselves first: (order, N, D)."""
        images = [theta]
        for element, change in self.words:
            images.append(image_of(self.target, self.changes[change], images[element]))
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
        return image_of(self.target, self.changes[change], self._element(before, theta))

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
        return bool(same_log_density(self.target.log_density(theta), lp).all())

    def __str__(self) -> str:
        used = {self.changes[number] for _, number in self.words}
        exchanged = sorted({name for change in used for name, _ in change.along})
        reflected = sorted({part for change in used for part in change.reflected})
        said = [f"the order of the entries of {', '.join(exchanged)}"] if exchanged else []
        signs = [name for name, kind in reflected if kind == SIGN]
        said += [f"the sign of {', '.join(signs)}"] if signs else []
        said += [f"{name} against 1 − {name}" for name, kind in reflected if kind == COMPLEMENT]
        return ", ".join(said)


def parameters_of(target: Named, theta: Array) -> dict[str, NDArray]:
    values = target.constrain(theta)
    return {name: np.asarray(values[name]) for name in target.parameter_names}


def image_of(target: Named, change: Change, theta: Array) -> Array:
    """Images of points (N, D); NaN of those that rounding has put on an edge of the support."""
    values = change(parameters_of(target, theta))
    try:
        return target.unconstrain(values)
    except (ValueError, RuntimeError):  # of some
        image = np.full_like(theta, np.nan)
        for n in range(len(theta)):
            with suppress(ValueError, RuntimeError):
                image[n] = target.unconstrain({k: value[[n]] for k, value in values.items()})[0]
        return image


def same_log_density(lp: Array, other: Array) -> NDArray[np.bool_]:
    """Whether log densities differ by their rounding alone; NaN differs."""
    rounding = np.minimum(SAME_LOG_DENSITY * (1 + np.abs(other)), MOST_ROUNDING)
    return np.asarray(np.abs(lp - other) <= rounding)
