"""Scores near a point before and after random parts of the coordinates are moved: who depends on
whom, as in group testing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array

Places = NDArray[np.integer]
Flags = NDArray[np.bool_]
STEP = 0.5  # sds by which coordinates move: where the density is, and far above rounding
LEAST_CHANGE = 1e-6  # of a score times its sd; what depends on a neighbour changes by about one
PARTS = 64  # of a partition; a local on k globals sees 64 (1 − e^(−k/64)) of them, half for k = 44
SHARE = 0.75  # of the parts from which on a coordinate is a global: beyond 88 it sees so many
MOST_GLOBALS = 88
MOST_MEMBERS = 8  # of a group that is looked at as one; in larger ones coordinates have neighbours
AT_ONCE = 2**22  # numbers in points made together


class Probe:
    """A density near a point.

    Parameters
    ----------
    point
        Where coordinates are before they move, (D,).
    sd
        Of each coordinate, (D,).
    rng
        Of the moves.
    """

    def __init__(
        self, density: CountedDensity, point: Array, sd: Array, rng: np.random.Generator
    ) -> None:
        self.density, self.point, self.sd, self.rng = density, point, sd, rng
        with np.errstate(all="ignore"):
            _, self.before = density.log_density_gradient(point[None])

    def partition(self, coordinates: Places, parts: int) -> tuple[Array, Places]:
        """Moves (parts, D) of random parts of some coordinates (L,), and the part of each, (L,)."""
        part = self.rng.permutation(np.arange(len(coordinates)) % parts)
        size = STEP * self.sd[coordinates] * self.rng.uniform(0.5, 1.0, len(coordinates))
        moves = np.zeros((parts, len(self.sd)))
        moves[part, coordinates] = size * self.rng.choice([-1.0, 1.0], len(coordinates))
        return moves, part

    def changes(self, moves: Array) -> Array:
        """Of the score by each of some moves, (M, D); NaN where there is no density."""
        rows = max(1, AT_ONCE // moves.shape[1])
        with np.errstate(all="ignore"):
            after = [
                self.density.log_density_gradient(self.point + moves[k : k + rows])[1]
                for k in range(0, len(moves), rows)
            ]
            return np.concatenate(after) - self.before

    def moved(self, changes: Array) -> Flags:
        """Where a score changes, (M, D); one that is NaN does."""
        return ~(np.abs(changes) * self.sd <= LEAST_CHANGE)

    def on_all(self, changes: Array) -> Flags:
        """Whose scores nearly all moves change, (D,)."""
        return np.asarray(self.moved(changes).mean(axis=0) > SHARE)
