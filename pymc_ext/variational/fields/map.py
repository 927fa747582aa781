r"""A map with a field's own normal law at every value of the globals, in numbers.

With v ~ N(0, I) in two parts, :math:`v_\eta` for the g globals and :math:`v_x` for the n locals,

.. math:: \eta = \hat\eta + S\, y(v_\eta), \qquad
          x = \hat x(\eta) + K(\eta)^{-\top} (m(v_x) + \delta),

with the globals' axes y of :mod:`.globals_map` and marginals m of :mod:`pymc_ext.maths.marginal`.
x̂(η) and the entries of K(η), the root of the field's precision (:mod:`.precision`), are known at
some places along each axis, and are sums over the axes of curves through these (:mod:`.curves`), or
at places of a grid of few globals (:mod:`pymc_ext.maths.grid`, :mod:`.globals_grid`):
those of K's diagonal in their logs, those below as ratios to it, so that K is a root of a precision
whatever y is. This is the law of Rue, Martino & Chopin (2009),
doi:10.1111/j.1467-9868.2008.00700.x, in a form that has draws, a density and scores of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.bordered_many import BorderedRoots
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.grid import Grid, OnGrid
from pymc_ext.maths.marginal import Marginal
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.curves import Curves, Weights
from pymc_ext.variational.fields.globals_grid import GlobalsGrid
from pymc_ext.variational.fields.globals_map import GlobalsMap
from pymc_ext.variational.fields.precision import PrecisionRoots

TOGETHER = 2**22  # numbers made together, 32 MB


@dataclass(frozen=True, eq=False)
class FieldMap(ByValue):
    """T of v = (v_η, v_x by place).

    Parameters
    ----------
    order
        The coordinate at each place: globals, then locals, (D,).
    of_globals
        η of v_η, and the axes y.
    curves
        Weights of the T terms, whose rows follow, at any y.
    middle
        Of x̂, (T, n).
    entries
        Of K's banded part and its border, (T, b + 1 + m, n), as :class:`.BorderedRoot` has them:
        logs of the diagonal, then ratios to that of the column.
    common
        u of :class:`.PrecisionRoot`, (n,).
    shift
        δ, (n,): from the maximum to the mean.
    marginal
        m, of n.
    border
        m, how many of the locals, at the end, are neighbours of all.
    """

    order: NDArray[np.integer]
    of_globals: GlobalsMap | GlobalsGrid
    curves: Curves | Grid
    middle: Array
    entries: Array
    common: Array
    shift: Array
    marginal: Marginal
    border: int = 0

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.order)

    latent_dimension = dimension

    @property
    def globals(self) -> int:
        """g."""
        return self.of_globals.dimension

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ = T(z) and log q, (N, D) -> (N, D), (N,)."""
        y = self.of_globals.axes(z[:, : self.globals])
        return self._values(z, y, self._laws(y))

    def forward_with_pullback(self, z: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        """The same, and :meth:`pullback` there, a function of the score."""
        y = self.of_globals.axes(z[:, : self.globals])
        if len(z) == 1 and isinstance(self.curves, Grid) and not self.common.any():
            return self._at_one_point(self.curves, z, y)
        laws = list(self._laws(y))
        return *self._values(z, y, laws), lambda score: self._pulled_back(z, y, score, laws)

    def pullback(self, z: Array, score: Array) -> Array:
        """Score in z of log p̃(T(z)) + log|det ∂T|, from the score at T(z); (N, D) each."""
        y = self.of_globals.axes(z[:, : self.globals])
        return self._pulled_back(z, y, score, self._laws(y))

    def inverse(self, theta: Array) -> Array:
        """z with T(z) = θ, (N, D) -> (N, D)."""
        return self._normals(theta)[0]

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,)."""
        z, log_det = self._normals(theta)
        return standard_normal_logp(z) - log_det

    def _normals(self, theta: Array) -> tuple[Array, Array]:
        x = theta[:, self.order]
        g, z, log_det = self.globals, np.empty_like(x), np.empty(len(x))
        z[:, :g], y = self.of_globals.inverse(x[:, :g])
        for law in self._laws(y):
            z[law.rows, g:] = law.roots.normals(x[law.rows, g:] - law.middle) - self.shift
            log_det[law.rows] = -law.roots.log_det
        for rows in self._blocks(len(z)):
            z[rows, g:] = self.marginal.inverse(z[rows, g:])
        log_det += self._bent(z[:, g:])[1]
        return z, log_det + self.of_globals.log_det(z[:, :g], y)

    def _values(self, z: Array, y: Array, laws: Iterable[_Laws]) -> tuple[Array, Array]:
        g, theta = self.globals, np.empty_like(z)
        bent, log_det = self._bent(z[:, g:])
        for law in laws:
            x = law.roots.draws(bent[law.rows] + self.shift)
            theta[law.rows, self.order[g:]] = law.middle + x
            log_det[law.rows] -= law.roots.log_det
        theta[:, self.order[:g]] = self.of_globals.values(y)
        log_det += self.of_globals.log_det(z[:, :g], y)
        return theta, standard_normal_logp(z) - log_det

    def _pulled_back(self, z: Array, y: Array, score: Array, laws: Iterable[_Laws]) -> Array:
        g, s, out = self.globals, score[:, self.order], np.empty_like(score)
        bent, slope, bend = self.marginal.at(z[:, g:])
        for law in laws:
            rows = law.rows
            out[rows, g:], out[rows, :g] = law.pulled_back(
                self, bent[rows] + self.shift, s[rows, g:]
            )
        out[:, g:] *= slope
        if bend is not None:
            out[:, g + self.marginal.bent] += bend.slope_score
        out[:, :g] = self.of_globals.pullback(z[:, :g], y, s[:, :g], out[:, :g])
        return out

    def _at_one_point(
        self, grid: Grid, z: Array, y: Array
    ) -> tuple[Array, Array, Callable[[Array], Array]]:
        """:meth:`forward_with_pullback` of one row, by compiled loops; on axes y (1, g)."""
        from pymc_ext.maths.field_kernels import forward, pullback  # numba: half a second

        g, order, eta = self.globals, self.order, z[:, : self.globals]
        bent, slope, bend = self.marginal.at(z[:, g:])
        law = *grid.box, *self._rows, self.entries.shape[1] - self.border, self.border, y
        x, drawn, B, log_root = forward(*law, bent[0] + self.shift)
        theta = np.empty_like(z)
        theta[0, order[g:]], theta[:, order[:g]] = x, self.of_globals.values(y)
        log_det = np.log(slope).sum(axis=1) - log_root + self.of_globals.log_det(eta, y)

        def pulled(score: Array) -> Array:
            s, out = score[:, order], np.empty_like(z)
            by_x, by_y = pullback(*law, B, drawn, s[0, g:])
            out[:, g:] = by_x * slope
            if bend is not None:
                out[:, g + self.marginal.bent] += bend.slope_score
            out[:, :g] = self.of_globals.pullback(eta, y, s[:, :g], by_y[None])
            return out

        return theta, standard_normal_logp(z) - log_det, pulled

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        """Of x̂ and of B at the places of a grid, (T, n) and (T, (b + 1 + m) n)."""
        rows = self.entries.reshape(len(self.entries), -1)
        return np.ascontiguousarray(self.middle), np.ascontiguousarray(rows)

    def _bent(self, v: Array) -> tuple[Array, Array]:
        """m(v), and log det of its derivatives, (N, n) -> (N, n), (N,)."""
        bent, log_det = np.empty_like(v), np.empty(len(v))
        for rows in self._blocks(len(v)):
            bent[rows], slope = self.marginal.forward(v[rows])
            log_det[rows] = np.log(slope).sum(axis=1)
        return bent, log_det

    def _blocks(self, N: int) -> list[slice]:
        """Rows whose bends are made together: each has some ten numbers on the way to one."""
        rows = max(1, TOGETHER // (10 * self.dimension))
        return [slice(first, first + rows) for first in range(0, N, rows)]

    def _laws(self, y: Array) -> Iterator[_Laws]:
        """At places on the globals' axes, (N, g), some together."""
        numbers = max(self.entries[0].size, self.curves.terms * self.globals)
        together = max(1, TOGETHER // numbers)
        for first in range(0, len(y), together):
            rows = slice(first, first + together)
            terms = self.curves.at(y[rows])
            entries = terms.times(self.entries)
            np.exp(entries[:, 0], out=entries[:, 0])
            entries[:, 1:] *= entries[:, :1]
            roots = PrecisionRoots(BorderedRoots(entries, self.border), self.common)
            yield _Laws(rows, roots, terms.times(self.middle), terms)


@dataclass(frozen=True)
class _Laws:
    """The field's laws at values of the globals.

    ``rows`` which of all, ``middle`` x̂, (N, n), ``terms`` of which these numbers are sums.
    """

    rows: slice
    roots: PrecisionRoots
    middle: Array
    terms: Weights | OnGrid

    def pulled_back(self, q: FieldMap, y: Array, score: Array) -> tuple[Array, Array]:
        """∂/∂y (N, n) of log p̃, and ∂/∂ the globals' axes (N, g) by the field, of log p̃ +
        log|det ∂T|.

        At y = m(v_x) + δ (N, n), of the locals' ``score`` (N, n).
        """
        roots, entries = self.roots, self.roots.roots.entries
        solved = roots.roots.solve(score)  # ζ = B⁻¹ s
        # of s · B⁻ᵀ (I − f w wᵀ) y, by the entries of B
        by_entry = -roots.roots.outer(roots.draws(y), solved)
        own = solved
        if roots.constrained:
            w, f = roots.w, roots.f[:, None]
            alpha, beta = (np.einsum("nj,nj->n", w, x)[:, None] for x in (y, solved))
            own = solved - f * beta * w
            by_w = f * (beta * y + alpha * solved)
            by_s = 2 * roots.slope_of_f[:, None] * alpha * beta + 1 / (1 + roots.s[:, None])
            by_entry += roots.roots.outer(roots.roots.transposed_solve(by_w + by_s * w), w)
        by_log = np.einsum("nkj,nkj->nj", by_entry, entries) - 1
        by_entry[:, 1:] *= entries[:, :1]
        by_entry[:, 0] = by_log
        by_globals = self.terms.pulled_back(q.middle, score)
        return own, by_globals + self.terms.pulled_back(q.entries, by_entry)
