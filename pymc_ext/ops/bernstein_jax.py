"""The kernel of ``bernstein.c`` for PyTensor's JAX backend (the ``jax`` extra)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.link.jax.dispatch.basic import jax_funcify

from pymc_ext.maths.bernstein_basis import log_binomials


def _softplus(raw):
    # alone four times faster on the CPU than jax.nn.softplus
    value = jnp.maximum(raw, 0) + jnp.log1p(jnp.exp(-jnp.abs(raw)))
    return jnp.maximum(value, jnp.finfo(raw.dtype).tiny)


def _basis(x, n):
    """Basis of degree n and u = sigmoid(x); (N,) -> (N, n + 1), (N, 1)."""
    j = np.arange(n + 1)
    below, above = -_softplus(-x)[:, None], -_softplus(x)[:, None]
    b = jnp.exp(jnp.asarray(log_binomials(n), dtype=x.dtype) + j * below + (n - j) * above)
    return b, jnp.exp(below)


def _survival(b, u):
    # a product with a triangle of ones: XLA's cumulative sum on the CPU is several times slower
    M = b.shape[1]
    return b @ np.tril(np.ones((M, M), dtype=b.dtype), -1) + u * b


def forward(x, raw):
    """Value and log derivative; (N,), (N, M) -> (N,), (N,)."""
    M = raw.shape[1]
    (b, u), inc = _basis(x, M - 1), _softplus(raw)
    log_slope = -_softplus(-x) - _softplus(x)
    log_derivative = jnp.log(M * jnp.sum(inc * b, 1)) + log_slope
    return jnp.sum(inc * _survival(b, u), 1), log_derivative


def backward(x, raw, g_value, g_log):
    """Cotangents of (value, log derivative) to cotangents of (x, raw)."""
    M = raw.shape[1]
    (b, u), inc = _basis(x, M - 1), _softplus(raw)
    total = jnp.sum(inc * b, 1)
    first = jnp.sum(inc * b * (jnp.arange(1, M + 1) - (M + 1) * u), 1)
    slope_x = jax.nn.sigmoid(x) * jax.nn.sigmoid(-x)
    gx = g_value * M * slope_x * total + g_log * first / total
    graw = g_value[:, None] * _survival(b, u) + (g_log / total)[:, None] * b
    return gx, graw * jax.nn.sigmoid(raw)


def register(forward_op: type, backward_op: type) -> None:
    """Teach PyTensor's JAX backend the two Ops."""
    jax_funcify.register(forward_op)(lambda op, **kwargs: forward)
    jax_funcify.register(backward_op)(lambda op, **kwargs: backward)
