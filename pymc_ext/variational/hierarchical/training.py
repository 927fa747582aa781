r"""Training of the hierarchical map: steps of Fisher information by path residuals.

The path residual r = (∂T/∂v)ᵀ score + ∇_v log|det| + v is zero where q = p; h = (∂w/∂y)⁻ᵀ r / M′ is
its part in w. The ELBO's gradient in each parameter is a mean of h times what the parameter moves,
and each is divided by the matching mean square, its share of the Fisher information. Slopes and
offset of one log scale are solved for together; one at a time they stall.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.course import Averaged
from pymc_ext.variational.gaussian.natural_gradient import step_draws, step_rate
from pymc_ext.variational.gaussian.numbers import antithetic, shorten_outliers, whole_pairs
from pymc_ext.variational.hierarchical.map import HierarchicalMap, Point
from pymc_ext.variational.hierarchical.marginal import Marginal
from pymc_ext.variational.hierarchical.moments import MomentSums

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
RIDGE, MARGINAL_RIDGE = 0.005, 0.05  # information lent to a parameter: a batch may have none
LONGEST_SCALE, LONGEST_MEAN, LONGEST_TAIL = 0.5, 0.3, 0.2  # of one full step, see `_capped`
FARTHEST_OFFSET = 4.0  # |d|: beyond it the gate is open or shut to 3e-4
MOST_SKEW, TAILS = 2.0, (0.5, 2.5)  # of ε, and of δ: 2 is an exponential tail
MARGINAL_RATE, MARGINAL_DELAY = 0.3, 15.0  # tails are known by few draws: slower, longer


@dataclass(frozen=True)
class Free:
    """Which entries of a map may move.

    Parameters
    ----------
    scales, squares, gated, root
        Of C, Q, H, and of L's columns of what may govern, (D, k).
    marginal
        Coordinates whose marginal map moves, (D,).
    """

    scales: Mask
    squares: Mask
    gated: Mask
    root: Mask
    marginal: Mask

    @classmethod
    def none(cls, dimension: int, governors: int) -> Free:
        """Nothing but the Gaussian."""
        no = np.zeros((dimension, governors), dtype=bool)
        return cls(no, no, no, np.tri(*no.shape) > 0, np.zeros(dimension, dtype=bool))

    @classmethod
    def of(cls, q: HierarchicalMap) -> Free:
        """What is not zero in ``q``: to go on from it."""
        marginal = np.zeros(q.dimension, dtype=bool)
        marginal[q.marginal.bent] = True
        below = np.tri(*q.scales.shape) > 0
        root = ((q.root.coupling != 0) | (q.scales == 0)) & below
        return cls(q.scales != 0, q.squares != 0, q.gated != 0, root, marginal)

    def __or__(self, other: Free) -> Free:
        """What is free in either."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Free(*(a | b for a, b in pairs))

    @cached_property
    def linked(self) -> Mask:
        """Coordinates whose scale has a governor, (D,)."""
        return np.any(self.scales, axis=1)

    @cached_property
    def share_of_root(self) -> Array:
        """Of each entry of a symmetric change, what L takes: half of the diagonal, (D, k)."""
        share = np.tril(self.root).astype(float)
        np.fill_diagonal(share, 0.5 * np.diag(share))
        return share

    @cached_property
    def governors(self) -> tuple[NDArray[np.integer], NDArray[np.integer], Mask]:
        """Linked rows (R,), the governors of each, padded (R, P), and which are real (R, P)."""
        rows = np.flatnonzero(self.linked)
        count = self.scales[rows].sum(axis=1)
        padded = np.argsort(~self.scales[rows], axis=1, kind="stable")[:, : count.max(initial=0)]
        return rows, padded, np.arange(padded.shape[1]) < count[:, None]


class Training(Averaged[HierarchicalMap]):
    """Steps on the numbers of a map that are free."""

    def __init__(
        self, density: CountedDensity, q: HierarchicalMap, free: Free, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.density, self.q, self.free, self.rng = density, q, free, rng
        self.draws = step_draws(q.governors)
        self.moments = MomentSums(q.governors)

    def forget_average(self) -> None:
        super().forget_average()
        self.moments = MomentSums(self.q.governors)

    def advance(self) -> float:
        q = self.q
        at = q.at(antithetic(self.rng, self.draws, q.dimension))
        with np.errstate(all="ignore"):
            log_p, scores = self.density.log_density_gradient(q.theta(at))
        usable = whole_pairs(np.isfinite(log_p) & np.isfinite(scores).all(axis=1))
        if not usable.all():
            at, log_p, scores = q.at(at.v[usable]), log_p[usable], scores[usable]
        if len(scores) < 4:
            return np.inf
        r = shorten_outliers(q.pullback_at(at, scores) + at.v)
        if self.averaging:
            self.moments.add(r, at.v)
        self.q = self._moved(at, r / at.slope)
        return float(np.mean(q.log_q(at) - log_p))

    def parameters(self) -> tuple[Array, ...]:
        q = self.q
        tails = (q.marginal.skew, q.marginal.tails)
        layer = q.scales, q.squares, q.gated, q.offset, q.gated_mean
        return q.center, *layer, *tails, *q.root.arrays

    def posterior(self, *parameters: Array) -> HierarchicalMap:
        center, scales, squares, gated, offset, gated_mean, skew, tails, *arrays = parameters
        root, marginal = self.q.root.of_arrays(arrays), Marginal(skew, tails)
        return HierarchicalMap(
            self.q.order, center, root, scales, squares, gated, offset, gated_mean, marginal
        )

    def _moved(self, at: Point, r: Array) -> HierarchicalMap:
        """The map after one step; ``r`` is the residual in y, (N, D)."""
        q, free = self.q, self.free
        rate = step_rate(self.since_restart)
        if free.marginal.any():
            rate = step_rate(self.since_restart, MARGINAL_RATE, MARGINAL_DELAY)
        h = q.solve_jacobian_transposed(at, r)
        sd = at.scale * at.slope
        information = np.mean(1 / (sd * sd), axis=0)
        scaled = h / information / len(h)
        # along a shift of w with all that it governs, for which r has the dependents' part
        shift = np.mean(r + (1 - at.scale) * h, axis=0) / information
        longest = 0.5 * np.sqrt(q.dimension)
        shift *= longest / max(longest, float(np.linalg.norm(shift)))
        moved = replace(q, root=q.root.stepped(scaled, at.w, free.share_of_root, rate))
        if free.linked.any():
            moved = self._linked(moved, at, h, rate)
        if free.squares.any():
            bend = at.y[:, : q.governors] ** 2 - 1
            squares = scaled.T @ bend / np.mean(bend**2, axis=0)
            squares = rate * _capped(squares, LONGEST_MEAN) * free.squares
            moved = replace(moved, squares=q.squares + squares)
        if free.marginal.any():
            moved = replace(moved, marginal=self._marginal(at, r, rate))
        return moved.shifted(rate * shift)

    def _linked(self, moved: HierarchicalMap, at: Point, h: Array, rate: float) -> HierarchicalMap:
        """``moved`` with C, d, m and H after a step."""
        q, free = self.q, self.free
        scales, offset = self._scale_step(at, h * at.scale * at.y)
        information = np.mean((at.opening / at.scale) ** 2, axis=0) + RIDGE
        by_inner = h * at.opening
        mean = _capped(by_inner.mean(axis=0) / information, LONGEST_MEAN) * free.linked
        gated = q.gated
        if free.gated.any():
            step = by_inner.T @ at.y[:, : q.governors] / len(h) / information[:, None]
            gated = gated + rate * _capped(step, LONGEST_MEAN) * free.gated
        return replace(
            moved,
            scales=q.scales + rate * scales,
            offset=_capped(q.offset + rate * offset, FARTHEST_OFFSET),
            gated_mean=q.gated_mean + rate * mean,
            gated=gated,
        )

    def _scale_step(self, at: Point, by_log_scale: Array) -> tuple[Array, Array]:
        """Full steps of C and d, those of one row solved together."""
        q, n = self.q, len(at.y)
        rows, governors, real = self.free.governors
        # ∂a_i/∂(C_i·, d_i), (R, P + 1, N)
        features = np.empty((len(rows), governors.shape[1] + 1, n))
        features[:, :-1] = at.y.T[governors] * (1 - at.gate.T[rows, None]) * real[:, :, None]
        features[:, -1] = -at.opening.T[rows]
        information = 2 * features @ features.swapaxes(1, 2) / n
        information += RIDGE * np.eye(features.shape[1])
        right = features @ by_log_scale.T[rows, :, None] / n
        step = _capped(np.linalg.solve(information, right)[:, :, 0], LONGEST_SCALE)
        scales, offset = np.zeros_like(q.scales), np.zeros_like(q.offset)
        np.put_along_axis(
            wide := np.zeros((len(rows), q.governors)), governors, step[:, :-1] * real, 1
        )
        scales[rows], offset[rows] = wide, step[:, -1]
        return scales, offset

    def _marginal(self, at: Point, r: Array, rate: float) -> Marginal:
        """ε and δ after a step, of the coordinates that are free."""
        marginal, columns = self.q.marginal, np.flatnonzero(self.free.marginal)
        moves = marginal.of(columns).by_parameters(at.v[:, columns])
        information = np.mean(2 * (moves / at.slope[:, columns]) ** 2, axis=1) + MARGINAL_RIDGE
        step = _capped(np.mean(r[:, columns] * moves, axis=1) / information, LONGEST_TAIL)
        skew, tails = marginal.skew.copy(), marginal.tails.copy()
        skew[columns] = _capped(skew[columns] + rate * step[0], MOST_SKEW)
        tails[:, columns] = np.clip(tails[:, columns] + rate * step[1:], *TAILS)
        return Marginal(skew, tails)


def _capped(step: Array, longest: float) -> Array:
    return np.clip(step, -longest, longest)
