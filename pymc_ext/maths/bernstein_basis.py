r"""Monotone Bernstein polynomials of a sigmoid, in pure PyTensor.

Notation: ``M`` order, u = sigmoid(x), B_{n,j}(u) = binom(n, j) u^j (1-u)^(n-j). With coefficients
ϑ_k = ϑ_0 + inc_1 + ... + inc_k the polynomial is ϑ_0 + Σ_k inc_k P(Bin(M, u) >= k), and its
derivative M Σ_k inc_k B_{M-1,k-1}(u). Dürr et al. (2024), eq. (1), with B = Be / (M + 1).
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor import TensorLike, TensorVariable

from pymc_ext.maths.bernstein_coefficients import log_binomials


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
