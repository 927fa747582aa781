r"""Where a search for mass that q misses begins: around q, near the origin, and where p̃ stands out.

A path finds a mode if it starts where that mode, and not q's, is the higher of the two. For a mode
w times as wide as q, d sds away, that is about a ball of radius w d around it: its directions are a
share of w^{D−1} at most of all, whatever d, and outside of it neither values nor scores show it.
So what is found is a matter of how many points are looked at, of which only values are asked. Of
many points in random directions, of a like distance, one is a start. It is the one that is the
highest for how far it is: with Δ how far log p̃ is below its highest at draws of q,

.. math:: \log \Delta = a + b \log \text{distance} + \text{residual},

a and b by least squares, the smallest residual; b is 2 for Gaussian tails and smaller for heavy
ones. By log p̃ alone the nearest points win, and a mode that they are in front of is passed over: of
60 modes .7 times as wide as q, 15 sds away in ten dimensions, points were in all, the start in 44
that way and in all by the residual.

As modes that differ from q's in one parameter are many of those that there are, points lie along
coordinates too, each with the others where q has them given it. They are few even in many
dimensions, and so reach farther and lie closer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.path import DISPERSION

# Of points in random directions, in q's root mean square distance √D: starts in mirrored pairs, and
# one of the points that stand out, in each of eight equal parts of log distance.
NEAREST, FARTHEST, PARTS = 2.0, 64.0, 8
UNIFORM = 4  # starts near the origin, where priors are
# Points in random directions in each of these parts: in one and two dimensions fewer are as close.
# With 1,000 in five dimensions a mode .4 times as wide as q and 15 of its sds away is found with
# each of 20 seeds (`benchmarks.speed.missed_modes`); of 400 none is near it on 15 % of seeds.
FEW, SCREENED = 60, 1_000
# Along coordinates, in their sds: one start in each of five parts of log distance.
NEAREST_ALONG, FARTHEST_ALONG, PARTS_ALONG = 2.0, 2048.0, 5
# Points of each of those parts on each side, each some 4^{1/10} = 1.15 times as far as the one
# before: a line to a mode w times as wide as q is nearer to that mode from d/(1 + w) to d/(1 − w)
# sds, which are 1.22 apart for w = .1.
ALONG = 10
# Numbers that points hold in all, of each of the two kinds, beyond which they are fewer: what a
# value costs grows with D, and this is some .02 s.
NUMBERS = 40_000
FEWEST = 3  # points with a residual
LEAST_DEPTH = 1e-3  # nats: what is less far below q's draws, or above them, stands out by far


def starts_of(
    density: CountedDensity, theta: Array, highest: float, rng: np.random.Generator
) -> list[Array]:
    """Starts (D,) around draws.

    Parameters
    ----------
    density
        log p̃.
    theta
        Draws of q (N, D), whose mean and covariance are its middle and scales.
    highest
        The highest log p̃ at any draw.
    rng
        Of directions and distances.
    """
    N, D = theta.shape
    mean = theta.mean(axis=0)
    # rows of a root of the draws' covariance; of many dimensions the draws themselves, O(N D)
    root = (theta - mean) / np.sqrt(N - 1) if D >= N else cholesky(np.atleast_2d(np.cov(theta.T))).T

    def at(parts: Array) -> Array:
        """Steps in random directions as far as ``parts`` of 0 … PARTS say, (M,) -> (M, D)."""
        distance = NEAREST * (FARTHEST / NEAREST) ** (parts / PARTS)
        u = rng.standard_normal((len(parts), len(root)))
        u *= (distance * np.sqrt(len(root)) / np.linalg.norm(u, axis=1))[:, None]
        return u @ root

    def groups() -> Iterator[tuple[Array, Array]]:
        """Points of a like distance (M, D), and the log of it (M,) in some unit."""
        for part in range(PARTS):
            parts = part + rng.random(_screened(D))
            yield at(parts), parts
        lines = _lines(root, rng)
        for part in range(PARTS_ALONG):
            parts = part + (np.arange(ALONG)[:, None] + rng.random((ALONG, len(lines)))) / ALONG
            distance = NEAREST_ALONG * (FARTHEST_ALONG / NEAREST_ALONG) ** (parts / PARTS_ALONG)
            yield (distance[:, :, None] * lines).reshape(-1, D), parts.ravel()

    steps = at(np.arange(PARTS) + rng.random(PARTS))
    near_origin = rng.uniform(-DISPERSION, DISPERSION, (UNIFORM, D))
    starts = [*(mean + steps), *(mean - steps), *near_origin]
    for offsets, log_distance in groups():
        with np.errstate(all="ignore"):
            log_p = density.log_density(mean + offsets)
        best = _standing_out(log_p, log_distance, highest)
        if best is not None:
            starts.append(mean + offsets[best])
    return starts


def _screened(D: int) -> int:
    """Points in random directions in each part: a mode w times as wide as q takes w^{1 − D}."""
    return min(FEW * 10 ** (D - 1), SCREENED, 1 + NUMBERS // (PARTS * D))


def _lines(root: Array, rng: np.random.Generator) -> Array:
    """Directions to both sides of coordinates, (2 C, D): one sd of each, and what the others are
    expected to be there. In many dimensions some of the coordinates, by chance."""
    D = root.shape[1]
    most = max(1, NUMBERS // (2 * ALONG * PARTS_ALONG * D))
    columns = root[:, rng.permutation(D)[:most]]
    sd = np.linalg.norm(columns, axis=0)
    ahead = (columns / np.where(sd > 0, sd, 1.0)).T @ root
    return np.concatenate([ahead, -ahead])


def _standing_out(log_p: Array, log_distance: Array, highest: float) -> int | None:
    """Of points with log p̃ (M,) the one that is the highest for its distance; None where p̃ has
    none."""
    known = np.flatnonzero(np.isfinite(log_p))
    if len(known) == 0:
        return None
    log_depth = np.log(np.maximum(highest - log_p[known], LEAST_DEPTH))
    if len(known) >= FEWEST:
        x = log_distance[known] - log_distance[known].mean()
        log_depth = log_depth - (x @ log_depth) / (x @ x) * x
    return int(known[np.argmin(log_depth)])
