"""PyTensor's graph functions with the types they have here: tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.tensor import TensorVariable

Tensor = TypeVar("Tensor", bound=Variable)  # tensors, shared ones too


def gradients(of: TensorVariable, wrt: Sequence[Variable]) -> list[TensorVariable]:
    """Gradients of the scalar ``of`` in each of ``wrt``; zero where it does not depend on one."""
    found = grad(of, list(wrt), disconnected_inputs="ignore")
    return cast("list[TensorVariable]", found)


def replaced(
    nodes: Sequence[TensorVariable], values: Mapping[Tensor, TensorVariable]
) -> list[TensorVariable]:
    """The graphs with some variables replaced; variables that are not in them are left out."""
    pairs: list[tuple[Variable, Variable]] = list(values.items())
    return cast("list[TensorVariable]", graph_replace(list(nodes), pairs, strict=False))
