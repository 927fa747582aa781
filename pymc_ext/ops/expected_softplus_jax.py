"""The kernel of ``expected_softplus.c`` for PyTensor's JAX backend (the ``jax`` extra)."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
from pytensor.link.jax.dispatch import jax_funcify

from pymc_ext.maths.expected_softplus_series import (
    ASYMPTOTIC,
    ERFCX,
    HUGE_SIGMA,
    LARGE_SIGMA,
    NEGLIGIBLE,
    Series,
    series,
)

_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _erfcx(x):
    s = 1 - 6 / (x + 3)
    p = jnp.full_like(s, ERFCX[-1])
    for c in ERFCX[-2::-1]:
        p = p * s + c
    return p / (1 + 2 * x)


def _hermite(z, sigma, n):
    p = [jnp.ones_like(z), z / sigma]
    for i in range(1, n - 1):
        p.append((z * p[i] - i * p[i - 1] / sigma) / sigma)
    return p[:n]


def _asymptotic(z, sigma, E, numbers):
    p = _hermite(z, sigma, 2 * len(ASYMPTOTIC) + numbers.order)
    sums = []
    for j in range(numbers.order, numbers.order + 3):
        pairs = [(c, 2 * i + j - 2) for i, c in enumerate(ASYMPTOTIC)]
        sums.append(sum((c * p[m] for c, m in pairs if m >= 0), jnp.zeros_like(z)))
    density = _INV_SQRT_2PI * E
    return [density / sigma * sums[0], density / sigma * sums[1], density * sums[2]]


def _series(t, sigma, z, E, gaussian, numbers):
    k = jnp.arange(1.0, numbers.terms + 1, dtype=t.dtype)
    z_, sigma_, t_, half = (x[..., None] for x in (z, sigma, t, 0.5 * E))
    u = (k * sigma_ - jnp.where(gaussian, z, 0.0)[..., None]) * _SQRT_HALF
    v = (k * sigma_ + jnp.where(gaussian, z, 0.0)[..., None]) * _SQRT_HALF
    exponent = jnp.minimum(k * (0.5 * k * sigma_**2 - t_), 0.0)
    below = k * sigma_ < z_
    a = jnp.where(below, jnp.exp(exponent), 0.0)
    a = a + jnp.where(below, -half, half) * _erfcx(jnp.abs(u))
    b = (-1.0) ** numbers.order * half * _erfcx(v)
    w = [jnp.asarray(row[1 : numbers.terms + 1], dtype=t.dtype) for row in numbers.weights]
    d = [jnp.sum(w[0] * (a + b), -1), jnp.sum(w[1] * (a - b), -1), jnp.sum(w[2] * (a + b), -1)]
    d[2] = sigma * d[2]
    if numbers.boundary.any():
        safe = jnp.where(sigma > 0, sigma, 1.0)
        p = _hermite(jnp.where(gaussian, z, 0.0), safe, numbers.order + 1)
        for row, scale in enumerate((1 / safe, 1 / safe, jnp.where(sigma > 0, 1.0, 0.0))):
            for i, c in enumerate(numbers.boundary[row]):
                if c != 0:
                    d[row] = d[row] + float(c) * _INV_SQRT_2PI * E * scale * p[i]
    return d


def _evaluate(mu, sigma, numbers):
    order = numbers.order
    mu, sigma = jnp.broadcast_arrays(jnp.asarray(mu), jnp.asarray(sigma))
    t_given = jnp.abs(mu)
    invalid = ~(sigma >= 0) | jnp.isnan(mu) | (jnp.isinf(mu) & jnp.isinf(sigma))
    ordinary = ~invalid & jnp.isfinite(t_given) & jnp.isfinite(sigma)
    t, s = jnp.where(ordinary, t_given, 1.0), jnp.where(ordinary, sigma, 1.0)
    z = jnp.where(s > 0, t / jnp.where(s > 0, s, 1.0), jnp.inf)
    gaussian = 0.5 * z**2 <= t + NEGLIGIBLE
    z_safe = jnp.where(gaussian, z, 0.0)
    E = jnp.where(gaussian, jnp.exp(-0.5 * z_safe**2), 0.0)
    tail = 0.5 * E * _erfcx(z_safe * _SQRT_HALF)
    lead = [s * _INV_SQRT_2PI * E - t * tail, tail]
    huge = HUGE_SIGMA if t.dtype == jnp.float64 else 1e15
    large = s > huge
    if numbers.accelerated:
        large |= (s >= LARGE_SIGMA) & (z <= 0.25 * s)
    small = _series(t, jnp.where(large, 1.0, s), jnp.where(large, 1.0, z), E, gaussian, numbers)
    big = _asymptotic(jnp.where(large, z_safe, 0.0), jnp.where(large, s, 1.0), E, numbers)
    d = [jnp.where(large, y, x) for x, y in zip(small, big, strict=True)]
    for j in range(order, 2):
        d[j - order] = d[j - order] + lead[j]
    if numbers.accelerated and order == 0:
        d[0] = jnp.where(s == 0, jnp.log1p(jnp.exp(-t)), d[0])
        d[1] = jnp.where(s == 0, jax.nn.sigmoid(-t), d[1])
    flat = {0: (jnp.inf, 0.5, _INV_SQRT_2PI), 1: (0.5, 0.0, 0.0)}.get(order, (0.0, 0.0, 0.0))
    for row in range(3):
        j = order + row
        value = jnp.where(jnp.isinf(t_given), 0.0, jnp.where(jnp.isinf(sigma), flat[row], d[row]))
        mirrored = (-1) ** j * value + (t_given if j == 0 else 1.0 if j == 1 else 0.0)
        d[row] = jnp.where(invalid, jnp.nan, jnp.where(mu > 0, mirrored, value))
    return tuple(d)


@cache
def _kernel(numbers: Series):
    def after(step):
        return _kernel(series(numbers.order + step, numbers.terms, numbers.acceleration))

    @jax.custom_jvp
    def expected_softplus(mu, sigma):
        return _evaluate(mu, sigma, numbers)

    @expected_softplus.defjvp
    def derivative(primals, tangents):
        mu, sigma = primals
        d_mu, d_sigma = tangents
        value = expected_softplus(mu, sigma)
        next_value, next_mu, next_sigma = after(1)(mu, sigma)
        after_value, _, after_sigma = after(2)(mu, sigma)
        return value, (
            next_value * d_mu + value[2] * d_sigma,
            next_mu * d_mu + next_sigma * d_sigma,
            next_sigma * d_mu + (after_value + sigma * after_sigma) * d_sigma,
        )

    return expected_softplus


def register(op_type: type) -> None:
    """Teach PyTensor's JAX backend the scalar Op ``op_type``."""

    @jax_funcify.register(op_type)
    def funcify(op, node=None, **kwargs):
        kernel = _kernel(op.series)
        dtype = node.outputs[0].type.dtype

        def expected_softplus(mu, sigma):
            return kernel(jnp.asarray(mu, dtype=dtype), jnp.asarray(sigma, dtype=dtype))

        return expected_softplus
