"""What a flow adds beyond its polynomial, so that q has all of R^D as support.

One class a kind of tails, with what its parameters are at the start and at the identity; ``xp`` is
``NUMPY`` or ``pytensor.tensor``. The kernels of :mod:`pymc_ext.maths.flow_kernels` know a kind by
the number of its parameters alone; a test holds them against the formulas here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pymc_ext.maths.namespace import NUMPY, Elementwise, Namespace

IN_TAILS = 0.5  # share of the identity that the tails carry at the start
CURVATURE = 0.02  # of a quadratic tail at the start, in units of y per x²


@dataclass(frozen=True)
class Tails:
    """Nothing, as in the paper: q ends at ϑ_0 and ϑ_M."""

    start: ClassVar[tuple[float, ...]] = ()  # parameters of each component, all above zero
    identity: ClassVar[tuple[float, ...]] = ()  # those with which value(x) = x

    @property
    def slopes(self) -> int:
        """Slopes and curvatures of each component."""
        return len(self.start)

    @property
    def share(self) -> float:
        """Part of the identity that they carry at the start; the polynomial has the rest."""
        return IN_TAILS if self.start else 0.0

    def value(
        self, x: Elementwise, slopes: Sequence[Elementwise], xp: Namespace = NUMPY
    ) -> tuple[Elementwise, Elementwise]:
        """An increasing function of x, and its derivative, of the shape of x."""
        raise TypeError("bounded tails add nothing to the polynomial")


@dataclass(frozen=True)
class Linear(Tails):
    """−s_L softplus(−x) + s_R softplus(x): a slope on each side, ``slopes`` s_L and s_R."""

    start: ClassVar[tuple[float, ...]] = (IN_TAILS, IN_TAILS)
    identity: ClassVar[tuple[float, ...]] = (1.0, 1.0)

    def value(
        self, x: Elementwise, slopes: Sequence[Elementwise], xp: Namespace = NUMPY
    ) -> tuple[Elementwise, Elementwise]:
        left, right = slopes[:2]
        value = right * xp.softplus(x) - left * xp.softplus(-x)
        return value, right * xp.sigmoid(x) + left * xp.sigmoid(-x)


@dataclass(frozen=True)
class Quadratic(Linear):
    """Linear tails and −q_L softplus(−x)²/2 + q_R softplus(x)²/2, ``slopes`` with q_L and q_R.

    With these a normal latent variable gets exponential tails.
    """

    start: ClassVar[tuple[float, ...]] = (*Linear.start, CURVATURE, CURVATURE)
    identity: ClassVar[tuple[float, ...]] = (*Linear.identity, 0.0, 0.0)

    def value(
        self, x: Elementwise, slopes: Sequence[Elementwise], xp: Namespace = NUMPY
    ) -> tuple[Elementwise, Elementwise]:
        value, derivative = super().value(x, slopes, xp)
        left, right = slopes[2:]
        r, q = xp.softplus(x), xp.softplus(-x)
        value = value + 0.5 * (right * r**2 - left * q**2)
        return value, derivative + right * r * xp.sigmoid(x) + left * q * xp.sigmoid(-x)


TAILS: dict[str, Tails] = {"bounded": Tails(), "linear": Linear(), "quadratic": Quadratic()}
