"""The kernel of ``expected_softplus.c`` for PyTensor's numba backend."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from pymc_ext.maths import expected_softplus_series as constants
from pymc_ext.maths.expected_softplus_series import ERFCX, Series
from pymc_ext.pytensor_versions import register_scalar_funcify

# PyTensor keeps compiled kernels on disk under a key that must change with the code
_SOURCE = hashlib.sha256(
    b"".join(Path(module).read_bytes() for module in (__file__, constants.__file__))
).hexdigest()

# Reassociation lets LLVM vectorise the sums; NaN and infinity keep their meaning.
_inline = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", inline="never")

_ASYMPTOTIC = np.array(constants.ASYMPTOTIC)
_HUGE_SIGMA = constants.HUGE_SIGMA
_LARGE_SIGMA = constants.LARGE_SIGMA
_NEGLIGIBLE = constants.NEGLIGIBLE
_RECURRENCE_LIMIT = constants.RECURRENCE_LIMIT
_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _horner_source() -> str:
    body = repr(ERFCX[-1])
    for c in ERFCX[-2::-1]:
        body = f"({body}) * s + {c!r}"
    return (
        "def erfcx(x):\n"
        "    q = 1.0 / ((x + 3.0) * (1.0 + 2.0 * x))\n"
        "    s = 1.0 - 6.0 * (1.0 + 2.0 * x) * q\n"
        f"    return ({body}) * (x + 3.0) * q\n"
    )


_namespace: dict[str, Callable] = {}
exec(_horner_source(), _namespace)  # straight-line code: a loop over coefficients is 3x slower
_erfcx = numba.njit(_namespace["erfcx"], fastmath={"contract"}, error_model="numpy")


@_inline
def _hermite(z, sigma, n):
    p = np.empty(n)
    p[0] = 1.0
    if n > 1:
        p[1] = z / sigma
    for i in range(1, n - 1):
        p[i + 1] = (z * p[i] - i * p[i - 1] / sigma) / sigma
    return p


@_inline
def _asymptotic(z, sigma, E, order):
    p = _hermite(z, sigma, 2 * _ASYMPTOTIC.size + order)
    d = np.zeros(3)
    for row in range(3):
        for i in range(_ASYMPTOTIC.size):
            m = 2 * i + order + row - 2
            if m >= 0:
                d[row] += _ASYMPTOTIC[i] * p[m]
    return (
        d[0] * _INV_SQRT_2PI * E / sigma,
        d[1] * _INV_SQRT_2PI * E / sigma,
        d[2] * (_INV_SQRT_2PI * E),
    )


@_inline
def _exponential_sums(t, z, sigma, weights):
    """Σ_k w_k e^{−kt + k²sigma²/2} over k sigma < z."""
    d0, d1, d2 = 0.0, 0.0, 0.0
    h = 0.5 * sigma * sigma
    power, ratio, step = 1.0, math.exp(h - t), math.exp(2.0 * h)
    for k in range(1, weights.shape[1]):
        if not k * sigma < z:
            break
        if t < _RECURRENCE_LIMIT:
            power *= ratio
            ratio *= step
        else:
            power = math.exp(k * (k * h - t))
        d0 += weights[0, k] * power
        d1 += weights[1, k] * power
        d2 += weights[2, k] * power
    return d0, d1, d2


@_inline
def _gaussian_sums(z, sigma, E, parity, weights):
    d0, d1, d2 = 0.0, 0.0, 0.0
    half, ct, cz = 0.5 * E, sigma * _SQRT_HALF, z * _SQRT_HALF
    for k in range(weights.shape[1]):
        a = (-half if k * sigma < z else half) * _erfcx(abs(k * ct - cz))
        b = parity * half * _erfcx(k * ct + cz)
        d0 += weights[0, k] * (a + b)
        d1 += weights[1, k] * (a - b)
        d2 += weights[2, k] * (a + b)
    return d0, d1, d2


def _make_kernel(numbers: Series):
    order, accelerated = numbers.order, numbers.accelerated
    weights, boundary = numbers.weights, numbers.boundary
    parity = (-1.0) ** order

    @_inline
    def finite(t, sigma):
        z = t / sigma if sigma > 0.0 else math.inf
        gaussian = 0.5 * z * z <= t + _NEGLIGIBLE
        E = math.exp(-0.5 * z * z) if gaussian else 0.0
        tail = 0.5 * E * _erfcx(z * _SQRT_HALF) if gaussian else 0.0
        lead = sigma * _INV_SQRT_2PI * E - t * tail
        if sigma > _HUGE_SIGMA or (accelerated and sigma >= _LARGE_SIGMA and z <= 0.25 * sigma):
            d0, d1, d2 = _asymptotic(z, sigma, E, order)
        else:
            d0, d1, d2 = 0.0, 0.0, 0.0
            if gaussian:
                d0, d1, d2 = _gaussian_sums(z, sigma, E, parity, weights)
            if sigma < z:
                e0, e1, e2 = _exponential_sums(t, z, sigma, weights)
                d0, d1, d2 = d0 + e0, d1 + e1, d2 + e2
            d2 *= sigma
            if not accelerated and E > 0.0 and sigma > 0.0:
                p = _hermite(z, sigma, order + 1)
                density = _INV_SQRT_2PI * E
                for i in range(order + 1):
                    # a zero coefficient must not meet an infinite density
                    if boundary[0, i] != 0.0:
                        d0 += boundary[0, i] * density / sigma * p[i]
                    if boundary[1, i] != 0.0:
                        d1 += boundary[1, i] * density / sigma * p[i]
                    if boundary[2, i] != 0.0:
                        d2 += boundary[2, i] * density * p[i]
        if order == 0:
            d0 += lead
            d1 += tail
        if order == 1:
            d0 += tail
        if sigma == 0.0 and accelerated and order == 0:
            d0 = math.log1p(math.exp(-t))
            d1 = math.exp(-t) / (1.0 + math.exp(-t))
        return d0, d1, d2

    @_inline
    def expected_softplus(mu, sigma):
        mu, sigma = float(mu), float(sigma)
        t = abs(mu)
        if not sigma >= 0.0 or math.isnan(mu) or (math.isinf(t) and math.isinf(sigma)):
            return math.nan, math.nan, math.nan
        d0, d1, d2 = 0.0, 0.0, 0.0
        if math.isinf(sigma):
            if order == 0:
                d0, d1, d2 = math.inf, 0.5, _INV_SQRT_2PI
            elif order == 1:
                d0 = 0.5
        elif not math.isinf(t):
            d0, d1, d2 = finite(t, sigma)
        if mu > 0.0:
            d0, d1, d2 = parity * d0, -parity * d1, parity * d2
            if order == 0:
                d0 += t
                d1 += 1.0
            elif order == 1:
                d0 += 1.0
        return d0, d1, d2

    return expected_softplus


def register(op_type: type) -> None:
    """Teach PyTensor's numba backend the scalar Op ``op_type``."""

    @register_scalar_funcify(op_type)
    def funcify(op, node=None, **kwargs):
        key = f"expected_softplus-{_SOURCE}-{op.order}-{op.terms}-{op.acceleration}"
        return _make_kernel(op.series), key
