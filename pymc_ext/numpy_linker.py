"""A linker by NumPy whose commonest operations are bare calls of its functions.

PyTensor's Python code of an operation asks at each call what the graph has known since it was
built (types, axes, which function), some 6 µs where NumPy's own call takes 1. Elementwise
operations, sums over axes and new axes are four fifths of the operations of a log density.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch, wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise

from pymc_ext.maths.types import Array
from pymc_ext.pytensor_versions import PerformLinker, import_func_from_string

if TYPE_CHECKING:
    from pytensor.compile import Function

__all__ = ["NumPyLinker", "bare_function", "sizes_of_a_draw"]

Thunk = Any  # a function of no arguments that has its cells, ``inputs`` and ``outputs``


class NumPyLinker(PerformLinker):
    """PyTensor's linker by `perform`, without it where an operation is one call of NumPy.

    Its functions are as silent as compiled code, of ∞ − ∞ too.
    """

    def make_all(self, *args: Any, **options: Any) -> Any:
        run, *others, thunks, order = super().make_all(*args, **options)  # type: ignore[no-untyped-call]
        if not any(getattr(thunk, "lazy", False) for thunk in thunks):  # which ask who has run
            thunks[:] = map(_bare, order, thunks)  # in place: these are what `run` runs

        @wraps(run)
        def quiet() -> object:
            with np.errstate(all="ignore"):
                return run()

        quiet.steps = tuple(zip(order, thunks, strict=True))  # type: ignore[attr-defined]
        return quiet, *others, thunks, order


def sizes_of_a_draw(function: Function) -> list[tuple[Apply, int]]:
    """How many numbers each operation of a function of this linker makes, for inputs of zeros.

    An axis of an input whose length its type does not know is of draws, of which there is one.
    Raises what the operations raise, and ValueError where a call would change shared variables.
    """
    if any(x.update is not None for x in function.maker.inputs):
        raise ValueError("a function with updates changes what it is asked of: give none")
    inputs = zip(function.maker.fgraph.inputs, function.input_storage, strict=True)
    given = [(x, cell.storage) for x, cell in inputs if cell.storage[0] is None]  # not shared
    steps = function.vm.steps  # type: ignore[attr-defined]
    sizes = []
    last = {id(cell): thunk for _, thunk in steps for cell in thunk.inputs}
    made = {id(cell) for _, thunk in steps for cell in thunk.outputs}
    try:
        for x, cell in given:
            cell[0] = np.zeros([1 if n is None else n for n in x.type.shape], x.type.dtype)
        with np.errstate(all="ignore"):
            for node, thunk in steps:
                thunk()
                sizes.append((node, sum(np.size(cell[0]) for cell in thunk.outputs)))
                for cell in thunk.inputs:
                    if id(cell) in made and last[id(cell)] is thunk:
                        cell[0] = None
    finally:
        for cell in [
            *(cell for _, cell in given),
            *(c for _, thunk in steps for c in thunk.outputs),
        ]:
            cell[0] = None
    return sizes


def _bare(node: Apply, by_perform: Thunk) -> Thunk:
    """The operation by a bare call; as it was, where it is not one call or its inputs' lengths
    have to be looked at."""
    function = bare_function(node.op, node)
    if function is None:
        return by_perform
    cells, (cell,), lengths = by_perform.inputs, by_perform.outputs, _lengths(node)

    def checked() -> None:
        inputs = [x[0] for x in cells]
        if all(inputs[i].shape[axis] == inputs[k].shape[axis] for i, k, axis in lengths):
            cell[0] = function(*inputs)
        else:
            by_perform()  # which looks at the same, and raises

    def unchecked() -> None:
        cell[0] = function(*[x[0] for x in cells])

    thunk: Thunk = checked if lengths else unchecked
    thunk.inputs, thunk.outputs = by_perform.inputs, by_perform.outputs
    thunk.lazy = False
    return thunk


def _lengths(node: Apply) -> list[tuple[int, int, int]]:
    """Inputs i and k that must be of one length along an axis, where types do not know it.

    NumPy would repeat one of length 1, which PyTensor does only where the graph says so.
    """
    if not isinstance(node.op, Elemwise):
        return []
    shapes = [x.type.shape for x in node.inputs]
    found = []
    for axis, lengths in enumerate(zip(*shapes, strict=True)):
        first, *others = [i for i, n in enumerate(lengths) if n != 1] or [0]
        known = {lengths[i] for i in (first, *others)}
        found += [(first, k, axis) for k in others if None in known]
    return found


@singledispatch
def bare_function(op: Op, node: Apply) -> Callable[..., Array] | None:
    """The function of arrays that an operation is; None where it is more than that."""
    return None


@bare_function.register
def _(op: Elemwise, node: Apply) -> Callable[..., Array] | None:
    spec = getattr(op.scalar_op, "nfunc_spec", None)
    if spec is None or spec[1:] != (len(node.inputs), 1) or op.inplace_pattern:
        return None
    function = import_func_from_string(spec[0])
    types = [np.dtype(x.type.dtype) for x in node.inputs]
    dtype = np.dtype(node.outputs[0].type.dtype)
    if function is np.where:
        makes = np.result_type(*types[1:])
    elif isinstance(function, np.ufunc) and function.nout == 1:
        try:
            makes = function.resolve_dtypes((*types, None))[-1]
        except TypeError:  # types that it does not take
            return None
    else:
        return None
    return _as_array(function, node) if makes == dtype else None


@bare_function.register
def _(op: CAReduce, node: Apply) -> Callable[..., Array] | None:
    (x,), (out,) = node.inputs, node.outputs
    kept = getattr(op, "acc_dtype", None) or out.type.dtype
    reduce, axis, dtype = op.ufunc.reduce, op.axis, np.dtype(kept)
    of_objects = (
        "OO->O" in op.ufunc.types and dtype.char * 2 + "->" + dtype.char not in op.ufunc.types
    )
    if of_objects or not x.type.dtype == kept == out.type.dtype:
        return None
    return _as_array(lambda x: reduce(x, axis, dtype), node)


@bare_function.register
def _(op: DimShuffle, node: Apply) -> Callable[..., Array] | None:
    if any(node.inputs[0].type.shape[axis] != 1 for axis in op.drop):
        return None  # which has to be looked at
    axes = (*op.shuffle, *op.drop)  # what is dropped comes last
    index = (*(None if i == "x" else slice(None) for i in op.new_order), *(0 for _ in op.drop))
    if axes == tuple(range(len(axes))):
        return _as_array(lambda x: x[index], node)
    return _as_array(lambda x: x.transpose(axes)[index], node)


def _as_array(function: Callable[..., Array], node: Apply) -> Callable[..., Array]:
    """Without axes NumPy gives a number."""
    if node.outputs[0].type.ndim:
        return function
    return lambda *inputs: np.asarray(function(*inputs))
