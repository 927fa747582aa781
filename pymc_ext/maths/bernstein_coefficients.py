r"""Orders, binomials and starting coefficients of monotone Bernstein polynomials, in numbers.

Notation of :mod:`.bernstein_basis`, which states the polynomials as graphs.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import nnls

from pymc_ext.maths import bernstein_numpy as kernel
from pymc_ext.maths.types import Array

MAX_ORDER = 1000  # beyond it binom(n, n/2) leaves the range of a double


def check_order(order: int) -> int:
    """``order`` if it is an integer in 1..1000, else ValueError."""
    if isinstance(order, bool) or not isinstance(order, int | np.integer):
        raise ValueError(f"order must be an integer >= 1, got {order!r}")
    if order < 1:
        raise ValueError(f"order must be >= 1, got {order}")
    if order > MAX_ORDER:
        raise ValueError(f"order must be <= {MAX_ORDER}, got {order}: 50 is enough in practice")
    return int(order)


def log_binomials(n: int) -> Array:
    """log binom(n, j) for j = 0..n, from exact integers."""
    return np.array([math.log(math.comb(n, j)) for j in range(n + 1)])


def identity_coefficients(order: int, slope: float = 1.0) -> tuple[float, Array]:
    """ϑ_0 and increments of the Bernstein polynomial of sigmoid(z) nearest to ``slope`` z.

    Least squares under N(0, 1) with non-negative increments (none below 1e-3 of the mean one, so
    that each can still be trained).

    Returns
    -------
    tuple
        ϑ_0 (float) and the increments, shape (M,), all positive.
    """
    z = np.linspace(-5, 5, 401)
    weight = np.exp(-0.25 * z**2) + 1e-3
    b = kernel.basis(z, order - 1)
    design = kernel.survival(b, z)
    centre = design - design[200]
    solution, _ = nnls(centre * weight[:, None], slope * z * weight)
    increments = np.maximum(solution, 1e-3 * solution.sum() / order)
    return float(-design[200] @ increments), increments


def inverse_softplus(y: Array) -> Array:
    """x with log(1 + e^x) = y > 0."""
    return y + np.log(-np.expm1(-y))
