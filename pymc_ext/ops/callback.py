"""Ops whose ``perform`` is Python by design, on PyTensor's numba and JAX backends.

A rule for the sites of a Gaussian process iterates in SciPy: there is no kernel to generate. Such
an Op is declared a callback, so that PyTensor's own fallback (which warns) stays a sign of an Op
whose kernel is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar, cast

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op, OutputStorageType

from pymc_ext.pytensor_versions import get_numba_type, register_funcify_and_cache_key

if TYPE_CHECKING:
    import jax

OpType = TypeVar("OpType", bound=Op)
Shapes = Sequence[tuple[int, ...]]


def compute(op: Op, node: Apply, inputs: Sequence[ArrayLike]) -> tuple[NDArray, ...]:
    """The outputs of ``op.perform`` as arrays of the node's types."""
    storage: OutputStorageType = [[None] for _ in node.outputs]
    op.perform(node, [np.asarray(value) for value in inputs], storage)
    return tuple(
        np.asarray(cell[0], dtype=out.type.dtype)
        for cell, out in zip(storage, node.outputs, strict=True)
    )


def register_numba(op_type: type) -> None:
    """Teach PyTensor's numba backend to call ``perform`` of the Ops of a type."""

    @register_funcify_and_cache_key(op_type)
    def funcify(op: Op, node: Apply, **kwargs: object) -> tuple[Callable, None]:
        types = [get_numba_type(output.type) for output in node.outputs]
        result = types[0] if len(types) == 1 else numba.types.Tuple(types)

        def run(inputs: tuple[NDArray, ...]) -> NDArray | tuple[NDArray, ...]:
            values = compute(op, node, inputs)
            return values[0] if len(values) == 1 else values

        @numba.njit
        def call(*inputs):  # numba reads the signature
            with numba.objmode(values=result):
                values = run(inputs)
            return values

        return call, None  # not cached on disk: it holds a pointer into this process


def register_jax(
    op_type: type[OpType],
    shapes: Callable[[OpType, Shapes], Shapes],
    gradient: Callable[[OpType], Op] | None = None,
) -> None:
    """Teach PyTensor's JAX backend the same; nothing where JAX is not installed.

    Parameters
    ----------
    op_type
        The class of the Ops.
    shapes
        ``shapes(op, input shapes)`` gives the shapes of the outputs.
    gradient
        Of an Op with one scalar output whose first input has no gradient: ``gradient(op)`` is the
        Op of the derivatives in the others, for ``jax.grad`` (PyMC's JAX samplers).
    """
    if find_spec("jax") is None:
        return
    import jax
    import jax.numpy as jnp
    from pytensor.link.jax.dispatch import jax_funcify

    def call(op: Op, node: Apply, *inputs: jax.Array) -> Sequence[jax.Array]:
        def on_arrays(*arrays: jax.Array) -> tuple[NDArray, ...]:
            return compute(op, node, arrays)

        found = shapes(cast("OpType", op), [x.shape for x in inputs])
        types = tuple(
            jax.ShapeDtypeStruct(shape, output.type.dtype)
            for shape, output in zip(found, node.outputs, strict=True)
        )
        return jax.pure_callback(on_arrays, types, *inputs, vmap_method="sequential")

    @jax_funcify.register(op_type)
    def funcify(op: OpType, node: Apply, **kwargs: object) -> Callable:
        def value(*inputs: jax.Array) -> jax.Array | Sequence[jax.Array]:
            out = call(op, node, *inputs)
            return out[0] if len(out) == 1 else out

        return value if gradient is None else differentiable(value, gradient(op), node)

    def differentiable(value: Callable, slope: Op, node: Apply) -> Callable:
        slope_node = slope.make_node(*node.inputs)
        function = jax.custom_vjp(value)

        def forward(*inputs: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
            return value(*inputs), inputs

        def backward(inputs: tuple[jax.Array, ...], cotangent: jax.Array) -> tuple[jax.Array, ...]:
            derivatives = call(slope, slope_node, *inputs)
            return (jnp.zeros_like(inputs[0]), *(cotangent * d for d in derivatives))

        function.defvjp(forward, backward)
        return function
