"""The Ops of a Stan program on PyTensor's JAX backend: callbacks to the same C++ (needs JAX)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.link.jax.dispatch import jax_funcify

from bridge.stan.stan_op import (
    StanConstrain,
    StanHessianProduct,
    StanLogDensity,
    StanLogDensityAlone,
    hessian_product,
    log_density,
    log_density_gradient,
)
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from stan_models import StanDensity

Arrays = tuple[jax.Array, ...]


def callback(
    compute: Callable[..., Sequence[Array]],
    shapes: tuple[jax.ShapeDtypeStruct, ...],
    *inputs: jax.Array,
) -> Arrays:
    def on_arrays(*arrays: jax.Array) -> tuple[Array, ...]:
        return tuple(compute(*(np.asarray(a, dtype=float) for a in arrays)))

    return jax.pure_callback(on_arrays, shapes, *inputs, vmap_method="broadcast_all")


def shape_of(x: jax.Array, drop: int = 0) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape[: x.ndim - drop], x.dtype)


@jax_funcify.register(StanLogDensity)
def density_and_gradient(op: StanLogDensity, **kwargs: object) -> Callable:
    @jax.custom_vjp
    def value(theta: jax.Array) -> Arrays:
        shapes = (shape_of(theta, 1), shape_of(theta))
        return callback(lambda t: log_density_gradient(op.density, t), shapes, theta)

    def forward(theta: jax.Array) -> tuple[Arrays, Arrays]:
        lp, gradient = value(theta)
        return (lp, gradient), (theta, gradient)

    def backward(kept: Arrays, cotangents: Arrays) -> tuple[jax.Array]:
        (theta, gradient), (g_lp, g_gradient) = kept, cotangents
        product = jax.lax.cond(
            jnp.any(g_gradient != 0.0),
            lambda t, g: hessian(op.density, t, g),
            lambda t, g: jnp.zeros_like(t),
            theta,
            g_gradient,
        )
        return (g_lp[..., None] * gradient + product,)

    value.defvjp(forward, backward)
    return value


@jax_funcify.register(StanLogDensityAlone)
def density_alone(op: StanLogDensityAlone, **kwargs: object) -> Callable:
    @jax.custom_vjp
    def value(theta: jax.Array) -> jax.Array:
        return callback(lambda t: [log_density(op.density, t)], (shape_of(theta, 1),), theta)[0]

    def forward(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        shapes = (shape_of(theta, 1), shape_of(theta))
        lp, gradient = callback(lambda t: log_density_gradient(op.density, t), shapes, theta)
        return lp, gradient

    def backward(gradient: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
        return (cotangent[..., None] * gradient,)

    value.defvjp(forward, backward)
    return value


def hessian(density: StanDensity, theta: jax.Array, v: jax.Array) -> jax.Array:
    theta, v = jnp.broadcast_arrays(theta, v)
    return callback(lambda t, g: [hessian_product(density, t, g)], (shape_of(theta),), theta, v)[0]


@jax_funcify.register(StanHessianProduct)
def product(op: StanHessianProduct, **kwargs: object) -> Callable:
    return lambda theta, v: hessian(op.density, theta, v)


@jax_funcify.register(StanConstrain)
def constrain(op: StanConstrain, **kwargs: object) -> Callable:
    def value(theta: jax.Array) -> jax.Array | Arrays:
        batch = theta.shape[:-1]
        shapes = tuple(
            jax.ShapeDtypeStruct((*batch, *shape), np.dtype(op.dtypes[name]))
            for name, shape in op.shapes.items()
        )
        found = callback(op.compute, shapes, theta)
        return found if len(found) > 1 else found[0]

    return value
