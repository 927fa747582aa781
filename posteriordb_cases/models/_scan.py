"""A scan over many draws at once: one loop over time, each of its steps over all draws.

Without this rule `vectorize_graph` wraps a scan into a `Blockwise`, which runs it once for every
draw and, in PyTensor 2.38, can no longer be differentiated once it has been compiled.
"""

from collections.abc import Sequence
from typing import cast

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import _vectorize_node, vectorize_graph
from pytensor.raise_op import Assert
from pytensor.scan.op import Scan
from pytensor.tensor import TensorVariable
from pytensor.tensor.blockwise import vectorize_node_fallback

Tensors = list[TensorVariable]  # what PyTensor calls variables of any kind
_SAME_STEPS = Assert("a scan takes the same number of steps for every draw")


def vectorize_scan(op: Scan, node: Apply, *batched: TensorVariable) -> Sequence[Variable]:
    """Return the outputs of ``node`` for inputs with batch dimensions on the left.

    Every draw must ask for the same number of steps. Scans with a stopping condition or with states
    that are not tensors are left to PyTensor.
    """
    info = op.info
    states = slice(1 + info.n_seqs, 1 + info.n_seqs + len(info.tap_array))
    if info.as_while or info.n_untraced_sit_sot:
        return vectorize_node_fallback(op, node, *batched).outputs

    constants = states.stop + info.n_nit_sot
    lengths = [0, *range(states.stop, constants)]
    batched = tuple(_common(x) if i in lengths else x for i, x in enumerate(batched))
    extra = [new.type.ndim - old.type.ndim for new, old in zip(batched, node.inputs, strict=True)]
    rank = max(extra)
    if not rank:
        return op.make_node(*batched).outputs
    first, *others = (_leading(x, n, rank) for x, n in zip(batched, extra, strict=True) if n)
    batch = sum(others, first)
    timed = range(1, states.stop)  # sequences and states have time as their first core dimension
    is_batched = [n > 0 for n in extra]
    is_batched[states] = [True] * len(info.tap_array)

    outer = [
        _lift(x, old.type.ndim, batch, time=i in timed) if is_batched[i] else x
        for i, (x, old) in enumerate(zip(batched, node.inputs, strict=True))
    ]
    taps = [True] * (len(op.inner_inputs) - info.n_seqs - info.n_non_seqs)
    inner_batched = [*is_batched[1 : states.start], *taps, *is_batched[constants:]]
    step = _mutable(op.fgraph)
    inner = [
        x.type.clone(shape=(None,) * rank + x.type.shape)() if lifted else x.type()
        for x, lifted in zip(step.inputs, inner_batched, strict=True)
    ]
    replace = dict(zip(step.inputs, inner, strict=True))
    outputs = cast("Tensors", vectorize_graph(step.outputs, replace=replace))
    within = next(x for x, lifted in zip(inner, inner_batched, strict=True) if lifted).shape[:rank]
    outputs = [
        new if new.ndim > old.ndim else pt.broadcast_to(new, (*within, *new.shape))
        for new, old in zip(outputs, cast("Tensors", step.outputs), strict=True)
    ]
    new_op = Scan(inner, list(outputs), info, mode=op.mode, truncate_gradient=op.truncate_gradient,
                  name=op.name, allow_gc=op.allow_gc, strict=op.strict)  # fmt: skip
    results = cast("Tensors", new_op(*outer, return_list=True))
    return [pt.moveaxis(x, 0, rank) for x in results]


def _mutable(graph: FunctionGraph) -> FunctionGraph:
    """The graph of a step whose nodes may enter another one: PyTensor 3 freezes them."""
    return graph.unfreeze() if hasattr(graph, "unfreeze") else graph


def _common(length: TensorVariable) -> TensorVariable:
    """The one value of a number of steps given for every draw."""
    if length.type.ndim == 0:
        return length
    first = length.ravel()[0]
    return cast("TensorVariable", _SAME_STEPS(first, pt.eq(length, first).all()))


def _leading(x: TensorVariable, extra: int, rank: int) -> TensorVariable:
    """An array with the batch dimensions of ``x``, ``extra`` of ``rank``; its values do not matter.

    Only its shape is used, and by an elementwise op: PyTensor deduces the static shape of an
    allocated array by rewriting the graph behind it, in a time exponential in nested scans.
    """
    flags = pt.neq(x, x).any(axis=tuple(range(extra, x.type.ndim))) if x.type.ndim > extra else x
    flags = pt.expand_dims(flags.astype("int8"), tuple(range(rank - extra)))
    return flags


def _lift(x: TensorVariable, core: int, batch: TensorVariable, time: bool) -> TensorVariable:
    """Give ``x`` all batch dimensions, placed behind the time axis where it has one."""
    rank = batch.type.ndim
    x = pt.expand_dims(x, tuple(range(rank + core - x.type.ndim)))
    x = pt.second(pt.expand_dims(batch, tuple(range(rank, rank + core))), x)
    return pt.moveaxis(x, rank, 0) if time else x


def register() -> None:
    """Let PyTensor vectorise scans by `vectorize_scan`, unless it has a rule of its own."""
    if Scan not in _vectorize_node.registry:
        _vectorize_node.register(Scan)(vectorize_scan)
