"""What a density is; and the names of its coordinates, for messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Protocol

from pymc_ext.maths.types import Array

# PyMC's names of transforms, as they end the name of a variable's unconstrained value
_TRANSFORM = re.compile(
    r"_(log|logodds|interval|lowerbound|upperbound|log_exp_m1|simplex|ordered|circular|zerosum"
    r"|cholesky-cov-packed)__"
)
Labels = Callable[[str, tuple[int, ...]], list[str]]  # name and shape -> names of the elements


class Density(Protocol):
    """log p̃ on R^D, unnormalised, with its gradient (the score), over rows of points.

    Structural: any object with these members is a density. Optional members, used where they are
    there: ``unconstrained_names`` (D names, for messages), ``value_names`` (D names, for messages
    that give a coordinate's value, where these differ: ``log tau``), ``bounded_names`` (those of
    the former that a transform maps to a bounded variable), ``labels`` (:data:`Labels`, for
    messages: a PyMC model names elements by its coords, a Stan program by its own indices from 1,
    all else by indices from 0), ``parents_first`` (whether no variable comes before one that its
    prior depends on, as in a PyMC model), ``hessian`` (θ (D,) -> (D, D), exact; else differences of
    scores serve), ``clock`` (:class:`pymc_ext.density.counted.Clock`, seconds of compilation),
    ``for_chains`` (the same density, where one point a call can be had for less).
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
        """log p̃ (N,), scores (N, D), ∂ Σ_n w_n log p̃_n / ∂ extra (H,) at θ (N, D) for w (N,)."""


def coordinate_names(density: Density) -> list[str]:
    """Names of the D coordinates; ``theta[i]`` where the density has none."""
    names = getattr(density, "unconstrained_names", None)
    return [f"theta[{i}]" for i in range(density.dimension)] if names is None else list(names)


def value_names(density: Density) -> list[str]:
    """Names of the D coordinates beside numbers: ``log tau`` of a positive ``tau``, which PyMC
    calls ``tau_log__``, and Stan ``tau``."""
    names = getattr(density, "value_names", None)
    return spoken_names(density) if names is None else list(names)


def spoken_names(density: Density) -> list[str]:
    """Names of the D coordinates in messages: :func:`readable` ones."""
    return [readable(name) for name in coordinate_names(density)]


def readable(name: str) -> str:
    """A coordinate's name for a reader: PyMC's own end with the transform.

    >>> readable("tau_log__"), readable("p_simplex__[0]"), readable("theta[3]")
    ('log tau', 'simplex p[0]', 'theta[3]')
    """
    name = name.replace("_sds-and-correlations__", "")  # whose elements have names of their own
    found = _TRANSFORM.search(name)
    return name if found is None else f"{found.group(1)} {_TRANSFORM.sub('', name)}"


def element_names(name: str, axes: Sequence[Iterable[object]]) -> list[str]:
    """Names of an array's elements in its order, from the labels of each of its axes.

    >>> element_names("x", [range(2), ["a", "b"]]), element_names("tau", [])
    (['x[0,a]', 'x[0,b]', 'x[1,a]', 'x[1,b]'], ['tau'])
    """
    return [f"{name}[{','.join(map(str, at))}]" if at else name for at in product(*axes)]


def numbered(name: str, shape: tuple[int, ...]) -> list[str]:
    """Names of an array's elements by their indices from 0."""
    return element_names(name, [range(length) for length in shape])


def labels_of(density: Density) -> Labels:
    """How elements of its arrays are named in messages; by indices from 0 where it does not say."""
    return getattr(density, "labels", numbered)


def bounded_names(density: Density) -> list[str]:
    """Coordinates that a transform maps to a bounded variable; none where it is not known."""
    return list(getattr(density, "bounded_names", ()))
