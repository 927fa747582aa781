r"""Whether log p̃ jumps: what its score says nothing of, by which every fit and NUTS go.

Along a line between two draws the change of log p̃ is the integral of its score,

.. math:: \log\tilde p(b) - \log\tilde p(a)
    = \int_0^1 (b - a)^\top \nabla\log\tilde p(a + t (b - a)) \, \mathrm d t,

where it is continuous. Where it is not, as of a level that changes at an unknown time, halving the
piece of a line that lacks most leaves as much missing; a cliff that a score does see is found by
then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.endless import RAISED

LINES, PIECES = 24, 8  # 400 scores to begin with, as many as a search for missed modes
# Halvings, until a piece is 10⁻⁸ of a line: rounding of log p̃ in the thousands is 10⁻¹², and a
# score of 10⁸ nats a line would be needed for as much by a cliff.
HALVINGS = 24
# Nats that are missing, and the share of lines on which they are, from which on it is said: the
# steps of a chain are refused there, or log p̃ would change as much by chance.
LEAST, SHARE = 0.5, 0.25
MOST_NAMED = 3


@dataclass(frozen=True)
class Jump:
    """Where log p̃ is not the integral of its score.

    Parameters
    ----------
    size
        Median of what is missing on lines that have a jump, nats.
    share
        Of lines between draws, those that have one.
    names
        Coordinates along which it jumps, unconstrained, and where one of the jumps is.
    """

    size: float
    share: float
    names: tuple[tuple[str, float], ...]

    @property
    def sentence(self) -> str:
        """What it means, and what to do."""
        where = ", ".join(f"{name} = {at:.3g}" for name, at in self.names[:MOST_NAMED])
        return (
            f"log p̃ jumps along {where or 'some direction'} (by {self.size:.2g} nats, on "
            f"{self.share:.0%} of the lines between draws), of which its score, by which fits and "
            "NUTS go, says nothing: sum over the places where it may jump, or write the step as a "
            "smooth one"
        )


def jump_among(density: CountedDensity, theta: Array, seed: int) -> Jump | None:
    """The jumps of log p̃ between draws ``theta`` (N, D); None where there are none to speak of."""
    rng = np.random.default_rng([seed, 6])
    if len(theta) < 2:
        return None
    a, b = (theta[rng.permutation(len(theta))[:LINES]] for _ in range(2))
    with np.errstate(all="ignore"):
        try:
            lower, upper, missing = _pieces_that_lack_most(density, a, b)
            for _ in range(HALVINGS):
                keep = np.abs(missing) > LEAST
                lower, upper = lower[keep], upper[keep]
                if len(lower) < SHARE * LINES:
                    return None
                lower, upper, missing = _halved(density, lower, upper)
            return Jump(
                float(np.median(np.abs(missing))), len(lower) / LINES,
                _along(density, lower, upper),
            )  # fmt: skip
        except RAISED:  # such numbers are an error there
            return None


def _pieces_that_lack_most(
    density: CountedDensity, a: Array, b: Array
) -> tuple[Array, Array, Array]:
    """Of each line from a to b (L, D) the ends of one of its pieces, and what it lacks, (L,)."""
    t = np.linspace(0, 1, PIECES + 1)[:, None, None]
    ends = a + t * (b - a)
    missing = _missing(density, ends[:-1], ends[1:])
    worst = np.abs(missing).argmax(axis=0)
    lines = np.arange(len(a))
    return ends[worst, lines], ends[worst + 1, lines], missing[worst, lines]


def _halved(density: CountedDensity, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
    """The half of each piece that lacks more."""
    middle = 0.5 * (lower + upper)
    halves = np.array([lower, middle]), np.array([middle, upper])
    missing = _missing(density, *halves)
    worst, pieces = np.abs(missing).argmax(axis=0), np.arange(len(lower))
    return halves[0][worst, pieces], halves[1][worst, pieces], missing[worst, pieces]


def _missing(density: CountedDensity, lower: Array, upper: Array) -> Array:
    """What the change of log p̃ on pieces (..., D) has beside the integral of its score, by
    Simpson's rule, (...); 0 where one is not finite."""
    places = np.array([lower, 0.5 * (lower + upper), upper])
    lp, score = density.log_density_gradient(places.reshape(-1, places.shape[-1]))
    lp, score = lp.reshape(places.shape[:-1]), score.reshape(places.shape)
    slope = (score * (upper - lower)).sum(axis=-1)
    found = lp[2] - lp[0] - (slope[0] + 4 * slope[1] + slope[2]) / 6
    return np.where(np.isfinite(found), found, 0.0)


def _along(density: CountedDensity, lower: Array, upper: Array) -> tuple[tuple[str, float], ...]:
    """Coordinates in which moving from one end of a piece to the other makes the jump."""
    names, counts, where = value_names(density), np.zeros(lower.shape[1]), lower.mean(axis=0)
    for low, high in zip(lower, upper, strict=True):
        one = np.where(np.eye(len(low), dtype=bool), high, low)
        change = np.abs(density.log_density(one) - density.log_density(low[None]))
        jumps = change > LEAST
        counts += jumps
        where[jumps] = low[jumps]
    order = np.argsort(-counts)
    return tuple((names[j], float(where[j])) for j in order if counts[j] > 0)
