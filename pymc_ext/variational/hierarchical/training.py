r"""Training of the hierarchical map: steps of Fisher information by path residuals.

The path residual r = (∂T/∂v)ᵀ score + ∇_v log|det| + v is zero where q = p. What it says of w_i
alone is h = (∂w/∂y)⁻ᵀ r / M′, of w_i with all that depends on it r / (e^a M′). The ELBO's gradient
in each parameter is a mean of these times what the parameter moves, and each is divided by the
matching mean square, its share of the Fisher information. Slopes and offset of one log scale are
solved for together, as are the means of one row (:mod:`.rows`); one at a time they stall.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.marginal import MOST_SKEW, TAILS, Marginal
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.course import Averaged
from pymc_ext.variational.gaussian.natural_gradient import step_draws, step_rate
from pymc_ext.variational.gaussian.numbers import antithetic, shorten_outliers, whole_pairs
from pymc_ext.variational.gaussian.retreat import Retreat
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.map import HierarchicalMap, Point
from pymc_ext.variational.hierarchical.moments import MomentSums
from pymc_ext.variational.hierarchical.rows import LONGEST_MEAN, RIDGE, mean_steps, slope_equations

FEWEST = 4  # draws from which a step is taken
MARGINAL_RIDGE = 0.05  # as `RIDGE`: tails are known by few draws
LONGEST_SCALE, LONGEST_TAIL = 0.5, 0.2  # of one full step, see `_capped`
FARTHEST_OFFSET = 4.0  # |d|: beyond it the gate is open or shut to 3e-4
MARGINAL_RATE, MARGINAL_DELAY = 0.3, 15.0  # tails are known by few draws: slower, longer


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
        at, log_p, scores = self._seen(antithetic(self.rng, self.draws, q.dimension))
        if len(scores) < FEWEST:
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

    def _seen(self, v: Array) -> tuple[Point, Array, Array]:
        """The map at latents in mirrored pairs, log p̃ and scores there; pairs without are left
        out."""
        at = self.q.at(v)
        with np.errstate(all="ignore"):
            log_p, scores = self.density.log_density_gradient(self.q.theta(at))
        usable = whole_pairs(np.isfinite(log_p) & np.isfinite(scores).all(axis=1))
        if usable.all():
            return at, log_p, scores
        return self.q.at(at.v[usable]), log_p[usable], scores[usable]

    def parameters(self) -> tuple[Array, ...]:
        q = self.q
        tails = (q.marginal.skew, q.marginal.tails)
        layer = q.scales, q.squares, q.gated, q.offset, q.gated_mean
        return q.center, *layer, *tails, *q.root.arrays

    def posterior(self, *parameters: Array) -> HierarchicalMap:
        center, scales, squares, gated, offset, gated_mean, skew, tails, *arrays = parameters
        root, marginal = self.q.root.of_arrays(arrays), Marginal(skew, tails)
        return HierarchicalMap(
            self.q.order, center, root, scales, squares, gated, offset, gated_mean, marginal,
            self.q.sense,
        )  # fmt: skip

    def _moved(self, at: Point, r: Array) -> HierarchicalMap:
        """The map after one step; ``r`` is the residual in y, (N, D)."""
        q, free = self.q, self.free
        rate = step_rate(self.since_restart)
        if free.marginal.any():
            rate = step_rate(self.since_restart, MARGINAL_RATE, MARGINAL_DELAY)
        rate *= self.retreat.damping
        h, own = q.solve_jacobian_transposed(at, r), r / at.scale
        sd = at.scale * at.slope
        information = np.mean(1 / (sd * sd), axis=0)
        scaled = h / information / len(h)
        shift = np.mean(own, axis=0) / information
        longest = 0.5 * np.sqrt(q.dimension)
        shift *= longest / max(longest, float(np.linalg.norm(shift)))
        shift *= rate
        moved = q.with_root(*q.root.stepped(scaled, at.w, free.share_of_root, rate))
        if free.linked.any():
            moved, shift[free.governors[0]] = self._linked(moved, at, own, rate)
        if free.squares.any():
            columns = free.columns_of_squares
            bend = at.w[:, columns] ** 2 - 1
            step = _capped(own.T @ bend / ((sd**-2).T @ bend**2), LONGEST_MEAN)
            squares = q.squares.copy()
            squares[:, columns] += rate * step * free.squares[:, columns]
            moved = replace(moved, squares=squares)
        if free.marginal.any():
            moved = replace(moved, marginal=self._marginal(at, r, rate))
        return moved.moved(shift, self._scales(at, r, rate))

    def _scales(self, at: Point, r: Array, rate: float) -> Array:
        """Factors of the governors' y, (k,), 1 where a coordinate governs none.

        The information of a normal's scale is 2, whatever follows from it: as L alone, with the
        slopes C as they are, the scale of a governor of many is stiff in all of them.
        """
        governing = self.free.governing
        y = at.y[:, : len(governing)]
        step = 0.5 * np.mean(r[:, : len(governing)] * y, axis=0)
        return np.where(governing, np.exp(rate * _capped(step, LONGEST_SCALE)), 1.0)

    def _linked(
        self,
        moved: HierarchicalMap,
        at: Point,
        own: Array,
        rate: float,
        weights: Array | None = None,
    ) -> tuple[HierarchicalMap, Array]:
        """``moved`` with C, d, m, H and L's entries beside H after a step, and what the linked rows
        then add to w, (R,).

        ``own`` is the gradient in w with all that depends on it, (N, D). Draws far out have
        ``weights`` for each row (N, R), and leave means in the necks where they are when d moves;
        without, means stay in the middle.
        """
        q, free = self.q, self.free
        rows = free.governors[0]
        h, gate, scale = own[:, rows], at.gate[:, rows], at.scale[:, rows]
        by_log_scale = q.sense[rows] * h * scale * at.y[:, rows]
        moved = self._with_scales(moved, at, by_log_scale, rate, weights)
        precision = (scale * at.slope[:, rows]) ** -2
        if weights is not None:
            h, precision = h * weights, precision * weights
        columns, place, real = free.means
        w = np.concatenate([np.ones((len(h), 1)), at.w[:, columns]], axis=1)
        straight, through = mean_steps(h, gate, precision, w, place, real)
        gated_mean, gated = moved.gated_mean.copy(), moved.gated
        constant, linear = rate * straight[:, 0], np.zeros_like(gated)
        if weights is None:
            opened = (moved.gate_at_zero - q.gate_at_zero)[rows]
            constant -= opened * gated_mean[rows]
            linear[rows] = -opened[:, None] * gated[rows]
        gated_mean[rows] += rate * through[:, 0]
        if len(columns):
            of_row, of_column = np.nonzero(real[:, 1:])
            entries = rows[of_row], columns[place[of_row, of_column + 1] - 1]
            gated = gated.copy()
            gated[entries] += rate * through[of_row, of_column + 1]
            linear[entries] += rate * straight[of_row, of_column + 1]
        moved = replace(moved, gated_mean=gated_mean, gated=gated)
        if len(columns):
            root = moved.root.changed(np.ones(q.dimension), linear)
            moved = moved.with_root(root, linear[: q.governors])
        return moved, constant

    def _with_scales(
        self,
        moved: HierarchicalMap,
        at: Point,
        by_log_scale: Array,
        rate: float,
        weights: Array | None,
    ) -> HierarchicalMap:
        """``moved`` with C and d after a step, those of one row solved together.

        ``by_log_scale`` and ``weights`` of the linked rows, (N, R).
        """
        rows, governors, real = self.free.governors
        columns, place = self.free.columns_of_scales
        gate = at.gate[:, rows]
        shut, opening = 1 - gate, gate - self.q.gate_at_zero[rows]
        if weights is not None:
            shut, opening, by_log_scale = (
                np.sqrt(weights) * x for x in (shut, opening, by_log_scale)
            )
        information, right = slope_equations(shut, opening, by_log_scale, at.w[:, columns], place)
        P = governors.shape[1]
        if not real.all():
            information[:, :P] *= real[:, :, None]
            information[:, :, :P] *= real[:, None]
            right[:, :P] *= real
        information += RIDGE * np.eye(P + 1)
        step = np.linalg.solve(information, right[:, :, None])[:, :, 0]
        step = rate * _capped(step, LONGEST_SCALE)
        scales, offset = moved.scales.copy(), moved.offset.copy()
        scales[rows[:, None], governors] += step[:, :-1] * real
        offset[rows] = _capped(offset[rows] + step[:, -1], FARTHEST_OFFSET)
        return replace(moved, scales=scales, offset=offset)

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


def _capped(step: Array, longest: float) -> Array:
    return np.clip(step, -longest, longest)
