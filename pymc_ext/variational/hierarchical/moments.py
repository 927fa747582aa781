r"""Who governs whose scale, from the scores of one batch: third-order Stein moments.

In coordinates where a Gaussian q is N(0, I), with residual r = score + z, Stein's identity gives

.. math:: T_{ij} = E[r_i z_i z_j] = E[\partial_i^2 \partial_j \log \tilde p] \quad (i \ne j),

how the curvature of coordinate i changes along j. In a funnel it is not zero from the effect to the
log scale, and zero the other way: it says who governs whom. Likewise U_ij = E[r_i (z_j² − 1)] is
how the mean of i bends along j. Both are means over mirrored pairs, of which only the even part of
r counts: that of a Gaussian p̃ is zero without any noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pymc_ext.density import CountedDensity
from pymc_ext.variational.gaussian.numbers import antithetic, shorten_outliers, whole_pairs
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.gaussian.score_matching import symmetric_root
from pymc_ext.variational.hierarchical.map import HierarchicalMap

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
# Standard errors beyond which a moment counts: among 10⁴ pairs less than one is there by chance.
SIGNIFICANT = 4.0
LEAST_MOMENT = 0.02  # nats below which a link does not pay, be it as certain as it may
SMALL, FEW, MANY = 40, 1000, 2000  # dimensions up to which 1,000 draws serve, beyond 2,000


@dataclass(frozen=True)
class Moments:
    """T and U with their ratios to their standard errors, (D, D) each."""

    scale: Array
    scale_t: Array
    square: Array
    square_t: Array

    @classmethod
    def of(cls, r: Array, z: Array) -> Moments:
        """From residuals and draws in mirrored pairs, (N, D) each."""
        half = len(z) // 2
        r = shorten_outliers(r)
        r, z = (r[:half] + r[half:]) / 2, z[:half]
        scale, square = (r * z).T @ z / half, r.T @ (z**2 - 1) / half
        scale_error = _error(scale, ((r * z) ** 2).T @ z**2 / half, half)
        square_error = _error(square, (r**2).T @ (z**2 - 1) ** 2 / half, half)
        return cls(scale, scale / scale_error, square, square / square_error)


def _error(mean: Array, mean_square: Array, n: int) -> Array:
    return np.sqrt(np.maximum(mean_square - mean**2, np.finfo(float).tiny) / n)


@dataclass(frozen=True)
class Structure:
    """An order of the coordinates, and which entries of C and Q are free in it."""

    order: NDArray[np.integer]
    scales: Mask
    squares: Mask


@dataclass(frozen=True)
class Batch:
    """Draws of a Gaussian in mirrored pairs, with their scores, (N, D) each."""

    q: Gaussian
    theta: Array
    scores: Array


def draw_batch(density: CountedDensity, q: Gaussian, rng: np.random.Generator) -> Batch:
    """The draws that structure is read from."""
    D = q.dimension
    root, sd = _symmetric_coordinates(q)
    z = antithetic(rng, FEW if D <= SMALL else MANY, D)
    theta = q.mean + (z @ root) * sd
    with np.errstate(all="ignore"):
        log_p, scores = density.log_density_gradient(theta)
    usable = whole_pairs(np.isfinite(log_p) & np.isfinite(scores).all(axis=1))
    return Batch(q, theta[usable], scores[usable])


def _symmetric_coordinates(q: Gaussian) -> tuple[Array, Array]:
    """R^½ of the correlation matrix, and sds: of all roots it keeps closest to the variables."""
    sd = q.std
    return symmetric_root(q.cov / np.outer(sd, sd)), sd


def find_structure(batch: Batch, order: NDArray[np.integer] | None = None) -> Structure:
    """Order and links from a batch; the links alone where an order is given."""
    if order is None:
        order = governors_first(batch)
    q = HierarchicalMap.gaussian(batch.q.mean, batch.q.cov, order)
    centred = (batch.theta - batch.q.mean)[:, order]
    z = solve_triangular(q.root, centred.T, lower=True).T
    moments = Moments.of(batch.scores[:, order] @ q.root + z, z)
    below = np.tri(q.dimension, k=-1, dtype=bool)
    return Structure(
        order,
        below & _counts(moments.scale, moments.scale_t),
        below & _counts(moments.square, moments.square_t),
    )


def _counts(moment: Array, t: Array) -> Mask:
    return (np.abs(t) > SIGNIFICANT) & (np.abs(moment) > LEAST_MOMENT)


def governors_first(batch: Batch) -> NDArray[np.integer]:
    """Coordinates that govern more than they are governed, strongest first; then those most tied.

    Among the others a group's mean comes before its members, as it has more partial correlations.
    """
    root, sd = _symmetric_coordinates(batch.q)
    z = np.linalg.solve(root, ((batch.theta - batch.q.mean) / sd).T).T
    moments = Moments.of((batch.scores * sd) @ root + z, z)
    governs = np.where(np.abs(moments.scale_t) > SIGNIFICANT, np.abs(moments.scale), 0.0)
    np.fill_diagonal(governs, 0.0)
    lead = governs.sum(axis=0) - governs.sum(axis=1)  # of column j over the rows it governs
    tied = np.sum(_partial_correlations(batch.q) ** 2, axis=0)
    leads = lead > 0
    return np.lexsort((-tied, np.where(leads, -lead, 0.0), ~leads))


def _partial_correlations(q: Gaussian) -> Array:
    sd = q.std
    precision = np.linalg.inv(q.cov / np.outer(sd, sd))
    scale = np.sqrt(np.diag(precision))
    partial = precision / np.outer(scale, scale)
    np.fill_diagonal(partial, 0.0)
    return partial
