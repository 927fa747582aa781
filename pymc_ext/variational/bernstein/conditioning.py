"""What the networks of a flow see of the components before theirs: one class a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pymc_ext.maths.namespace import NUMPY, Elementwise, Namespace
from pymc_ext.maths.types import Array


@dataclass(frozen=True)
class Conditioning:
    """x itself, by one network; it enters the location and the log scale of each linearly too."""

    linear: ClassVar[bool] = True

    def networks(self, leading: int, dimension: int) -> list[tuple[int, int]]:
        """First component and the end of each network's; ``leading`` is the number of scalars."""
        return [(0, dimension)]

    def seen(self, x: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
        """What is seen of x, of its shape; ``xp`` is ``NUMPY`` or ``pytensor.tensor``."""
        return x

    def pullback(self, seen: Array, cotangent: Array) -> Array:
        """The cotangent of x from that of what is seen of it, elementwise."""
        return cotangent


@dataclass(frozen=True)
class Squashed(Conditioning):
    """σ(x) − ½ in place of x, and nothing linear: the paper's."""

    linear: ClassVar[bool] = False

    def seen(self, x: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
        return xp.sigmoid(x) - 0.5

    def pullback(self, seen: Array, cotangent: Array) -> Array:
        s = seen + 0.5
        return cotangent * s * (1 - s)


@dataclass(frozen=True)
class Hierarchical(Conditioning):
    """A network of its own for what follows the leading scalars, which sees their values."""

    def networks(self, leading: int, dimension: int) -> list[tuple[int, int]]:
        if not 0 < leading < dimension:
            return super().networks(leading, dimension)
        return [(0, leading), (leading, dimension)]


CONDITIONING: dict[str, Conditioning] = {
    "latent": Conditioning(),
    "squashed": Squashed(),
    "hierarchical": Hierarchical(),
}
