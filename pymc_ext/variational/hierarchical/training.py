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
from pymc_ext.variational.gaussian.retreat import Retreat
from pymc_ext.variational.hierarchical.map import HierarchicalMap, Point
from pymc_ext.variational.hierarchical.marginal import Marginal
from pymc_ext.variational.hierarchical.moments import MomentSums

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
Columns = NDArray[np.integer]
RIDGE, MARGINAL_RIDGE = 0.005, 0.05  # information lent to a parameter: a batch may have none
LONGEST_SCALE, LONGEST_MEAN, LONGEST_TAIL = 0.5, 0.3, 0.2  # of one full step, see `_capped`
FARTHEST_OFFSET = 4.0  # |d|: beyond it the gate is open or shut to 3e-4
MOST_SKEW, TAILS = 2.0, (0.5, 2.5)  # of ε, and of δ: 2 is an exponential tail
FEW_GOVERNORS = 8  # in all, up to which one product over all pairs of them costs less than rows do
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
    def governing(self) -> Mask:
        """Of the coordinates that may, which govern a scale, (k,)."""
        return np.any(self.scales, axis=0)

    @cached_property
    def share_of_root(self) -> Array:
        """Of each entry of a symmetric change, what L takes: half of the diagonal, (D, k).

        None of a governor's own, which is stretched with all that it governs.
        """
        share = np.tril(self.root).astype(float)
        np.fill_diagonal(share, 0.5 * np.diag(share) * ~self.governing)
        return share

    @cached_property
    def columns_of_scales(self) -> tuple[Columns, Columns]:
        """Governors (G,), and the place among them of each row's, (R, P)."""
        governors = self.governors[1]
        columns, place = np.unique(governors, return_inverse=True)
        return columns, place.reshape(governors.shape)

    @cached_property
    def columns_of_squares(self) -> Columns:
        """Of Q, in which any entry is free."""
        return np.flatnonzero(self.squares.any(axis=0))

    @cached_property
    def columns_of_gated(self) -> Columns:
        """Of H."""
        return np.flatnonzero(self.gated.any(axis=0))

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
        self.retreat = Retreat(q)

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
        log_ratios = log_p - q.log_q(at)
        if self.retreat.fell(q, log_ratios):
            self.q = self.retreat.best
            return float(-np.mean(log_ratios))
        r = shorten_outliers(q.pullback_at(at, scores) + at.v)
        if self.averaging:
            self.moments.add(r, at.v)
        self.q = self._moved(at, r / at.slope)
        return float(-np.mean(log_ratios))

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
        rate *= self.retreat.damping
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
            columns = free.columns_of_squares
            bend = at.y[:, columns] ** 2 - 1
            step = _capped(scaled.T @ bend / np.mean(bend**2, axis=0), LONGEST_MEAN)
            squares = q.squares.copy()
            squares[:, columns] += rate * step * free.squares[:, columns]
            moved = replace(moved, squares=squares)
        if free.marginal.any():
            moved = replace(moved, marginal=self._marginal(at, r, rate))
        if free.governing.any():
            moved = moved.stretched(self._stretch(at, r, rate))
        return moved.shifted(rate * shift)

    def _stretch(self, at: Point, r: Array, rate: float) -> Array:
        """Factors of the governors' y, (k,), 1 where a coordinate governs none.

        The information of a normal's scale is 2, whatever follows from it: as L alone, with the
        slopes C as they are, the scale of a governor of many is stiff in all of them.
        """
        governing = self.free.governing
        y = at.y[:, : len(governing)]
        step = 0.5 * np.mean(r[:, : len(governing)] * y, axis=0)
        return np.where(governing, np.exp(rate * _capped(step, LONGEST_SCALE)), 1.0)

    def _linked(self, moved: HierarchicalMap, at: Point, h: Array, rate: float) -> HierarchicalMap:
        """``moved`` with C, d, m and H after a step."""
        q, free = self.q, self.free
        rows = free.governors[0]
        h, y = h[:, rows], at.y
        opening, scale = at.opening[:, rows], at.scale[:, rows]
        scales, offset, gated_mean = q.scales.copy(), q.offset.copy(), q.gated_mean.copy()
        self._step_scales(scales, offset, at, opening, h * scale * y[:, rows], rate)
        information = np.mean((opening / scale) ** 2, axis=0) + RIDGE
        by_inner = h * opening
        gated_mean[rows] += rate * _capped(by_inner.mean(axis=0) / information, LONGEST_MEAN)
        gated = q.gated
        if free.gated.any():
            columns = free.columns_of_gated
            own = np.ix_(rows, columns)
            step = by_inner.T @ y[:, columns] / len(h) / information[:, None]
            gated = gated.copy()
            gated[own] += rate * _capped(step, LONGEST_MEAN) * free.gated[own]
        return replace(moved, scales=scales, offset=offset, gated_mean=gated_mean, gated=gated)

    def _step_scales(
        self,
        scales: Array,
        offset: Array,
        at: Point,
        opening: Array,
        by_log_scale: Array,
        rate: float,
    ) -> None:
        """Add a step to C and d in place, those of one row solved together.

        ``opening`` and ``by_log_scale`` of the linked rows, (N, R).
        """
        rows, governors, real = self.free.governors
        columns, place = self.free.columns_of_scales
        information, right = normal_equations(
            1 - at.gate[:, rows], opening, by_log_scale, at.y[:, columns], place
        )
        P = governors.shape[1]
        if not real.all():
            information[:, :P] *= real[:, :, None]
            information[:, :, :P] *= real[:, None]
            right[:, :P] *= real
        information += RIDGE * np.eye(P + 1)
        step = np.linalg.solve(information, right[:, :, None])[:, :, 0]
        step = rate * _capped(step, LONGEST_SCALE)
        scales[rows[:, None], governors] += step[:, :-1] * real
        offset[rows] = _capped(offset[rows] + step[:, -1], FARTHEST_OFFSET)

    def _marginal(self, at: Point, r: Array, rate: float) -> Marginal:
        """ε and δ after a step, of the coordinates that are free."""
        marginal, columns = self.q.marginal, np.flatnonzero(self.free.marginal)
        bend = at.bend
        if bend is None or not np.array_equal(columns, marginal.bent):  # at first none is bent
            bend = marginal.of(columns).bend(at.v[:, columns])
        moves = bend.by_parameters()
        information = np.mean(2 * (moves / at.slope[:, columns]) ** 2, axis=1) + MARGINAL_RIDGE
        step = _capped(np.mean(r[:, columns] * moves, axis=1) / information, LONGEST_TAIL)
        skew, tails = marginal.skew.copy(), marginal.tails.copy()
        skew[columns] = _capped(skew[columns] + rate * step[0], MOST_SKEW)
        tails[:, columns] = np.clip(tails[:, columns] + rate * step[1:], *TAILS)
        return Marginal(skew, tails)


def normal_equations(
    shut: Array, opening: Array, by_log_scale: Array, y: Array, place: Columns
) -> tuple[Array, Array]:
    """Information of the slopes and offset of each row's log scale, (R, P + 1, P + 1), and the
    gradient in them, (R, P + 1).

    From 1 − g, g − g₀ and the gradient in a (N, R), y of the governors (N, G), and which of them
    are each row's (R, P). ∂a_i/∂(C_i·, d_i) are the features.
    """
    n, (R, P) = len(y), place.shape
    if y.shape[1] > FEW_GOVERNORS:
        features = np.empty((R, P + 1, n))
        features[:, :-1] = y.T[place] * shut.T[:, None]
        features[:, -1] = -opening.T
        right = features @ np.ascontiguousarray(by_log_scale.T)[:, :, None]
        return 2 * features @ features.swapaxes(1, 2) / n, right[:, :, 0] / n
    information, right = np.empty((R, P + 1, P + 1)), np.empty((R, P + 1))
    row = np.arange(R)[:, None]
    pairs = (y[:, :, None] * y[:, None]).reshape(n, -1)
    squares = ((shut * shut).T @ pairs).reshape(R, y.shape[1], -1)
    information[:, :-1, :-1] = squares[row[:, :, None], place[:, :, None], place[:, None]]
    crossed = ((shut * opening).T @ y)[row, place]
    information[:, -1, :-1] = information[:, :-1, -1] = -crossed
    information[:, -1, -1] = np.einsum("ni,ni->i", opening, opening)
    right[:, :-1] = ((shut * by_log_scale).T @ y)[row, place]
    right[:, -1] = -np.einsum("ni,ni->i", opening, by_log_scale)
    return 2 * information / n, right / n


def _capped(step: Array, longest: float) -> Array:
    return np.clip(step, -longest, longest)
