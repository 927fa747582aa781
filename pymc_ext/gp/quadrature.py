"""Expectations under many one-dimensional Gaussians, accurate for any ratio of widths.

Where the Gaussian is narrow against the likelihood, Gauss–Hermite nodes; where it is wide, the
integrand's features sit between the nodes, so panels of Gauss–Legendre nodes are laid at both
scales: steps of the Gaussian's sd around its mean, and steps growing by 3 around the likelihood's
centre. Notation: q = N(m, s²), the likelihood has centre c and width w (about the distance from
the real line to the nearest singularity of its logarithm).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pymc_ext.gp.errors import ConvergenceError
from pymc_ext.maths.types import Array

NARROW, MIDDLE = 0.3, 0.6  # largest s/w for 32 and 64 Gauss–Hermite nodes: errors below 1e-12
LEGENDRE = 16  # nodes a panel: E log(1 + e^f) to 2e-15 for sd of .01 to 300; with 8, 1e-10
GROWTH = (
    3.0  # of panels away from a centre (a choice: 1.5 to 9 err the same, smaller ones cost more)
)
SPAN = 9.0  # the Gaussian beyond 9 sd weighs 2e-19
BLOCK = 2_000_000  # nodes held at once

Places = NDArray[np.integer]  # of observations
Nodes = tuple[Places, Array, Array]


@cache
def hermite(n: int) -> tuple[Array, Array]:
    """Nodes and weights for E g(z), z ~ N(0, 1), each (n,)."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return x, w / np.sqrt(2 * np.pi)


@cache
def legendre(n: int) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1], each (n,)."""
    x, w = np.polynomial.legendre.leggauss(n)
    return (x + 1) / 2, w / 2


def gaussian_nodes(mean: Array, sd: Array, centre: Array, width: Array) -> Iterator[Nodes]:
    """Groups (index, f, log weight), f (nodes, len(index)): E_q g ≈ Σ exp(log weight) g(f).

    Every entry of the (n,) arguments is in exactly one group.
    """
    ratio = sd / width
    narrow, middle = ratio <= NARROW, (ratio > NARROW) & (ratio <= MIDDLE)
    for group, n in ((narrow, 32), (middle, 64)):
        for index in _blocks(np.flatnonzero(group), n):
            z, w = hermite(n)
            f: Array = mean[index] + sd[index] * z[:, None]
            yield index, f, np.broadcast_to(np.log(w)[:, None], f.shape)
    wide = np.flatnonzero(~(narrow | middle))
    if wide.size:
        _require_finite("mean", mean[wide])
        _require_finite("sd", sd[wide])
        low, high = mean - SPAN * sd, mean + SPAN * sd
        panels = 6 + 2 * _steps(centre[wide], width[wide], low[wide], high[wide])
        for index in _blocks(wide, panels * LEGENDRE):
            edges = _edges(mean[index], sd[index], centre[index], width[index])
            f, log_w = panel_nodes(edges)
            z = (f - mean[index]) / sd[index]
            yield index, f, log_w - 0.5 * z**2 - np.log(np.sqrt(2 * np.pi) * sd[index])


def _blocks(index: Places, nodes: int) -> list[Places]:
    if not index.size:
        return []
    return np.array_split(index, -(-index.size * nodes // BLOCK))


def _require_finite(name: str, values: Array) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        raise ConvergenceError(
            f"cannot integrate over {int(bad.sum())} latents: their {name} is not finite, "
            f"{float(values[bad][0])!r}"
        )


def _steps(c: Array, w: Array, low: Array, high: Array) -> int:
    with np.errstate(divide="ignore", invalid="ignore"):  # refused next
        reach = np.maximum(c - low, high - c) / w
    _require_finite("range in widths of the likelihood", reach)
    return 1 + int(np.ceil(np.log(max(np.max(reach), GROWTH)) / np.log(GROWTH)))


def _around(c: Array, w: Array, low: Array, high: Array) -> Array:
    """Ends of panels that grow by 3 away from c, w long at first, between low and high."""
    growth = GROWTH ** np.arange(_steps(c, w, low, high))
    offsets = np.concatenate([-growth[::-1], [0.0], growth])
    return np.clip(c + w * offsets[:, None], low, high)


def _edges(m: Array, s: Array, c: Array, w: Array) -> Array:
    """Sorted ends of the panels, (panels + 1, n); those outside m ± 9 s have no width."""
    around_m = m + s * np.array([-SPAN, -6.0, -3.0, 0.0, 3.0, 6.0, SPAN])[:, None]
    edges = np.concatenate([around_m, _around(c, w, around_m[0], around_m[-1])])
    return np.sort(edges, axis=0)


def peak_nodes(low: Array, high: Array, places: Array, scales: Array) -> Iterator[Nodes]:
    """Groups (index, f, log weight) with ∫ g from low to high (n,) ≈ Σ exp(log weight) g(f).

    The panels grow by 3 away from each of the places, of the scale given there, both (k, n).
    """
    panels = sum(1 + 2 * _steps(c, w, low, high) for c, w in zip(places, scales, strict=True))
    for i in _blocks(np.arange(low.size), panels * LEGENDRE):
        around = zip(places[:, i], scales[:, i], strict=True)
        edges = np.concatenate([_around(c, w, low[i], high[i]) for c, w in around])
        yield i, *panel_nodes(np.sort(edges, axis=0))


def panel_nodes(edges: Array) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and log weights of the panels between sorted edges, (nodes, n)."""
    x, w = legendre(LEGENDRE)
    start, length = edges[:-1, None], np.diff(edges, axis=0)[:, None]
    f = start + length * x[:, None]
    with np.errstate(divide="ignore"):  # empty panels weigh exp(-inf) = 0
        log_w = np.log(length) + np.log(w)[:, None]
    n = edges.shape[1]
    return f.reshape(-1, n), log_w.reshape(-1, n)
