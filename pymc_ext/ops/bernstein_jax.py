"""The kernel of ``bernstein.c`` for PyTensor's JAX backend (the ``jax`` extra)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.link.jax.dispatch import jax_funcify

from pymc_ext.maths.bernstein_coefficients import log_binomials

# log(1 + e) for 0 <= e <= 1 as 2 atanh(e / (2 + e)): the polynomial of bernstein.c, in the square
_LOG1P = (
    0.08522081781390699,
    0.0416225325593041,
    0.06055084364034609,
    0.06650187016337313,
    0.07693307021152004,
    0.09090870416252403,
    0.11111112040373837,
    0.14285714272727057,
    0.20000000000092874,
    0.33333333333333076,
    1.0,
)


def _softplus_and_slope(raw):
    """log(1 + e^raw) and its derivative from one exponential; XLA's log1p is slow on the CPU."""
    limit = -math.log(jnp.finfo(raw.dtype).tiny) - 1  # no increment is ever exactly zero
    e = jnp.exp(-jnp.minimum(jnp.abs(raw), limit))
    s = e / (2 + e)
    log1p = 2 * s * jnp.polyval(jnp.asarray(_LOG1P, dtype=raw.dtype), s * s)
    return jnp.maximum(raw, 0) + log1p, jnp.where(raw > 0, 1.0, e) / (1 + e)


def _basis(x, n):
    """Basis of degree n and u = sigmoid(x); (N,) -> (N, n + 1), (N, 1)."""
    j = np.arange(n + 1)
    below, above = (-_softplus_and_slope(y)[0][:, None] for y in (-x, x))
    b = jnp.exp(jnp.asarray(log_binomials(n), dtype=x.dtype) + j * below + (n - j) * above)
    return b, jnp.exp(below)


def _survival(b, u):
    # a product with a triangle of ones: XLA's cumulative sum on the CPU is several times slower
    M = b.shape[1]
    return b @ np.tril(np.ones((M, M), dtype=b.dtype), -1) + u * b


def forward(x, raw):
    """Value and log derivative; (N,), (N, M) -> (N,), (N,)."""
    M = raw.shape[1]
    (b, u), (inc, _) = _basis(x, M - 1), _softplus_and_slope(raw)
    log_slope = -_softplus_and_slope(-x)[0] - _softplus_and_slope(x)[0]
    log_derivative = jnp.log(M * jnp.sum(inc * b, 1)) + log_slope
    return jnp.sum(inc * _survival(b, u), 1), log_derivative


def backward(x, raw, g_value, g_log):
    """Cotangents of (value, log derivative) to cotangents of (x, raw)."""
    M = raw.shape[1]
    (b, u), (inc, slope) = _basis(x, M - 1), _softplus_and_slope(raw)
    total = jnp.sum(inc * b, 1)
    first = jnp.sum(inc * b * (jnp.arange(1, M + 1) - (M + 1) * u), 1)
    slope_x = jax.nn.sigmoid(x) * jax.nn.sigmoid(-x)
    gx = g_value * M * slope_x * total + g_log * first / total
    graw = g_value[:, None] * _survival(b, u) + (g_log / total)[:, None] * b
    return gx, graw * slope


def register(forward_op: type, backward_op: type) -> None:
    """Teach PyTensor's JAX backend the two Ops."""
    jax_funcify.register(forward_op)(lambda op, **kwargs: forward)
    jax_funcify.register(backward_op)(lambda op, **kwargs: backward)
