"""How graphs are run: by NumPy where a model is done without a compiler, or by PyTensor's own.

A C compiler takes 2 to 31 CPU seconds for the log density of a new model and its score (14 kinds
of `benchmarks.speed.kinds`, empty cache). NumPy takes .2 to 3 to rewrite the same graph, and then
some .2 ms a call of few: next to nothing for some thousand draws in calls of dozens.

Determinants of many matrices at once PyTensor 2.38 does not compile where a log is taken: its
rewrite of log(det(x)) takes ``x`` for one matrix and ends in a bare AssertionError where there is
one for each draw, as of ``pm.LKJCorr``. PyTensor 3 has mended it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor import scalar
from pytensor.compile.mode import Mode, get_default_mode, get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter, out2in
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable

from pymc_ext.numpy_linker import NumPyLinker, bare_function, sizes_of_a_draw
from pymc_ext.ops.compiler import backend_asked_for
from pymc_ext.pytensor_versions import Blockwise, NumbaLinker, PerformLinker, Subtensor

if TYPE_CHECKING:
    from pytensor.compile import Function

logger = logging.getLogger(__name__)
MENDED = int(version("pytensor").split(".")[0]) >= 3
REWRITE = "slogdet_specialization"

# What a fit of a small model asks for: draws, and how many a call.
DRAWS, DRAWS_A_CALL = 5_000, 32

# Seconds of an operation's call in Python, by PyTensor and where it is one of NumPy's, of a number
# by NumPy and by SciPy's special functions, rounded up (`python -m benchmarks.speed.by_numpy`: what
# is predicted is .4 to 3 times what most take); no choice depends on the machine at hand.
CALL, BARE, NUMBER, SPECIAL, ROW = 6e-6, 1.5e-6, 3e-9, 3e-8, 2e-5

# Seconds for these draws up to which NumPy is taken: a tenth of what it takes to compile a mixture,
# zero-inflated counts or a negative binomial, 14 to 51 on a busy machine (empty cache), where these
# draws take NumPy .06 to .2.
SECONDS = 1.0

# Rows of data from which PyTensor's C code of one draw takes less than its share of a call of
# many: .3 to 1.1 of it from 4,000 on (counts and a normal by groups, Student's t, a logistic
# regression of 20 columns), 1.1 to 2.6 at 300, by what a call takes. Numba's take the same.
LONG = 4_000

LOOPS = ("Scan", "ScalarLoop", "IfElse")  # run step by step, or not at all: a compiler pays
AFTER_REWRITES = 48.9  # PyTensor joins elementwise operations at 49, which is left out


def _several(fold: Callable[[Variable, Variable], Variable]) -> Callable[..., Variable]:
    """Of a sum or a product of many, one of two after the other."""

    def folded(*inputs: Variable) -> Variable:
        made, *others = inputs
        for x in others:
            made = fold(made, x)
        return made

    return folded


def _softplus(x: TensorVariable) -> TensorVariable:
    return pt.maximum(x, _number(0.0, x)) + pt.log1p(pt.exp(-pt.abs(x)))


def _log1mexp(x: TensorVariable) -> TensorVariable:
    """log(1 − eˣ), x < 0 (Mächler 2012)."""
    near = pt.gt(x, _number(-np.log(2.0), x))
    return pt.switch(near, pt.log(-pt.expm1(x)), pt.log1p(-pt.exp(x)))


def _second(shape: TensorVariable, x: TensorVariable) -> TensorVariable:
    return pt.switch(_number(True, shape), x, shape)


def _number(value: float | bool, x: TensorVariable) -> TensorVariable:
    """A constant that needs no new axes beside x."""
    return pt.constant(np.full((1,) * x.ndim, value))


# Scalar operations that PyTensor has no NumPy function for, and calls number by number.
IN_NUMPY: dict[str, Callable[..., Variable]] = {
    "Add": _several(pt.add),
    "Mul": _several(pt.mul),
    "Softplus": _softplus,
    "Log1mexp": _log1mexp,
    "Clip": lambda x, low, high: pt.minimum(pt.maximum(x, low), high),
    "Second": _second,
}


def _parts(node: Apply) -> Variable:
    """What a composite of scalar operations is made of, each of arrays."""
    inner = node.op.scalar_op.fgraph
    outer = cast("TensorVariable", node.outputs[0])
    made = dict(zip(inner.inputs, node.inputs, strict=True))
    for own in inner.toposort():
        inputs = [made[v] if v in made else _number(v.data, outer) for v in own.inputs]
        made |= dict(zip(own.outputs, Elemwise(own.op).make_node(*inputs).outputs, strict=True))
    return made[inner.outputs[0]]


@node_rewriter([Elemwise])
def _as_functions_of_arrays(graph: FunctionGraph, node: Apply) -> list[Variable] | bool:
    if _is_function(node) or len(node.outputs) > 1:
        return False
    if isinstance(node.op.scalar_op, scalar.Composite):
        return [_parts(node)]
    make = IN_NUMPY.get(type(node.op.scalar_op).__name__)
    if make is None:
        return False
    made = make(*node.inputs)
    return [made] if made.type.dtype == node.outputs[0].type.dtype else False


def _is_function(node: Apply) -> bool:
    """Whether NumPy or SciPy have a function of arrays for an elementwise operation."""
    spec = getattr(node.op.scalar_op, "nfunc_spec", None)
    return spec is not None and spec[1] == len(node.inputs)


def _compiles_c() -> bool:
    """Whether PyTensor would compile C, as PyTensor 2 does; 3 takes numba."""
    return not isinstance(get_default_mode().linker, NumbaLinker)


def once_mode() -> Mode:
    """For graphs that run once, and need no rewrites for speed: NumPy, no compiler."""
    return Mode(linker="py", optimizer="fast_compile")


def numpy_mode(linker: str | None = None) -> Mode:
    """All rewrites for stability and speed but those that are for compilers; run by NumPy's bare
    functions, or by another of PyTensor's linkers."""
    mode = Mode(linker or NumPyLinker(), optimizer="fast_run").excluding(
        "fusion", "inplace_elemwise"
    )
    return cast("Mode", mode.register((out2in(_as_functions_of_arrays), AFTER_REWRITES)))


def run_or_compile(compiled: Callable[..., Function]) -> Function:
    """A function of rows, by NumPy where no compiler pays.

    Parameters
    ----------
    compiled
        Makes the function, in the ``mode`` that it is given, PyTensor's own without.
    """
    return run_by_numpy(compiled) or compiled()


def run_by_numpy(compiled: Callable[..., Function]) -> Function | None:
    """A function of rows of which no compiler is needed; None where one pays.

    Parameters
    ----------
    compiled
        Makes the function, in the ``mode`` that it is given.
    """
    if backend_asked_for():
        return None
    try:
        function = compiled(mode=numpy_mode())
    except Warning:  # an error by the user's own filters
        raise
    except Exception:  # what has no NumPy code at all; a compiler's own error says more
        return None
    return function if serves(function) else None


def serves(function: Function) -> bool:
    """Whether NumPy does what a fit of a small model asks of it within `SECONDS`."""
    seconds = predicted_seconds(function)
    return seconds is not None and seconds <= SECONDS


def predicted_seconds(function: Function) -> float | None:
    """Seconds of `DRAWS` draws, at least where these are more than `SECONDS`; None where a function
    of `numpy_mode` cannot be run by NumPy alone."""
    nodes = function.maker.fgraph.apply_nodes
    if not all(_in_numpy(node) for node in nodes):
        return None
    bare = sum(bare_function(node.op, node) is not None for node in nodes)
    of_calls = DRAWS / DRAWS_A_CALL * (BARE * bare + CALL * (len(nodes) - bare))
    least = _of_draws((node, sum(map(_declared, node.outputs))) for node in nodes)
    if of_calls + least > SECONDS:
        return of_calls + least
    try:
        sizes = sizes_of_a_draw(function)
    except Exception:  # no density there, or an axis of unknown length that is not of draws
        logger.debug("NumPy is not taken, as the graph does not run at zeros", exc_info=True)
        return None
    return of_calls + _of_draws(sizes)


def _of_draws(sizes: Iterable[tuple[Apply, int]]) -> float:
    """Seconds of all draws beside those of calls, by the numbers that each operation makes."""
    return DRAWS * sum(
        numbers * _seconds_a_number(node) + _seconds_a_row(node) for node, numbers in sizes
    )


def _in_numpy(node: Apply) -> bool:
    if isinstance(node.op, Elemwise):
        return _is_function(node)
    return not isinstance(node.op, RandomVariable) and type(node.op).__name__ not in LOOPS


def one_draw_a_call(outputs: Iterable[Variable]) -> bool:
    """Whether compiled code of these graphs is to take draws one after another."""
    return not backend_asked_for() and _compiles_c() and _longest(ancestors(outputs)) >= LONG


def _longest(variables: Iterable[Variable]) -> int:
    """Axis of the data."""
    return max((max(shape, default=1) for shape in _known_shapes(variables)), default=1)


def _known_shapes(variables: Iterable[Variable]) -> Iterator[tuple[int, ...]]:
    """Of the data, shared or constant, however little the graph declares."""
    for v in variables:
        if isinstance(v, SharedVariable):
            yield np.shape(v.get_value(borrow=True))
        elif isinstance(v, Constant):
            yield np.shape(v.data)


def _declared(variable: Variable) -> int:
    """Numbers for each draw, at least."""
    return math.prod(n for n in getattr(variable.type, "shape", ()) if n is not None)


def _seconds_a_number(node: Apply) -> float:
    special = isinstance(node.op, Elemwise) and node.op.scalar_op.nfunc_spec[0].startswith("scipy")
    return SPECIAL if special else NUMBER


def _seconds_a_row(node: Apply) -> float:
    """Of an operation on matrices, one after the other: in C it takes the same."""
    return 0.0 if _compiles_c() or not isinstance(node.op, Blockwise) else ROW


def mode_for(outputs: Iterable[Variable], mode: str | Mode | None) -> str | Mode | None:
    """The mode in which graphs are compiled: without that rewrite where it would fail.

    Parameters
    ----------
    outputs
        Of the graphs.
    mode
        What was asked for; None is PyTensor's own.
    """
    if MENDED or not any(_is_batched_determinant(v) for v in ancestors(outputs)):
        return mode
    return get_mode(mode).excluding(REWRITE)


def _is_batched_determinant(variable: Variable) -> bool:
    core = getattr(variable.owner and variable.owner.op, "core_op", None)  # of a Blockwise
    return type(core).__name__ == "Det" and variable.type.ndim > 0


def index_out_of_range(
    value: TensorVariable, point: TensorVariable, dimension: int
) -> IndexError | None:
    """What is said of an index of ``value`` at zeros (dimension,), where compiled code is silent.

    Numba looks at no bounds, and C code not at those of one entry that is a constant: it reads, or
    writes, whatever lies there. The graph is run once as it is, operation by operation, in Python:
    some tenths of a second.
    """
    arrays = isinstance(get_default_mode().linker, NumbaLinker)
    if not any(_indexes(v.owner, arrays) for v in ancestors([value]) if v.owner is not None):
        return None
    as_it_is = Mode(PerformLinker(), None)  # type: ignore[arg-type]
    f = pytensor.function([point], value, mode=as_it_is, on_unused_input="ignore")
    try:
        with np.errstate(all="ignore"):
            f(np.zeros(dimension))
    except Exception as error:
        # what else is wrong is said by whoever evaluates it, or mended by a rewrite, as of axes
        if isinstance(error, IndexError) and not isinstance(error, np.exceptions.AxisError):
            return error
        logger.debug("indices are not known to be in range: %s", error)
    return None


def _indexes(node: Apply, arrays: bool) -> bool:
    """Whether an operation takes an entry at one place, or at an array of places."""
    op = node.op
    if isinstance(op, Subtensor):
        return not all(isinstance(index, slice) for index in op.idx_list)
    return arrays and "Subtensor" in type(op).__name__
