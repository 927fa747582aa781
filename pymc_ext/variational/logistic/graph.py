"""What a PyTensor graph depends on: values, slopes and steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from pytensor.graph import rewrite_graph
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.scalar import (
    Ceil,
    Floor,
    IntDiv,
    Mod,
    RoundHalfAwayFromZero,
    RoundHalfToEven,
    ScalarOp,
    Second,
    Sign,
    Trunc,
)
from pytensor.tensor import TensorVariable
from pytensor.tensor.elemwise import Elemwise

from pymc_ext.pytensor_versions import Alloc, Einsum, Shape, Shape_i, inline_ofg_node
from pymc_ext.typed_graphs import gradients

STEPS = (Ceil, Floor, IntDiv, Mod, RoundHalfAwayFromZero, RoundHalfToEven, Sign, Trunc)


def simplified(nodes: Iterable[Variable]) -> list[TensorVariable]:
    """Canonical form of the graphs; their root variables stay the same objects."""
    copies = clone_replace(_inlined(list(nodes)))
    rewritten = rewrite_graph(copies, include=("canonicalize", "stabilize"), clone=False)
    return list(cast("Sequence[TensorVariable]", rewritten))


def _inlined(nodes: list[Variable]) -> list[Variable]:
    """The graphs with what einsums hold inside in their place."""
    while True:
        seen = set[Variable]().union(*map(_ancestors, nodes))
        einsums = {x.owner for x in seen if x.owner and isinstance(x.owner.op, Einsum)}
        if not einsums:
            return nodes
        inner = [
            pair
            for node in einsums
            for pair in zip(node.outputs, inline_ofg_node(node), strict=True)
        ]
        nodes = clone_replace(nodes, dict(inner))


def scalar_op(variable: Variable) -> ScalarOp | None:
    """The scalar Op that computes ``variable`` elementwise, None if none does."""
    op = variable.owner.op if variable.owner is not None else None
    return op.scalar_op if isinstance(op, Elemwise) else None


def _value_inputs(variable: Variable) -> list[Variable]:
    """Inputs of a variable's node whose values, not only shapes, it depends on."""
    if variable.owner is None or isinstance(variable.owner.op, Shape | Shape_i):
        return []
    inputs = variable.owner.inputs
    if isinstance(variable.owner.op, Alloc):
        return inputs[:1]
    return inputs[1:] if isinstance(scalar_op(variable), Second) else inputs


def _ancestors(node: Variable) -> set[Variable]:
    """``node`` and everything whose value it depends on."""
    seen: set[Variable] = set()
    stack = [node]
    while stack:
        variable = stack.pop()
        if variable not in seen:
            seen.add(variable)
            stack.extend(_value_inputs(variable))
    return seen


def dependencies(node: Variable, among: Iterable[Variable]) -> set[Variable]:
    """Variables of ``among`` that ``node`` depends on."""
    return _ancestors(node) & set(among)


def _is_step(variable: Variable) -> bool:
    if isinstance(scalar_op(variable), STEPS):
        return True
    return not _is_real(variable) and any(_is_real(x) for x in _value_inputs(variable))


def _is_real(variable: Variable) -> bool:
    return getattr(variable.type, "dtype", "").startswith("float")


def steps_of(node: Variable, among: Iterable[Variable]) -> set[Variable]:
    """Variables of ``among`` that ``node`` depends on through a step function."""
    among = set(among)
    found: set[Variable] = set()
    for variable in filter(_is_step, _ancestors(node)):
        found |= _ancestors(variable) & among
    return found


def vjp(outputs: TensorVariable, wrt: Sequence[Variable]) -> list[TensorVariable]:
    """wᵀ∂outputs/∂wrt for a new variable w, simplified."""
    weights = outputs.type("w")
    return simplified(gradients((outputs * weights).sum(), wrt))


def over_last_axis(axis: int | tuple[int, ...] | None, ndim: int) -> bool:
    """``axis`` of a Softmax: an integer or None in PyTensor 2, a tuple of integers in 3."""
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return {a % ndim for a in axes} == {ndim - 1}
