"""What a density is; and the names of its coordinates, for messages."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class Density(Protocol):
    """log p̃ on R^D, unnormalised, with its gradient (the score), over rows of points.

    Structural: any object with these members is a density. Optional members, used where they are
    there: ``unconstrained_names`` (D names, for messages), ``bounded_names`` (those of them that a
    transform maps to a bounded variable), ``first_index`` (of an array, in names: 1 of a Stan
    program, 0 where it is not there), ``hessian`` (θ (D,) -> (D, D), exact; else differences of
    scores serve), ``clock`` (:class:`pymc_ext.density.counted.Clock`, seconds of compilation).
    """

    @property
    def dimension(self) -> int:
        """D."""

    def log_density(self, theta: Array) -> Array:
        """log p̃, (N, D) -> (N,); −inf outside the support."""

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """log p̃ and its gradient, (N, D) -> (N,), (N, D)."""


class DensityWithExtras(Density, Protocol):
    """A density with H free parameters beside θ, such as hyperparameters, as one flat vector."""

    @property
    def extra_size(self) -> int:
        """H."""

    @property
    def extra(self) -> Array:
        """Their values, (H,)."""

    @extra.setter
    def extra(self, value: Array) -> None: ...

    def weighted_gradients(self, theta: Array, weights: Array) -> tuple[Array, Array, Array]:
        """log p̃ (N,), scores (N, D), and ∂ Σ_n w_n log p̃_n / ∂ extra (H,)."""


def coordinate_names(density: Density) -> list[str]:
    """Names of the D coordinates; ``theta[i]`` where the density has none."""
    names = getattr(density, "unconstrained_names", None)
    return [f"theta[{i}]" for i in range(density.dimension)] if names is None else list(names)


def first_index(density: Density) -> int:
    """What indices in names of its quantities count from: 0, of a Stan program 1."""
    return int(getattr(density, "first_index", 0))


def element_names(name: str, shape: tuple[int, ...], first: int = 0) -> list[str]:
    """Names of the elements of an array in its order, ``first`` that of the first.

    >>> element_names("L", (1, 2), first=1), element_names("tau", ())
    (['L[1,1]', 'L[1,2]'], ['tau'])
    """
    places = (",".join(str(first + i) for i in place) for place in np.ndindex(*shape))
    return [f"{name}[{place}]" if place else name for place in places]


def bounded_names(density: Density) -> list[str]:
    """Coordinates that a transform maps to a bounded variable; none where it is not known."""
    return list(getattr(density, "bounded_names", ()))
