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
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.checks import JUMPS, Check
from pymc_ext.variational.ill_posed.endless import RAISED

LINES, PIECES = 24, 8  # 408 scores to begin with, as many as a search for missed modes
# Halvings, until a piece is 10⁻⁸ of a line: rounding of log p̃ in the thousands is 10⁻¹², and a
# score of 10⁸ nats a line would be needed for as much by a cliff.
HALVINGS = 24
# Nats that are missing, and the share of lines on which they are, from which on it is said: the
# steps of a chain are refused there, or log p̃ would change as much by chance.
LEAST, SHARE = 0.5, 0.25
SAME = 1e-6  # of a line: places of one jump differ by less


@dataclass(frozen=True)
class Jump:
    """Where log p̃ is not the integral of its score.

    Parameters
    ----------
    size
        Median of what is missing on lines that have a jump, nats.
    share
        Of lines between draws, those that have one.
    name
        A coordinate along which it jumps, unconstrained.
    place
        Where, in that coordinate; None where it is elsewhere on other lines.
    """

    size: float
    share: float
    name: str
    place: float | None

    @property
    def sentence(self) -> str:
        """What it means, and what to do."""
        where = self.name if self.place is None else f"{self.name} at {self.place:.3g}"
        return (
            f"log p̃ jumps along {where} (by {self.size:.2g} nats, on {self.share:.0%} of the lines "
            "between draws), of which its score, by which fits and NUTS go, says nothing: sum over "
            "the places where it may jump, or write the step as a smooth one, as of x by "
            "sigmoid((t - x) / width)"
        )

    @property
    def check(self) -> Check:
        """By its size; it does not pass."""
        return Check(JUMPS, False, self.sentence, self.size, LEAST)


def jump_among(density: CountedDensity, theta: Array, seed: int) -> Jump | None:
    """The jumps of log p̃ between draws ``theta`` (N, D); None where there are none to speak of."""
    if len(theta) < 2:
        return None
    rng = np.random.default_rng([seed, 6])
    a, b = (theta[rng.permutation(len(theta))[:LINES]] for _ in range(2))
    with np.errstate(all="ignore"):
        try:
            pieces = _Pieces.that_lack_most(density, a, b)
            for _ in range(HALVINGS):
                pieces = pieces.where(np.abs(pieces.missing) > LEAST)
                if len(pieces.a) < SHARE * LINES:
                    return None
                pieces = pieces.halved(density)
            name, place = _along(density, pieces)
        except RAISED:  # such numbers are an error there
            return None
    size = float(np.median(np.abs(pieces.missing)))
    return Jump(size, len(pieces.a) / LINES, name, place)


@dataclass(frozen=True)
class _Pieces:
    """One piece of each of L lines from a to b, (L, D).

    ``t`` (3, L) are its ends and its middle as shares of the line, ``lp`` and ``slope`` (3, L) log
    p̃ there and the score along the whole line.
    """

    a: Array
    b: Array
    t: Array
    lp: Array
    slope: Array

    @classmethod
    def that_lack_most(cls, density: CountedDensity, a: Array, b: Array) -> _Pieces:
        """Of `PIECES` of each line."""
        t = np.repeat(np.linspace(0, 1, 2 * PIECES + 1)[:, None], len(a), axis=1)
        return cls._worst(a, b, t, *_at(density, a, b, t))

    @classmethod
    def _worst(cls, a: Array, b: Array, t: Array, lp: Array, slope: Array) -> _Pieces:
        """Of pieces whose ends and middles are at t (2 K + 1, L)."""
        first = 2 * np.abs(_missing(t, lp, slope)).argmax(axis=0)
        rows = first + np.arange(3)[:, None], np.arange(len(a))
        return cls(a, b, t[rows], lp[rows], slope[rows])

    @property
    def missing(self) -> Array:
        """What the change of log p̃ has beside the integral of its score, (L,)."""
        return _missing(self.t, self.lp, self.slope)[0]

    def where(self, kept: NDArray[np.bool_]) -> _Pieces:
        """Those of some lines."""
        numbers = (x[:, kept] for x in (self.t, self.lp, self.slope))
        return _Pieces(self.a[kept], self.b[kept], *numbers)

    def halved(self, density: CountedDensity) -> _Pieces:
        """The half of each that lacks more."""
        t = 0.5 * (self.t[:-1] + self.t[1:])
        found = (t, *_at(density, self.a, self.b, t))
        both = (
            np.insert(old, [1, 2], new, axis=0)
            for old, new in zip((self.t, self.lp, self.slope), found, strict=True)
        )
        return self._worst(self.a, self.b, *both)


def _at(density: CountedDensity, a: Array, b: Array, t: Array) -> tuple[Array, Array]:
    """log p̃ and its score along lines, at shares t (K, L) of them, (K, L) each."""
    places = a + t[..., None] * (b - a)
    lp, score = density.log_density_gradient(places.reshape(-1, a.shape[1]))
    return lp.reshape(t.shape), (score.reshape(places.shape) * (b - a)).sum(axis=-1)


def _missing(t: Array, lp: Array, slope: Array) -> Array:
    """By Simpson's rule on pieces whose ends and middles are at t (2 K + 1, L), (K, L); 0 where
    something is not finite."""
    mean = (slope[:-2:2] + 4 * slope[1::2] + slope[2::2]) / 6
    found = np.diff(lp[::2], axis=0) - mean * np.diff(t[::2], axis=0)
    return np.where(np.isfinite(found), found, 0.0)


def _along(density: CountedDensity, pieces: _Pieces) -> tuple[str, float | None]:
    """A coordinate that makes most of the jumps: that at which moving one after the other from one
    end of a piece to the other does; and where it is, if it is there on all of these lines."""
    a, b = pieces.a, pieces.b
    low, high = (a + t[:, None] * (b - a) for t in pieces.t[[0, 2]])
    before = np.zeros(len(a), dtype=int)  # as many are moved without the jump
    after = np.full(len(a), a.shape[1])  # and with it
    while np.any(after - before > 1):
        half = (before + after) // 2
        moved = np.where(np.arange(a.shape[1]) < half[:, None], high, low)
        jumped = np.abs(density.log_density(moved) - pieces.lp[0]) > 0.5 * np.abs(pieces.missing)
        before, after = np.where(jumped, before, half), np.where(jumped, half, after)
    coordinates, counts = np.unique(before, return_counts=True)
    j = int(coordinates[counts.argmax()])
    places = low[before == j, j]
    is_one = np.ptp(places) <= SAME * np.abs(b - a)[:, j].max()
    return value_names(density)[j], float(places[0]) if is_one else None
