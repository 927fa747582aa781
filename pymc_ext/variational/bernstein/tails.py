"""What a flow adds beyond its polynomial, so that q has all of R^D as support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymc_ext.maths.flow_kernels import tail_functions
from pymc_ext.maths.namespace import NUMPY, Elementwise, Namespace

IN_TAILS = 0.5  # share of the identity that the tails carry at the start
CURVATURE = 0.02  # of a quadratic tail at the start, in units of y per x²


@dataclass(frozen=True)
class Tails:
    """The sum of the first :func:`~pymc_ext.maths.flow_kernels.tail_functions`, each times a slope.

    Parameters
    ----------
    start, identity
        Slopes of a component at the start, and those with which the sum is x: as many as there are
        functions in it, none of them negative. None at all is the paper's flow, where q ends at ϑ_0
        and ϑ_M; with four a normal latent variable gets exponential tails.
    """

    start: tuple[float, ...] = ()
    identity: tuple[float, ...] = ()

    @property
    def slopes(self) -> int:
        """Slopes of each component."""
        return len(self.start)

    @property
    def share(self) -> float:
        """Part of the identity that they carry at the start; the polynomial has the rest."""
        return IN_TAILS if self.start else 0.0

    def value(
        self, x: Elementwise, slopes: Sequence[Elementwise], xp: Namespace = NUMPY
    ) -> tuple[Elementwise, Elementwise]:
        """An increasing function of x, and its derivative, of the shape of x.

        ``xp`` is ``NUMPY`` or ``pytensor.tensor``.
        """
        functions = tail_functions(xp.softplus(x), xp.softplus(-x), xp.sigmoid(x), xp.sigmoid(-x))
        terms = list(zip(slopes, functions[: self.slopes], strict=True))
        return sum(s * f[0] for s, f in terms), sum(s * f[1] for s, f in terms)


TAILS: dict[str, Tails] = {
    "bounded": Tails(),
    "linear": Tails((IN_TAILS, IN_TAILS), (1.0, 1.0)),
    "quadratic": Tails((IN_TAILS, IN_TAILS, CURVATURE, CURVATURE), (1.0, 1.0, 0.0, 0.0)),
}
