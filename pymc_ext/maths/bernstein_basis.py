r"""Monotone Bernstein polynomials of a sigmoid, in pure PyTensor.

Notation: ``M`` order, u = sigmoid(x), B_{n,j}(u) = binom(n, j) u^j (1-u)^(n-j). With coefficients
ϑ_k = ϑ_0 + inc_1 + ... + inc_k the polynomial is ϑ_0 + Σ_k inc_k P(Bin(M, u) >= k), and its
derivative M Σ_k inc_k B_{M-1,k-1}(u). Dürr et al. (2024), eq. (1), with B = Be / (M + 1).
"""

from __future__ import annotations

import math

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorLike, TensorVariable
from scipy.optimize import nnls

from pymc_ext.maths import bernstein_numpy as kernel

Array = NDArray[np.floating]
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


def bernstein_basis(x: TensorLike, degree: int) -> TensorVariable:
    """B_{n,j}(sigmoid(x)), n = ``degree``; any shape (...) -> (..., n + 1).

    Smooth in x, also at 0 and far out, where the small terms underflow to zero.

    Parameters
    ----------
    x
        Logit of the polynomial's argument, any real number.
    degree
        n >= 0.

    Examples
    --------
    >>> bernstein_basis(0.0, 2).eval()
    array([0.25, 0.5 , 0.25])
    """
    logit = pt.as_tensor_variable(x)[..., None]
    j = np.arange(degree + 1)
    log_u, log_v = -pt.softplus(-logit), -pt.softplus(logit)
    return pt.exp(log_binomials(degree) + j * log_u + (degree - j) * log_v)


def bernstein_polynomial(x: TensorLike, raw: TensorLike) -> tuple[TensorVariable, TensorVariable]:
    r"""Increasing Bernstein polynomial of sigmoid(x), zero at x = −∞, and its log derivative.

    .. math:: f(x) = \sum_{k=1}^M \mathrm{softplus}(\mathrm{raw}_k) P(\mathrm{Bin}(M, u) \ge k)

    Pure PyTensor: runs on every backend and differentiates to any order. The Op
    :func:`pymc_ext.ops.bernstein.bernstein_map` is the same function, faster.

    Parameters
    ----------
    x
        Logit of the argument, shape (...).
    raw
        Unconstrained increments, shape (..., M).

    Returns
    -------
    tuple of TensorVariable
        f(x) and log f'(x) with respect to x (not to u), both of shape (...).
    """
    x, raw = pt.as_tensor_variable(x), pt.as_tensor_variable(raw)
    M = raw.type.shape[-1]
    if M is None:
        raise ValueError(
            "the last axis of raw must have a static length, the order; use specify_shape"
        )
    b = bernstein_basis(x, M - 1)
    increments = pt.softplus(raw)
    after = b @ np.tril(np.ones((M, M)), -1)  # P(Bin(M - 1, u) >= k), k = 1..M
    survival = after + pt.sigmoid(x)[..., None] * b
    log_slope = -pt.softplus(-x) - pt.softplus(x)
    log_derivative = pt.log(M * (increments * b).sum(-1)) + log_slope
    return (increments * survival).sum(-1), log_derivative


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
