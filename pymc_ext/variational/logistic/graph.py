"""What a PyTensor graph depends on: values, slopes and steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytensor.gradient import grad
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.scalar.basic import (
    Ceil,
    Floor,
    IntDiv,
    Mod,
    RoundHalfAwayFromZero,
    RoundHalfToEven,
    Second,
    Sign,
    Trunc,
)
from pytensor.tensor import TensorVariable
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape, Shape_i

STEPS = (Ceil, Floor, IntDiv, Mod, RoundHalfAwayFromZero, RoundHalfToEven, Sign, Trunc)


def simplified(nodes: Any) -> list[TensorVariable]:
    """Canonical form of the graphs; their root variables stay the same objects."""
    copies: Any = clone_replace(list(nodes))
    rewritten: Any = rewrite_graph(copies, include=("canonicalize", "stabilize"), clone=False)
    return list(rewritten)


def scalar_op(variable: Any) -> Any:
    """The scalar Op that computes ``variable`` elementwise, None if none does."""
    op = variable.owner.op if variable.owner is not None else None
    return op.scalar_op if isinstance(op, Elemwise) else None


def _value_inputs(variable: Any) -> list[Any]:
    """Inputs of a variable's node whose values, not only shapes, it depends on."""
    if variable.owner is None or isinstance(variable.owner.op, Shape | Shape_i):
        return []
    inputs = variable.owner.inputs
    if isinstance(variable.owner.op, Alloc):
        return inputs[:1]
    return inputs[1:] if isinstance(scalar_op(variable), Second) else inputs


def _ancestors(node: Any) -> set[Any]:
    """``node`` and everything whose value it depends on."""
    seen, stack = set(), [node]
    while stack:
        variable = stack.pop()
        if variable not in seen:
            seen.add(variable)
            stack.extend(_value_inputs(variable))
    return seen


def dependencies(node: Any, among: Iterable[Any]) -> set[Any]:
    """Variables of ``among`` that ``node`` depends on."""
    return _ancestors(node) & set(among)


def _is_step(variable: Any) -> bool:
    if isinstance(scalar_op(variable), STEPS):
        return True
    return not _is_real(variable) and any(_is_real(x) for x in _value_inputs(variable))


def _is_real(variable: Any) -> bool:
    return getattr(variable.type, "dtype", "").startswith("float")


def steps_of(node: Any, among: Iterable[Any]) -> set[Any]:
    """Variables of ``among`` that ``node`` depends on through a step function."""
    among, found = set(among), set()
    for variable in filter(_is_step, _ancestors(node)):
        found |= _ancestors(variable) & among
    return found


def vjp(outputs: TensorVariable, wrt: list[Any]) -> list[TensorVariable]:
    """wᵀ∂outputs/∂wrt for a new variable w, simplified."""
    weights = outputs.type("w")
    gradients = grad((outputs * weights).sum(), wrt, disconnected_inputs="ignore")
    return simplified(gradients)


def over_last_axis(axis: Any, ndim: int) -> bool:
    """``axis`` of a Softmax: an integer or None in PyTensor 2, a tuple of integers in 3."""
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return {a % ndim for a in axes} == {ndim - 1}
