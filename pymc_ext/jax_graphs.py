"""PyTensor graphs as JAX functions (extra ``jax``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytensor
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor import TensorType, TensorVariable

if TYPE_CHECKING:
    import jax

    from pymc_ext.pytensor_versions import TensorSharedVariable


def _fixed_shape(variable: SharedVariable) -> Variable:
    """A plain variable like a shared one, of its present shape: JAX needs shapes when it traces."""
    value = variable.get_value(borrow=True)
    if not isinstance(variable.type, TensorType):
        return variable.type(name=variable.name)
    return TensorType(variable.type.dtype, shape=np.shape(value))(name=variable.name)


def jax_function(
    first: Sequence[TensorSharedVariable], z: TensorVariable, outputs: Sequence[Variable]
) -> tuple[Callable[..., tuple[jax.Array, ...]], list[SharedVariable]]:
    """A graph as a JAX function of the shared variables ``first``, of all others in it, and of z.

    The other shared variables are returned with it, in their order as arguments.

    Raises
    ------
    NotImplementedError
        JAX has no counterpart of an operation of the graph.
    """
    from pytensor.link.jax.dispatch import jax_funcify

    others = [
        v
        for v in dict.fromkeys(graph_inputs(outputs))
        if isinstance(v, SharedVariable) and v not in first
    ]
    plain: dict[Variable, Variable] = {v: _fixed_shape(v) for v in [*first, *others]}
    replaced = clone_replace(list(outputs), plain, rebuild_strict=False)
    graph = FunctionGraph([*plain.values(), z], replaced, clone=True)
    pytensor.compile.mode.get_mode("JAX").optimizer.rewrite(graph)
    return jax_funcify(graph), others
