r"""Who governs whose scale, from scores alone: third-order Stein moments.

In coordinates where a Gaussian q is N(0, I), with residual r = score + z, Stein's identity gives

.. math:: T_{ij} = E[r_i z_i z_j] = E[\partial_i^2 \partial_j \log \tilde p] \quad (i \ne j),

how the curvature of coordinate i changes along j. In a funnel it is not zero from the effect to the
log scale, and zero the other way: it says who governs whom. Likewise U_ij = E[r_i (z_j² − 1)] is
how the mean of i bends along j, U_ii its skewness, and K_i = E[r_i (z_i³ − 3 z_i)] how heavy its
tails are. B_ij = E[r_i z_i (z_j³ − 3 z_j)] tells how T changes along j, in whose middle it is
T − B/2, and V_ij = E[r_i z_i (z_j² − 1)] whether the log scale of i is convex along j, V > 0,
beyond what q has of it. All are means over mirrored pairs: T, B and U of the even part of r, K and
V of its odd part; those of a Gaussian p̃ are zero without any noise. Halved and squared over its
Fisher information, T, U and K are also the nats that a map with that freedom gains, to second
order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.natural_gradient import Batch
from pymc_ext.variational.gaussian.numbers import antithetic, shorten_outliers, whole_pairs
from pymc_ext.variational.gaussian.score_matching import symmetric_root
from pymc_ext.variational.hierarchical.map import HierarchicalMap

Mask = NDArray[np.bool_]
# Standard errors beyond which a moment counts: among 10⁴ pairs less than one is there by chance.
SIGNIFICANT = 4.0
# Below it a link gains 1e-4 nats, be it as certain as it may, and those of 300 coordinates .03; of
# more coordinates smaller ones count, so that together they gain no more than that.
LEAST_MOMENT, COORDINATES = 0.02, 300
SMALL, FEW, MANY = 40, 1000, 2000  # dimensions up to which 1,000 draws serve, beyond 2,000
LEAST_LEAD = 0.2  # of the strongest: half of what a local scale has beside a global one
# Fisher information of a log scale's slope, of a bend, and of a marginal's skewness and tails: mean
# squares of the Hermite polynomials z_i² − 1 and z_j² − 1, z³ − 3z, z⁴ − 6z² + 3.
OF_SCALE, OF_SQUARE, OF_SKEW, OF_TAIL = 2.0, 2.0, 6.0, 24.0


@dataclass(frozen=True)
class Moments:
    """B, V, T and U along the first k coordinates (D, k), U_ii and K (D,), with standard errors of
    all but B."""

    scale_change: Array
    scale_curve: Array
    scale_curve_error: Array
    scale: Array
    scale_error: Array
    square: Array
    square_error: Array
    skew: Array
    skew_error: Array
    tail: Array
    tail_error: Array

    @classmethod
    def of(cls, r: Array, z: Array, governors: int | None = None) -> Moments:
        """From residuals and draws in mirrored pairs, (N, D) each; k is D by default."""
        sums = MomentSums(governors)
        sums.add(shorten_outliers(r), z)
        return sums.moments()

    @property
    def scale_off(self) -> Array:
        """By how much the slopes of log scales are off in the middle, and how far those one sd to
        either side differ where p has one that bends and q has not; with their noise, (D, k).

        What one layer cannot say, as of coefficients with two scales each, is in the difference:
        with T alone it is .001 where slopes are off by .01.
        """
        in_the_middle = self.scale - self.scale_change / 2
        off = np.hypot(self.scale_error, in_the_middle) / OF_SCALE
        between_sides = 2 * np.hypot(self.scale_curve, self.scale_curve_error) / OF_SCALE
        return np.hypot(off, between_sides)

    @property
    def scales(self) -> Mask:
        """Pairs (i, j) where the scale of i depends on j, (D, k)."""
        return self._below(_counts(self.scale, self.scale_error))

    @property
    def squares(self) -> Mask:
        """Pairs (i, j) where the mean of i bends along j, (D, k)."""
        return self._below(_counts(self.square, self.square_error))

    @property
    def marginals(self) -> Mask:
        """Coordinates that are skew, or whose tails are not the normal's, (D,)."""
        return _counts(self.skew, self.skew_error) | _counts(self.tail, self.tail_error)

    @property
    def lead(self) -> Array:
        """How much each of the first k governs the scales of others, less twice how much it is
        governed, (k,): a root shows a link in neighbours of its governor too."""
        counts = np.abs(self.scale) > SIGNIFICANT * self.scale_error
        governs = np.where(counts, np.abs(self.scale), 0.0)
        k = governs.shape[1]
        governs[np.arange(k), np.arange(k)] = 0.0
        return governs.sum(axis=0) - 2 * governs[:k].sum(axis=1)

    @property
    def promised(self) -> float:
        """Nats that all that counts would gain."""
        return self.gain(self.scales, self.squares, self.marginals)

    def gain(self, scales: Mask, squares: Mask, marginals: Mask) -> float:
        """Nats that these freedoms bring, to second order, less what noise alone would show."""
        parts = (
            (self.scale[scales], self.scale_error[scales], OF_SCALE),
            (self.square[squares], self.square_error[squares], OF_SQUARE),
            (self.skew[marginals], self.skew_error[marginals], OF_SKEW),
            (self.tail[marginals], self.tail_error[marginals], OF_TAIL),
        )
        return sum(float(np.sum(m**2 - e**2)) / (2 * f) for m, e, f in parts)

    @staticmethod
    def _below(mask: Mask) -> Mask:
        return np.tril(mask, -1)


class MomentSums:
    """Sums over batches from which :class:`Moments` are made; O(D k) numbers."""

    def __init__(self, governors: int | None = None) -> None:
        self.governors, self.pairs = governors, 0
        self._sums: list[Array] = []

    def add(self, r: Array, z: Array) -> None:
        """One batch in mirrored pairs, residuals (outliers shortened) and draws (N, D)."""
        half = len(z) // 2
        even, odd = (r[:half] + r[half:]) / 2, (r[:half] - r[half:]) / 2
        z = (z[:half] - z[half:]) / 2
        square = z * z
        bend, tail, scale = square - 1, odd * z * (square - 3), even * z
        skew, curve, first = even * bend, odd * z, slice(self.governors)
        along, bent = z[:, first], bend[:, first]
        of_square, of_bend = square[:, first], bent * bent
        new = [
            scale.T @ (along * (of_square - 3)),
            curve.T @ bent, (curve * curve).T @ of_bend,
            scale.T @ along, (scale * scale).T @ of_square,
            even.T @ bent, (even * even).T @ of_bend,
            skew.sum(axis=0), (skew * skew).sum(axis=0),
            tail.sum(axis=0), (tail * tail).sum(axis=0),
        ]  # fmt: skip
        self.pairs += half
        if not self._sums:
            self._sums = new
            return
        for total, more in zip(self._sums, new, strict=True):
            total += more

    def moments(self) -> Moments:
        """Means with their standard errors."""
        n, out = self.pairs, list[Array]()
        scale_change, *pairs = self._sums
        for total, squares in zip(pairs[::2], pairs[1::2], strict=True):
            mean = total / n
            variance = np.maximum(squares / n - mean**2, np.finfo(float).tiny)
            out += [mean, np.sqrt(variance / n)]
        return Moments(scale_change / n, *out)


def _counts(moment: Array, error: Array) -> Mask:
    least = LEAST_MOMENT * np.sqrt(min(1.0, COORDINATES / len(moment)))
    return (np.abs(moment) > SIGNIFICANT * error) & (np.abs(moment) > least)


def completed(batch: Batch, density: CountedDensity, rng: np.random.Generator) -> Batch:
    """The batch with as many fresh draws as it lacks to tell links from noise."""
    D = batch.q.dimension
    lacking = 2 * (((FEW if D <= SMALL else MANY) - len(batch.theta) + 1) // 2)
    if lacking <= 0:
        return batch
    theta, _ = batch.q.forward(antithetic(rng, lacking, D))
    with np.errstate(all="ignore"):
        log_p, scores = density.log_density_gradient(theta)
    usable = whole_pairs(np.isfinite(log_p) & np.isfinite(scores).all(axis=1))
    return Batch(
        batch.q, _joined(batch.theta, theta[usable]), _joined(batch.scores, scores[usable])
    )


def _joined(a: Array, b: Array) -> Array:
    """Rows of both, first halves first, so that mirrored pairs stay half the rows apart."""
    k, m = len(a) // 2, len(b) // 2
    return np.concatenate([a[:k], b[:m], a[k:], b[m:]])


def moments_in(batch: Batch, q: HierarchicalMap) -> Moments:
    """Moments in the coordinates of the Gaussian ``q``, whose order they are in."""
    centred = (batch.theta - batch.q.mean)[:, q.order]
    z = q.root.solve(centred)
    return Moments.of(q.root.transposed_product(batch.scores[:, q.order]) + z, z, q.governors)


def governors_first(batch: Batch, variable: NDArray[np.integer]) -> NDArray[np.integer]:
    """Coordinates that govern more than they are governed, strongest first; then those of variables
    with few elements, in the order that they have: a group's mean before its members.

    Seen in the coordinates of the symmetric root, which keep closest to the variables. What leads a
    fifth as much as the strongest does not lead; of a ``variable`` (D,), where there are several,
    all elements lead or none.
    """
    sd = batch.q.std
    root = symmetric_root(batch.q.cov / np.outer(sd, sd))
    z = np.linalg.solve(root, ((batch.theta - batch.q.mean) / sd).T).T
    lead = Moments.of((batch.scores * sd) @ root + z, z).lead
    elements = np.bincount(variable)
    leads = lead > LEAST_LEAD * lead.max(initial=0.0)
    if len(elements) > 1:
        leads = np.bincount(variable, lead)[variable] > 0
    return np.lexsort((np.where(leads, -lead, elements[variable]), ~leads))
