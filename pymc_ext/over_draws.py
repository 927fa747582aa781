"""A model's graphs evaluated at many draws at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace, graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor import TensorLike, TensorVariable

from pymc_ext.pymc_versions import (
    CheckParameterValue,
    MinibatchOp,
    local_check_parameter_to_ninf_switch,
    local_remove_check_parameter,
)
from pymc_ext.pytensor_versions import Scan


def over_draws(
    nodes: Sequence[Variable],
    replace: Mapping[Variable, Variable],
    rows: TensorLike,
    check_bounds: bool = True,
) -> list[TensorVariable]:
    """Graphs with a leading axis of draws; what depends on no variable is repeated.

    Parameters
    ----------
    nodes
        Graphs of one draw.
    replace
        Variables of one draw, and their values at all draws, (rows, ...).
    rows
        Number of draws, symbolic or not.
    check_bounds
        The model's: whether a parameter outside its domain gives −∞, or is not looked at.
    """
    single = cast("Sequence[TensorVariable]", nodes)
    batched = vectorize_graph(checked(nodes, check_bounds), dict(replace))
    return [
        new if new.ndim > old.ndim else pt.broadcast_to(new, (rows, *tuple(new.shape)))
        for old, new in zip(single, cast("list[TensorVariable]", batched), strict=True)
    ]


def scan_draws(
    nodes: Sequence[Variable], variable: Variable, rows: TensorVariable, check_bounds: bool = True
) -> list[Variable]:
    """As :func:`over_draws` for graphs with a loop, which is run for one draw after another."""
    nodes = checked(nodes, check_bounds)
    out = pytensor.scan(
        lambda row, *_: graph_replace(nodes, {variable: row}, strict=False),
        sequences=[rows],
        non_sequences=[v for v in ancestors(nodes) if _is_minibatch_index(v)],
        return_updates=False,
    )
    return list(out) if isinstance(out, list | tuple) else [out]


def _is_minibatch_index(variable: Variable) -> bool:
    return variable.owner is not None and isinstance(variable.owner.op, MinibatchOp)


def has_scan(nodes: Sequence[Variable]) -> bool:
    """Whether a graph contains a loop, which cannot be vectorised over draws."""
    return any(v.owner is not None and isinstance(v.owner.op, Scan) for v in ancestors(nodes))


def checked(nodes: Sequence[Variable], check_bounds: bool = True) -> list[Variable]:
    """PyMC's checks of parameters as switches to −∞.

    Vectorised, a check holds for all draws or for none: one draw outside would make all others −∞.
    """
    if not any(v.owner and isinstance(v.owner.op, CheckParameterValue) for v in ancestors(nodes)):
        return list(nodes)
    inputs = [v for v in graph_inputs(nodes) if not isinstance(v, Constant)]
    graph = FunctionGraph(inputs, list(nodes), clone=True)
    rule = local_check_parameter_to_ninf_switch if check_bounds else local_remove_check_parameter
    in2out(rule).rewrite(graph)
    originals = dict(zip(graph.inputs, inputs, strict=True))
    return list(clone_replace(graph.outputs, originals, rebuild_strict=False))
