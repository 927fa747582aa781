"""Weights of the alternating series behind E[softplus(X)], X ~ N(mu, sigma²).

With t = |mu|, every derivative D_j = ∂ʲ/∂muʲ E[log(1 + e^X)] at mu = −t is a linear function of
the half-line moments A_k = E[e^{kX}; X < 0] and B_k = E[e^{−kX}; X > 0]:

    D_j = lead_j + Σ_k w_k k^{j−1} (A_k + (−1)^j B_k),    w_k = (−1)^{k−1}    [Komodromos (5)-(6)]

because log(1 + e^x) = max(x, 0) + Σ_k (−1)^{k−1} e^{−k|x|}/k. This module holds the numbers (the
weights w_k, truncated or accelerated); the kernels in C, NumPy, numba and JAX share them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, get_args

import numpy as np
from scipy.special import zeta

from pymc_ext.maths.types import Array

Acceleration = Literal["cohen-villegas-zagier", "none"]
DEFAULT_TERMS = 23  # 2·12 − 1, the paper's l = 12
MAX_ORDER = 8  # of the first output; the third is two orders higher
LANES = 8  # weights are padded to whole SIMD vectors

# (1 + 2x) erfcx(x) as a polynomial in (x − 3)/(x + 3): Chebyshev projection on [0, ∞] with
# 60-digit arithmetic, relative error below 1.2e-15.
ERFCX = (
    1.2530080582697296, -0.13562110612458117, -0.04756229435342038, 0.1296451587027594,
    -0.11927366341676002, 0.0683080273440099, -0.023770514891530075, 0.0025293918156939696,
    0.0018886900977441495, -0.0007798322696543306, -0.00010515831297813128, 0.0001250993424583729,
    4.94412434222366e-06, -2.0100542268525612e-05, -7.187883834404266e-07, 3.472370944977168e-06,
    3.3669790806407595e-07, -6.166011460398726e-07, -1.205414228648938e-07, 1.0183620603842736e-07,
    2.7843881265502222e-08, -1.3312919661038687e-08, -3.1813541434969274e-09, 9.862533510345587e-10,
)  # fmt: skip

# σ'(x) has even moments M_2i = 2 (2i)! (1 − 2^{1−2i}) ζ(2i), so for large sigma
# D_j = Σ_i c_i ∂^{2i+j−2} N(mu; 0, sigma²) with c_i = M_2i/(2i)!: an asymptotic series.
LARGE_SIGMA = 16.0
ASYMPTOTIC = (1.0, *(2 * (1 - 2.0 ** (1 - 2 * i)) * float(zeta(2 * i)) for i in range(1, 15)))

# Above this only the limit is left, and products of two erfcx denominators would overflow.
HUGE_SIGMA = 1e70

# Beyond exp(−45) relative to e^{−t} the Gaussian-tail parts of A_k and B_k cannot be seen.
NEGLIGIBLE = 45.0
# e^{−t} and the ratios of the recurrence stay representable below this t.
RECURRENCE_LIMIT = 700.0


def _alternating(terms: int) -> Array:
    return (-1.0) ** np.arange(terms)


def _cohen_villegas_zagier(terms: int) -> Array:
    """Weights of algorithm 1 of Cohen, Villegas & Zagier (2000): Σ(−1)^{k−1} a_k ≈ Σ w_k a_k."""
    d = (3 + np.sqrt(8.0)) ** terms
    d = (d + 1 / d) / 2
    b, c, weights = -1.0, -d, np.empty(terms)
    for k in range(terms):
        c = b - c
        weights[k] = c / d
        b *= (k + terms) * (k - terms) / ((k + 0.5) * (k + 1))
    return weights


_WEIGHTS = {"none": _alternating, "cohen-villegas-zagier": _cohen_villegas_zagier}
MAX_ACCELERATED_TERMS = 60  # d = (3 + √8)^n/2: rounding-level already at 23


@dataclass(frozen=True)
class Series:
    """Numbers one kernel needs for (D_m, D_{m+1}, sigma·D_{m+2}), m = ``order``.

    ``weights[j, k] = w_k k^{m+j−1}`` (column 0 is empty: the kernels use that slot for erfcx of
    the leading term); ``boundary[j, d]`` multiplies ∂^d N(mu; 0, sigma²).
    """

    order: int
    terms: int
    acceleration: Acceleration

    @property
    def accelerated(self) -> bool:
        return self.acceleration != "none"

    @property
    def slots(self) -> int:
        return LANES * -(-(self.terms + 1) // LANES)

    @cached_property
    def signed(self) -> Array:
        return _WEIGHTS[self.acceleration](self.terms)

    @cached_property
    def weights(self) -> Array:
        k = np.arange(1.0, self.terms + 1)
        table = np.zeros((3, self.slots))
        for j in range(3):
            table[j, 1 : self.terms + 1] = self.signed * k ** (self.order + j - 1)
        return table

    @cached_property
    def boundary(self) -> Array:
        """Terms from cutting the half-lines at 0; the infinite (Abel) sums make them vanish.

        ∂_mu of k^{j−1}(A_k + (−1)^j B_k) leaves −2k^{j−1} N(mu; 0, sigma²) for odd j, and D_1
        starts with Φ(mu/sigma): so D_2 has (1 − 2Σw_k) N and D_4 −2Σk²w_k N besides its ∂²N.
        """
        table = np.zeros((3, self.order + 1))
        if self.accelerated:
            return table
        k = np.arange(1.0, self.terms + 1)
        for row, j in enumerate(range(self.order, self.order + 3)):
            for i in range(0, j - 1, 2):
                table[row, j - 2 - i] = (i == 0) - 2 * np.sum(self.signed * k**i)
        return table


def series(order: int, terms: int, acceleration: Acceleration) -> Series:
    """Validated, cached :class:`Series`."""
    if acceleration not in get_args(Acceleration):
        raise ValueError(
            f"acceleration must be one of {get_args(Acceleration)}, got {acceleration!r}"
        )
    if isinstance(terms, bool) or not isinstance(terms, int | np.integer):
        raise TypeError(f"terms must be an integer, got {terms!r}")
    if terms < 1:
        raise ValueError(f"terms must be >= 1, got {terms}")
    if acceleration != "none" and terms > MAX_ACCELERATED_TERMS:
        raise ValueError(
            f"terms must be <= {MAX_ACCELERATED_TERMS} with acceleration (rounding-level from "
            f"{DEFAULT_TERMS} on), got {terms}; use acceleration='none' for the plain series"
        )
    return _series(int(order), int(terms), acceleration)


_series = cache(Series)  # behind the checks, which take what has no hash too
