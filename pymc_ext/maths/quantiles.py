r"""Quantiles of a law that is constant on cells: one coordinate after the other, of normals.

.. math:: t_k = Q_k(\Phi(z_k) \mid t_1, \dots, t_{k-1}),

a triangular map (Rosenblatt 1952, doi:10.1214/aoms/1177729394): Q_k is monotone and smooth in z_k
between quantiles of the cells, and linear in the earlier t between their middles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.ndimage import distance_transform_edt
from scipy.special import ndtr

from pymc_ext.maths.types import Array

# Normals at which quantiles are tabled: a cell is a third of an sd or less. Cells end where .1 % of
# the mass is beyond or less, and quantiles go on in a straight line where 2e-4 is: a normal tail.
KNOTS = np.linspace(-3.5, 3.5, 36)
WIDTH = KNOTS[1] - KNOTS[0]
FLATTEST = 0.1  # of the smaller rise beside a knot, as the slope there
HALVINGS = 50  # of a knot's width: to its last digit
LEAST = 1e-12  # of the heaviest cell given the earlier governors: every one has a quantile
MOST_ROWS = 4_000  # of a table: quantiles vary smoothly with the earlier governors


@dataclass(frozen=True)
class Quantiles:
    """Q of one governor, given those before it.

    Parameters
    ----------
    middles
        Of the cells of each governor before it.
    values, slopes
        Q and its derivative at `KNOTS` for each combination of these, (n_1, …, K).
    """

    middles: tuple[Array, ...]
    values: Array
    slopes: Array

    @classmethod
    def of(cls, middles: tuple[Array, ...], edges: Array, mass: Array) -> Quantiles:
        """Of cells between ``edges``, with masses (n_1, …, n); where no cell has any, as where the
        earlier governors are next."""
        if middles:
            empty = ~(mass.sum(axis=-1) > 0)
            near = distance_transform_edt(empty, return_distances=False, return_indices=True)
            mass = mass[tuple(near)]
        mass = np.maximum(mass, LEAST * mass.max(axis=-1, keepdims=True))
        share = np.cumsum(mass, axis=-1)
        share = np.insert(share / share[..., -1:], 0, 0.0, axis=-1)
        rows = share.reshape(-1, share.shape[-1])
        values = np.array([np.interp(ndtr(KNOTS), row, edges) for row in rows])
        shape = (*share.shape[:-1], len(KNOTS))
        return cls(middles, values.reshape(shape), _slopes(values).reshape(shape))

    def inverse(self, t: Array, before: Array) -> Array:
        """z of t (N,), by bisection."""
        at, slope = table = self._given(before)
        i = np.clip((at <= t[:, None]).sum(axis=1) - 1, 0, len(KNOTS) - 2)
        low, high = np.zeros(len(t)), np.ones(len(t))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = _cubic(table, i, middle) <= t
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        z = KNOTS[i] + WIDTH * (low + high) / 2
        for end in (0, -1):
            off = (t - at[:, end]) / slope[:, end]
            z = np.where(off < 0 if end == 0 else off > 0, KNOTS[end] + off, z)
        return z

    def _given(self, before: Array) -> tuple[Array, Array]:
        """Tables (N, K), linear between the middles of earlier governors' cells."""
        along = [_between(axis, before[:, k]) for k, axis in enumerate(self.middles)]
        at, slope = np.zeros((2, len(before), len(KNOTS)))
        for corner in product(range(2), repeat=len(along)):
            where = tuple(i + c for (i, _), c in zip(along, corner, strict=True))
            w = np.prod(
                [u if c else 1 - u for (_, u), c in zip(along, corner, strict=True)], axis=0
            )
            at += np.reshape(w, (-1, 1)) * self.values[where]
            slope += np.reshape(w, (-1, 1)) * self.slopes[where]
        return at, slope


def _slopes(values: Array) -> Array:
    """Of cubics through rising values (R, K) at `KNOTS` that rise everywhere; at an end the rule of
    Fritsch and Carlson may give 0, where q would have no density."""
    rise = np.diff(values, axis=1) / WIDTH
    least = FLATTEST * np.minimum(np.c_[rise, rise[:, -1]], np.c_[rise[:, 0], rise])
    return np.maximum(PchipInterpolator(KNOTS, values, axis=1).derivative()(KNOTS), least)


def _few(sizes: Sequence[int]) -> list[NDArray[np.integer]]:
    """Of places along each of several axes so many that there are `MOST_ROWS` in all."""
    counts = list(sizes)
    while np.prod(counts) > MOST_ROWS:
        longest = int(np.argmax(counts))
        counts[longest] = -(-counts[longest] // 2)
    return [
        np.linspace(0, size - 1, count).round().astype(int)
        for size, count in zip(sizes, counts, strict=True)
    ]


def _cubic(table: tuple[Array, Array], i: NDArray[np.integer], u: Array) -> Array:
    """Hermite's cubic after knots i, at shares u of the way to the next, (N,)."""
    rows = np.arange(len(u))
    at, slope = table
    a, c, d = at[rows, i], WIDTH * slope[rows, i], WIDTH * slope[rows, i + 1]
    rise = at[rows, i + 1] - a
    square, cube = 3 * rise - 2 * c - d, c + d - 2 * rise
    return a + u * (c + u * (square + u * cube))


def _between(axis: Array, t: Array) -> tuple[NDArray[np.integer], Array]:
    """The place before values (N,) and the share of the way to the next, within the axis."""
    i = np.clip(np.searchsorted(axis, t, side="right") - 1, 0, len(axis) - 2)
    return i, np.clip((t - axis[i]) / (axis[i + 1] - axis[i]), 0, 1)


@dataclass(frozen=True)
class Triangular:
    """The map of G normals.

    Parameters
    ----------
    quantiles
        Of each coordinate, in their order.

    Examples
    --------
    Of a uniform law on [0, 1]:

    >>> uniform = Triangular.of(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1))
    >>> t, log_det = uniform.forward(np.array([[0.0]]))
    >>> t, abs(uniform.inverse(t).round(6))
    (array([[0.5]]), array([[0.]]))
    """

    quantiles: tuple[Quantiles, ...]

    @classmethod
    def of(cls, lower: Array, upper: Array, mass: Array) -> Triangular:
        """Of cells between (C, G) with masses (C,)."""
        return cls(_quantiles_of(lower, upper, mass))

    def forward(self, z: Array) -> tuple[Array, Array]:
        """t (N, G) and log det ∂t/∂z (N,)."""
        t, log_det, *_ = self._quantiles(z)
        return t, log_det

    def forward_with_pullback(self, z: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        """The same, and ∂/∂z of f(t) + log det ∂t/∂z, a function of ∂f/∂t (N, G)."""
        from pymc_ext.maths.grid_kernels import pulled_back

        t, log_det, own, before = self._quantiles(z)
        return t, log_det, lambda by_t: pulled_back(own, before, np.ascontiguousarray(by_t))

    def _quantiles(self, z: Array) -> tuple[Array, ...]:
        from pymc_ext.maths.grid_kernels import quantiles  # numba: half a second

        return quantiles(float(KNOTS[0]), float(WIDTH), *self._tables, np.ascontiguousarray(z))

    @cached_property
    def _tables(self) -> tuple[NDArray[np.generic], ...]:
        """As `pymc_ext.maths.grid_kernels` takes them."""
        K, G = len(KNOTS), len(self.quantiles)
        values = [quantile.values.reshape(-1, K) for quantile in self.quantiles]
        slopes = [quantile.slopes.reshape(-1, K) for quantile in self.quantiles]
        begins = np.cumsum([0, *map(len, values)])[:G]
        starts = np.zeros((G, G + 1), dtype=np.int64)
        middles: list[Array] = [np.empty(0)]
        for k, quantile in enumerate(self.quantiles):
            ends = np.cumsum([0, *map(len, quantile.middles)])
            starts[k, : k + 1] = sum(map(len, middles)) + ends
            middles.extend(quantile.middles)
        return (
            np.concatenate(values), np.concatenate(slopes), begins, np.concatenate(middles), starts
        )  # fmt: skip

    def inverse(self, t: Array) -> Array:
        """z of t, (N, G)."""
        z = np.empty_like(t)
        for k, quantile in enumerate(self.quantiles):
            z[:, k] = quantile.inverse(t[:, k], t[:, :k])
        return z


def _quantiles_of(lower: Array, upper: Array, mass: Array) -> tuple[Quantiles, ...]:
    G = lower.shape[1]
    edges = [np.append(np.unique(lower[:, k]), upper[:, k].max()) for k in range(G)]
    box = np.zeros([len(own) - 1 for own in edges])
    box[tuple(np.searchsorted(edges[k], lower[:, k]) for k in range(G))] = mass
    middles, found = [(own[1:] + own[:-1]) / 2 for own in edges], list[Quantiles]()
    for k in range(G):
        own = box.sum(axis=tuple(range(k + 1, G)))
        few = _few(own.shape[:k])
        before = tuple(middles[j][places] for j, places in enumerate(few))
        own = own[np.ix_(*few, np.arange(own.shape[k]))]
        found.append(Quantiles.of(before, edges[k], own))
    return tuple(found)
