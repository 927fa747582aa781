"""The kernel of ``expected_softplus.c`` on whole NumPy arrays."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, expit

from pymc_ext.maths.expected_softplus_series import (
    ASYMPTOTIC,
    HUGE_SIGMA,
    LARGE_SIGMA,
    NEGLIGIBLE,
    Series,
)
from pymc_ext.maths.types import Array

_INV_SQRT_2PI = float(1 / np.sqrt(2 * np.pi))


def expected_softplus_derivatives(
    mu: Array, sigma: Array, numbers: Series
) -> tuple[Array, Array, Array]:
    """(D_m, ∂D_m/∂mu, ∂D_m/∂sigma), m = ``numbers.order``, in float64 with broadcasting."""
    mu, sigma = np.broadcast_arrays(np.asarray(mu, float), np.asarray(sigma, float))
    t, s = np.abs(mu).ravel(), sigma.ravel()
    d = np.zeros((3, t.size))
    with np.errstate(all="ignore"):
        invalid = ~(s >= 0) | np.isnan(t) | (np.isinf(t) & np.isinf(s))
        flat = np.isinf(s) & ~invalid
        todo = ~(invalid | flat | np.isinf(t))
        d[:, todo] = _finite(t[todo], s[todo], numbers)
    d[:, flat] = _infinite_sigma(numbers.order)[:, None]
    d[:, invalid] = np.nan
    _reflect(d, mu.ravel(), t, numbers.order)
    d0, d1, d2 = d.reshape(3, *mu.shape)
    return d0, d1, d2


def _infinite_sigma(order: int) -> Array:
    return np.array({0: [np.inf, 0.5, _INV_SQRT_2PI], 1: [0.5, 0, 0]}.get(order, [0, 0, 0]))


def _reflect(d: Array, mu: Array, t: Array, order: int) -> None:
    """D_0(t) = D_0(−t) + t, D_1(t) = 1 − D_1(−t), D_j(t) = (−1)^j D_j(−t)."""
    for row in range(3):
        j = order + row
        mirrored = (-1) ** j * d[row] + (t if j == 0 else 1.0 if j == 1 else 0.0)
        d[row] = np.where(mu > 0, mirrored, d[row])


def _finite(t: Array, s: Array, numbers: Series) -> Array:
    z = np.where(s > 0, t / s, np.inf)
    gaussian = 0.5 * z**2 <= t + NEGLIGIBLE
    E = np.where(gaussian, np.exp(-0.5 * z**2), 0.0)
    tail = 0.5 * E * erfcx(np.where(gaussian, z, 0.0) * np.sqrt(0.5))  # Φ(−z)
    lead = (s * _INV_SQRT_2PI * E - t * tail, tail)
    large = s > HUGE_SIGMA
    if numbers.accelerated:
        large |= (s >= LARGE_SIGMA) & (z <= 0.25 * s)
    d = np.empty((3, t.size))
    for where, method in ((large, _asymptotic), (~large, _series)):
        part = method(t[where], s[where], z[where], E[where], numbers)
        for j in range(numbers.order, 2):
            part[j - numbers.order] += lead[j][where]
        d[:, where] = part
    if numbers.accelerated and numbers.order == 0:
        zero = s == 0
        d[:2, zero] = np.log1p(np.exp(-t[zero])), expit(-t[zero])
    return d


def _series(t: Array, s: Array, z: Array, E: Array, numbers: Series) -> Array:
    d = np.zeros((3, t.size))
    half, ct, cz = 0.5 * E, s * np.sqrt(0.5), np.where(E > 0, z, 0.0) * np.sqrt(0.5)
    parity = (-1) ** numbers.order
    for k in range(1, numbers.terms + 1):
        below = k * s < z
        power = np.where(below, np.exp(np.minimum(k * (0.5 * k * s**2 - t), 0.0)), 0.0)
        a = np.where(below, -half, half) * erfcx(np.abs(k * ct - cz)) + power
        b = half * erfcx(k * ct + cz)
        w = numbers.weights[:, k]
        d += w[:, None] * np.stack([a + parity * b, a - parity * b, a + parity * b])
    d[2] *= s
    edge = (E > 0) & (s > 0)
    if numbers.boundary.any() and edge.any():
        p = _hermite(z[edge], s[edge], numbers.order + 1)
        density = (
            _INV_SQRT_2PI * E[edge] * np.stack([1 / s[edge], 1 / s[edge], np.ones(edge.sum())])
        )
        d[:, edge] += density * (numbers.boundary @ p)
    return d


def _asymptotic(t: Array, s: Array, z: Array, E: Array, numbers: Series) -> Array:
    p = _hermite(z, s, 2 * len(ASYMPTOTIC) + numbers.order)
    d = np.zeros((3, t.size))
    for row in range(3):
        for i, c in enumerate(ASYMPTOTIC):
            if (m := 2 * i + numbers.order + row - 2) >= 0:
                d[row] += c * p[m]
    return _INV_SQRT_2PI * E * d * np.stack([1 / s, 1 / s, np.ones_like(s)])


def _hermite(z: Array, s: Array, n: int) -> Array:
    """He_i(z)/sigma^i for i < n, shape (n, size)."""
    p = np.empty((n, z.size))
    p[0] = 1.0
    if n > 1:
        p[1] = z / s
    for i in range(1, n - 1):
        p[i + 1] = (z * p[i] - i * p[i - 1] / s) / s
    return p
