r"""A field given its globals: its maximum by Newton's steps, its precision by few differences."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.bordered import BorderedRoot
from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.neighbours import Neighbours
from pymc_ext.variational.fields.precision import PrecisionRoot
from pymc_ext.variational.fields.probe import Flags

DIFFERENCE = 1e-4  # of an sd given all others: rounding is 1e-12 of a score, curvature 1e-4 of one
CLOSE = 1e-6  # Newton decrement, twice the nats below the maximum
# Of log det K, by which the precision of a step's beginning may differ: slopes of the evidence are
# by differences a hundred times as large.
NEARLY = 1e-5
MOST_NEWTON, MOST_HALVINGS = 50, 20
# Of the diagonal, what is added where a precision is not positive or a step leads down: more after
# each failure, less after each step.
RIDGE, MORE, MOST_RIDGE = 1e-3, 10.0, 1e6


class NoMaximumError(ArithmeticError):
    """The locals have no maximum that Newton's steps reach."""


@dataclass(frozen=True)
class Conditional:
    """The locals given the globals.

    Parameters
    ----------
    point
        Globals and the locals' maximum, by place, (D,).
    score
        There, (D,); that of the locals is nearly zero.
    evidence
        log p̃ − ½ log det Λ: up to a constant the log density of the globals by Laplace's method.
    root
        Of the precision Λ of the locals.
    scale
        Sds by which the differences behind Λ were scaled, (n,).
    """

    point: Array
    score: Array
    evidence: float
    root: PrecisionRoot
    scale: Array

    @property
    def sds(self) -> Array:
        """Of locals, each given those after it, (n,): what differences are scaled by."""
        return 1 / self.root.root.diagonal

    @property
    def rounding(self) -> float:
        """Largest share of a mean's pivot, K_kk², that may be rounding of differences of scores.

        An effect's score is rounded by ε |x_j| K_jj², and Λ_jj, from its difference over h sds, by
        ε |x_j| K_jj³ / h. Deep in a neck what all say of their mean is a difference of such sums.
        """
        root, n = self.root.root, len(self.scale)
        first = n - root.border
        diagonal, rows = root.diagonal, root.entries[len(root.entries) - root.border :, :first]
        noise = (
            np.finfo(float).eps / DIFFERENCE * np.abs(self.point[:first]) * diagonal[:first] ** 3
        )
        shares = (rows / diagonal[:first]) ** 2 @ noise / diagonal[first:] ** 2
        return float(shares.max(initial=0.0))

    @property
    def numbers(self) -> Array:
        """x̂, logs of the root's diagonal, and its other entries as ratios to it, (b + m + 2, n)."""
        entries = self.root.root.entries.copy()
        entries[1:] /= entries[0]
        entries[0] = np.log(entries[0])
        return np.concatenate([self.point[None, : entries.shape[1]], entries])


class ByPlace:
    """A density with its coordinates in the order of `Neighbours`, and its conditionals."""

    def __init__(self, density: CountedDensity, near: Neighbours) -> None:
        self.density, self.near, self.n = density, near, near.field
        self._inverse = np.argsort(near.order)

    def with_means(self, chosen: Flags, at: Conditional) -> tuple[ByPlace, Array]:
        """With some of the globals (g,) among the field's own, and the point of ``at`` there."""
        there = ByPlace(self.density, self.near.with_means(chosen))
        return there, self.coordinates(at.point)[there.near.order]

    def coordinates(self, point: Array) -> Array:
        """Of a point by place (D,) in the density's own order."""
        return point[self._inverse]

    def scores(self, points: Array) -> tuple[Array, Array]:
        """log p̃ and its score, (N, D) -> (N,), (N, D). NoMaximumError where they are not finite."""
        with np.errstate(all="ignore"):
            log_p, scores = self.density.log_density_gradient(points[:, self._inverse])
        if not (np.isfinite(log_p).all() and np.isfinite(scores).all()):
            raise NoMaximumError("log p̃ or its score is not finite on the way")
        return log_p, scores[:, self.near.order]

    def conditional(self, point: Array, sds: Array, within: float = NEARLY) -> Conditional:
        """Of the globals of ``point`` (D,), by steps from its locals; ``sds`` as of `Conditional`.

        The precision may be that of the last step's beginning, where log det K changes by less than
        ``within`` on the step.

        Raises
        ------
        NoMaximumError
            There is none that Newton's steps reach.
        """
        ridge, n = 0.0, self.n
        log_p, score = self._at(point)
        for _ in range(MOST_NEWTON):
            try:
                field = self.field(point, score, sds, ridge)
            except np.linalg.LinAlgError:
                ridge = _more(ridge)
                continue
            before = field.whitened(score[None, :n])[0]
            if ridge == 0 and before @ before < CLOSE:
                return Conditional(point, score, log_p - field.log_det, field, sds)
            higher = self._higher(point, log_p, field.draws(before[None])[0])
            if higher is None:
                ridge, sds = _more(ridge), 1 / field.root.diagonal
                continue
            point, log_p, score = higher
            after = field.whitened(score[None, :n])[0]
            # of a score that is linear on the step nothing is left, and its precision is constant
            straight = n * (after @ after) < within**2 * (before @ before)
            if ridge == 0 and straight and after @ after < CLOSE:
                return Conditional(point, score, log_p - field.log_det, field, sds)
            ridge, sds = ridge / MORE if ridge > RIDGE else 0.0, 1 / field.root.diagonal
        raise NoMaximumError(f"no maximum of the locals after {MOST_NEWTON} steps")

    def field(self, point: Array, score: Array, sds: Array, ridge: float = 0.0) -> PrecisionRoot:
        """The law of Λ at a point (D,) with its score, and with a ridge on Λ.

        Raises LinAlgError where that is not positive definite.
        """
        moves = self.near.moves(DIFFERENCE * sds)
        points = np.tile(point, (len(moves), 1))
        points[:, : self.n] += moves
        changes = self.scores(points)[1] - score
        entries = self.near.entries(changes[:, : self.n], DIFFERENCE * sds)
        entries[0] += ridge * (np.abs(entries[0]) + np.median(np.abs(entries[0])))
        return PrecisionRoot(BorderedRoot.of(entries, self.near.means), self.near.common)

    def _at(self, point: Array) -> tuple[float, Array]:
        """log p̃ and its score at (D,)."""
        (log_p,), (score,) = self.scores(point[None])
        return float(log_p), score

    def _higher(self, point: Array, log_p: float, step: Array) -> tuple[Array, float, Array] | None:
        """The point after a step, or after half of one …, where log p̃ is no lower, with log p̃ and
        its score there."""
        for _ in range(MOST_HALVINGS):
            moved = point.copy()
            moved[: self.n] += step
            with suppress(NoMaximumError):
                found = self._at(moved)
                if found[0] > log_p - CLOSE:
                    return moved, *found
            step = step / 2
        return None


def _more(ridge: float) -> float:
    if ridge >= MOST_RIDGE:
        raise NoMaximumError("no step of the locals leads up")
    return max(RIDGE, MORE * ridge)
