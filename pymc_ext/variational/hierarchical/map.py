r"""The conditional laws of hierarchical models as one autoregressive layer, in numbers.

In a normal hierarchy θ_i | ℓ, τ ~ N(ℓ, τ²), seen with precision σ⁻², the conditional posterior has
g = τ²/(τ² + σ²) = sigmoid(2 log(τ/σ)), sd σ√g and mean ℓ + g (κ − ℓ). One layer of this law, in an
order of the coordinates in which whatever governs comes before what it governs, v ~ N(0, I):

.. math:: x_i &= \textstyle\sum_{j<i} C_{ij} w_j + d_i, \quad g_i = \mathrm{sigmoid}(2 x_i), \quad
    a_i = \tfrac{s_i}2 \log(g_i / g_{i0}) \\
    w_i &= e^{a_i} y_i + g_i \, (m_i + \textstyle\sum_{j<i} H_{ij} w_j)
    + \sum_{j<i} Q_{ij} (w_j^2 - 1) \\
    \theta &= \mu + L w, \quad y_j = M_j(v_j), \quad g_{i0} = \mathrm{sigmoid}(2 d_i)

with L lower triangular, C, H and Q strictly so and sparse, and M_j the maps of :mod:`.marginal`.
With s = 1 a scale rises to a ceiling as its gate opens, as that of an effect, which the data bound
from above; with s = −1 it falls to a floor, as that of ℓ, which of J groups is √((σ² + τ²)/J), one
over the root of a gate. Where gates are shut both laws are e^(±x), and means what L says.
Only the first k coordinates govern: C, H and Q have k columns. For dense L k = D; for the arrow of
:mod:`.arrow_root` they are the globals, and everything costs O(D k).
C = H = Q = 0 and M the identity is the Gaussian N(μ, L Lᵀ). It is an autoregressive flow (Kingma et
al. 2016, arXiv:1606.04934; conditioned on its outputs: Papamakarios et al. 2017, arXiv:1705.07057)
whose conditioner is that of the models people write: scales and means are linear in θ of what comes
before, whatever law that has. (A mean that were linear in the latents y could not follow, in the
neck of a funnel, a group's mean that has a governor of its own.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pymc_ext.maths.marginal import Bend, Marginal
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.monitor import FitStopped
from pymc_ext.variational.core.posterior import NUMBERS_TOGETHER
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.hierarchical.few_columns import FewColumns, Places, sliced
from pymc_ext.variational.hierarchical.roots import DenseRoot, Root

if TYPE_CHECKING:
    from pymc_ext.variational.hierarchical.one_point import OnePoint

# d of gates at first: half open, so that a log scale may saturate to either side. Of an arrow open
# to a twentieth, so that scales follow their governor out of a neck in which a fit began: 10,000
# groups of a logistic regression stay in it with gates half open, and at d = −1.
INITIAL_OFFSET, OF_ARROW = 0.0, -1.5
FARTHEST_SHUT = 350.0  # −x: e^(2x) has no number beyond it, scales of 1e-152 shrink no further


def initial_offset(root: Root) -> float:
    """d of gates at first."""
    return INITIAL_OFFSET if isinstance(root, DenseRoot) else OF_ARROW


@dataclass(frozen=True)
class Point:
    """Everything of the map at latents v; all (N, D).

    Parameters
    ----------
    v, y, slope
        Latents, M(v) and M′(v).
    bend
        The marginal maps of the bent coordinates.
    log_scale, scale, gate
        a, e^a and g.
    by_x
        ∂w/∂x = s e^a y (1 − g) + 2 g (1 − g)(m + H w).
    w
        The layer's output.
    """

    v: Array
    y: Array
    slope: Array
    bend: Bend | None
    log_scale: Array
    scale: Array
    gate: Array
    by_x: Array
    w: Array


@dataclass(frozen=True)
class HierarchicalMap:
    """q of θ = T(v), v ~ N(0, I): draws, log q anywhere, scores pulled back, inverse; exact.

    Parameters
    ----------
    order
        Coordinate of θ at each place of the order, (D,); all else is in this order.
    center, root
        μ (D,) and L, lower triangular.
    scales, squares, gated
        C, Q and H, (D, k), strictly lower triangular.
    offset, gated_mean
        d and m, (D,).
    marginal
        M.
    sense
        s, of ±1, (D,).
    """

    order: NDArray[np.integer]
    center: Array
    root: Root
    scales: Array
    squares: Array
    gated: Array
    offset: Array
    gated_mean: Array
    marginal: Marginal = field(repr=False)
    sense: Array

    @classmethod
    def gaussian(cls, mean: Array, cov: Array, order: NDArray[np.integer]) -> HierarchicalMap:
        """N(mean, cov) as a map without links, in the given order."""

        return cls.linear(order, mean[order], DenseRoot(cholesky(cov[np.ix_(order, order)])))

    @classmethod
    def linear(cls, order: NDArray[np.integer], center: Array, root: Root) -> HierarchicalMap:
        """θ = μ + L v, without links."""
        zero, none = np.zeros(root.coupling.shape), np.zeros(len(center))
        identity = Marginal.identity(len(center))
        ones = np.ones(len(center))
        offset = np.full(len(center), initial_offset(root))
        return cls(order, center, root, zero, zero, zero, offset, none, identity, ones)

    @property
    def is_gaussian(self) -> bool:
        """Whether no coordinate depends on another inside the layer, and no marginal is bent."""
        return not self.levels and not len(self.marginal.bent)

    def as_gaussian(self) -> Gaussian:
        """N(μ, L Lᵀ), which it is where :attr:`is_gaussian`; dense, in the order of θ."""
        root = self.root.product(np.eye(self.dimension)).T
        return Gaussian(self.center[self.place], root[self.place])

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.center)

    latent_dimension = dimension

    @property
    def governors(self) -> int:
        """k, of the first coordinates, which alone may govern others."""
        return self.scales.shape[1]

    @cached_property
    def place(self) -> NDArray[np.integer]:
        """Place in the order of each coordinate, (D,)."""
        return np.argsort(self.order)

    @cached_property
    def gate_at_zero(self) -> Array:
        """g₀, (D,)."""
        return expit(2 * self.offset)

    @cached_property
    def levels(self) -> list[Places]:
        """Places that depend on others inside the layer, those of one level not on one another.

        FitStopped where numbers overflowed, as where q runs away: NaN is a link of each to each.
        """
        linked = (self.scales != 0) | (self.squares != 0) | (self.gated != 0)
        rest = np.flatnonzero(linked.any(axis=1) | (self.gated_mean != 0))
        waiting = np.zeros(self.dimension, dtype=bool)
        governors, levels = np.flatnonzero(linked.any(axis=0)), list[Places]()
        linked, waiting[rest] = linked[:, governors], True
        while len(rest):
            waits = linked[rest][:, waiting[governors]].any(axis=1)
            level, rest = rest[~waits], rest[waits]
            if not len(level):
                raise FitStopped("the map's numbers overflowed")
            waiting[level] = False
            levels.append(sliced(level))
        return levels

    @cached_property
    def unlinked(self) -> Places:
        """Places that depend on none."""
        alone = np.ones(self.dimension, dtype=bool)
        for level in self.levels:
            alone[level] = False
        return sliced(np.flatnonzero(alone))

    @cached_property
    def parts(self) -> tuple[FewColumns, FewColumns, FewColumns]:
        """C, H and Q for products."""
        return FewColumns(self.scales), FewColumns(self.gated), FewColumns(self.squares)

    @cached_property
    def _one_point(self) -> OnePoint:
        from pymc_ext.variational.hierarchical.one_point import OnePoint  # chains alone need it

        places = np.arange(self.dimension)
        return OnePoint(
            self.order, self.center, self.root.coupling, self.log_det_root, self.offset,
            self.gated_mean, self.sense, self.gate_at_zero, self.marginal,
            (self.scales, self.gated, self.squares),
            np.concatenate([places[:0], *(places[level] for level in self.levels)]),
            FARTHEST_SHUT,
        )  # fmt: skip

    @cached_property
    def log_det_root(self) -> float:
        """log|det L|."""
        return float(np.log(self.root.diagonal).sum())

    # ---- the layer -------------------------------------------------------------------------

    def at(self, v: Array) -> Point:
        """The map at latents v (N, D)."""
        y, slope, bend = self.marginal.at(v)
        # w of later levels is read too, times zero: it must be numbers
        own = *(np.empty_like(y) for _ in range(4)), y.copy()
        for whole, part in zip(own[:4], self._unlinked(y), strict=True):
            whole[:, self.unlinked] = part
        for level in self.levels:  # what a level depends on is known by then
            for whole, part in zip(own, self._linked(y, own[-1], level), strict=True):
                whole[:, level] = part
        return Point(v, y, slope, bend, *own)

    def _linked(self, y: Array, w: Array, rows: Places) -> tuple[Array, ...]:
        """What a point holds from a on, of places that depend on others."""
        a, e, g, inner, bend = self._conditional(w, rows)
        scaled = e * y[:, rows]
        w = scaled + g * inner
        w += bend
        by_x = 2 * g * inner
        by_x += self.sense[rows] * scaled
        by_x *= 1 - g
        return a, e, g, by_x, w

    def _unlinked(self, y: Array) -> tuple[Array | float, ...]:
        """The same of places that depend on none, but for w, which is y."""
        y, g0, sense = (x[..., self.unlinked] for x in (y, self.gate_at_zero, self.sense))
        return 0.0, 1.0, g0, (1 - g0) * sense * y

    def _conditional(self, w: Array, rows: Places) -> tuple[Array, Array, Array, Array, Array]:
        """a, e^a, g, m + H w and Q (w² − 1) of some places, from all that come before them."""
        scales, gated, squares = self.parts
        x = scales.times(w, rows) + self.offset[rows]
        np.maximum(x, -FARTHEST_SHUT, out=x)
        x *= -2
        g = np.exp(x, out=x)  # sigmoid(2 x): scipy's expit takes five times as long
        g += 1
        np.reciprocal(g, out=g)
        a = np.log(g / self.gate_at_zero[rows])
        a *= 0.5 * self.sense[rows]
        inner = gated.times(w, rows) + self.gated_mean[rows]
        return a, np.exp(a), g, inner, squares.times(w, rows, squared=True)

    def solve_jacobian_transposed(self, at: Point, r: Array) -> Array:
        """h with (∂w/∂y)ᵀ h = r, by rows (N, D)."""
        scales, gated, squares = self.parts
        own = r / at.scale
        h = own.copy()
        for level in self.levels:
            part = -own[:, level]
            scales.add_transposed(h, part * at.by_x[:, level], level)
            gated.add_transposed(h, part * at.gate[:, level], level)
            squares.add_transposed(h, part, level, along=at.w)
        return h

    def moved(self, shift: Array, factor: Array) -> HierarchicalMap:
        """The map with w + ``shift`` (D,), and governors' y times ``factor`` (k,), with all that
        they govern.

        A governor moved alone leaves the scales of what it governs behind, and comes back for them:
        funnels are climbed in tiny steps. Exact but for bends of governors that have governors.
        """
        k, constant = self.governors, shift
        for _ in range(len(self.levels) + 1):  # of a level, once those before it are known
            of_governors = constant[:k]
            offset = self.offset + self.scales @ of_governors
            wider = (expit(2 * offset) / self.gate_at_zero) ** (self.sense / 2)
            wider[:k] *= factor
            constant = shift + self.squares @ (of_governors**2 + wider[:k] ** 2 - 1)
        return replace(
            self,
            center=self.center + self.root.product(constant[None])[0],
            root=self.root.changed(wider, 2 * self.squares * of_governors * wider[:k]),
            scales=self.scales * wider[:k],
            offset=offset,
            gated_mean=(self.gated_mean + self.gated @ of_governors) / wider,
            gated=self.gated * wider[:k] / wider[:, None],
            squares=self.squares * wider[:k] ** 2 / wider[:, None],
        )

    def with_root(self, root: Root, by_w: Array) -> HierarchicalMap:
        """The map with L (I + B), which adds B w to w: what depends on it follows.

        C does where it is not zero, H where it or C is not, and what B_ii stretches is e^a y alone,
        not the means: a neck is as narrow as they are exact. The rows of B that governors have are
        ``by_w`` (k, k).
        """
        scales, gated, _ = self.parts
        wider = root.diagonal / self.root.diagonal
        may = (self.gated != 0) | (self.scales != 0)
        gated_too = self.gated + gated.times(by_w.T).T * may
        return replace(
            self,
            root=root,
            scales=self.scales + scales.times(by_w.T).T * (self.scales != 0),
            squares=self.squares / wider[:, None],
            gated=gated_too / wider[:, None],
            gated_mean=self.gated_mean / wider,
        )

    # ---- a posterior -----------------------------------------------------------------------

    def theta(self, at: Point) -> Array:
        """Draws, (N, D)."""
        return (self.center + self.root.product(at.w))[:, self.place]

    def log_q(self, at: Point) -> Array:
        """log q of them, (N,)."""
        log_det = self.log_det_root
        if self.levels:
            log_det = log_det + at.log_scale.sum(axis=1)
        if at.bend is not None:
            log_det = log_det + np.log(at.bend.slope).sum(axis=1)
        return standard_normal_logp(at.v) - log_det

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and log q, (N, D) -> (N, D), (N,)."""
        parts = np.array_split(z, max(1, -(-z.size // NUMBERS_TOGETHER)))
        points = (self.at(part) for part in parts)
        theta, log_q = zip(*((self.theta(at), self.log_q(at)) for at in points), strict=True)
        return np.concatenate(theta), np.concatenate(log_q)

    def forward_with_pullback(self, z: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        """θ (N, D), log q (N,), and :meth:`pullback` at z (N, D) as a function of the score."""
        if len(z) == 1 and isinstance(self.root, DenseRoot):
            return self._one_point.forward_with_pullback(z)
        at = self.at(z)
        return self.theta(at), self.log_q(at), partial(self.pullback_at, at)

    def pullback(self, z: Array, score: Array) -> Array:
        """Score in z of log p̃(T(z)) + log|det ∂T/∂z|, from that of log p̃ at T(z); all (N, D)."""
        return self.pullback_at(self.at(z), score)

    def pullback_at(self, at: Point, score: Array) -> Array:
        """:meth:`pullback` where the map is known."""
        scales, gated, squares = self.parts
        by_w = self.root.transposed_product(score[:, self.order])
        for level in reversed(self.levels):  # what depends on a level has been added by then
            part = by_w[:, level].copy()
            by_x = at.by_x[:, level] * part + self.sense[level] * (1 - at.gate[:, level])
            scales.add_transposed(by_w, by_x, level)
            gated.add_transposed(by_w, at.gate[:, level] * part, level)
            squares.add_transposed(by_w, part, level, along=at.w)
        by_y = at.scale * by_w
        if at.bend is not None:
            bent = self.marginal.bent
            by_y[:, bent] = at.bend.slope * by_y[:, bent] + at.bend.slope_score
        return by_y

    def inverse(self, theta: Array) -> Array:
        """v with T(v) = θ, (N, D) -> (N, D)."""
        w = self.root.solve(theta[:, self.order] - self.center)
        y = w.copy()
        for level in self.levels:
            _, e, g, inner, bend = self._conditional(w, level)
            y[:, level] = (w[:, level] - g * inner - bend) / e
        return self.marginal.inverse(y)

    def log_density(self, theta: Array) -> Array:
        """Normalised log q at any θ, (N, D) -> (N,); −∞ where v is beyond what numbers can hold."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            log_q = self.forward(self.inverse(theta))[1]
        return np.where(np.isnan(log_q), -np.inf, log_q)
