"""A compiled function of many rows, called a block of rows at a time so that memory is bounded.

JAX compiles a function anew for every number of rows: there it is called with few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pymc_ext.density.counted import Clock
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from pytensor.compile import Function

# rows (N, D), and weights (N,) where there are extras -> arrays by rows, then sums over rows
RowFunction = Callable[..., list[Array]]
ELEMENTS = 2**18  # numbers in the widest array of one call: about 2 MB, a cache's worth
FEWEST_ROWS, MOST_ROWS = 16, 4096  # of one call, whatever the widths that the graph declares
Outputs = Callable[[Array], list[Array]]  # θ (N, D) -> arrays (N, ...)
BY_ROWS = 2  # leading outputs with a value for each row: log p̃ and its score


def in_blocks(f: RowFunction, size: int, theta: Array, *weights: Array) -> list[Array]:
    """``f`` over blocks of rows; per-row outputs are joined, sums over rows are added.

    ``theta`` is (N, D), ``weights`` are (N,); what comes back is log p̃ (N,), then scores (N, D)
    where ``f`` has them, then the sums, of any shape.
    """
    if len(theta) <= size:
        return f(theta, *weights)
    starts = range(0, len(theta), size)
    blocks = [f(theta[i : i + size], *(w[i : i + size] for w in weights)) for i in starts]
    columns = list(zip(*blocks, strict=True))
    joined = [np.concatenate(parts) for parts in columns[:BY_ROWS]]
    return [*joined, *(np.sum(parts, axis=0) for parts in columns[BY_ROWS:])]


def in_numbers(outputs: Sequence[Array]) -> list[Array]:
    """NumPy arrays that may be written to; those of a JAX function are neither."""
    return [a if isinstance(a, np.ndarray) else np.array(a) for a in outputs]


def one_by_one(f: Function) -> RowFunction:
    """``f`` of one point as a function of rows: for graphs that do not take many at once."""

    def over_rows(theta: Array, *weights: Array) -> list[Array]:
        columns = list(zip(*(f(row) for row in theta), strict=True))
        out = [np.array(column, dtype=float) for column in columns[:BY_ROWS]]
        return [*out, *(np.tensordot(weights[0], np.array(c), 1) for c in columns[BY_ROWS:])]

    return over_rows


def rows_per_call(function: Function) -> int:
    """Rows of one call so that its widest array stays within `ELEMENTS`."""
    shapes = [getattr(v.type, "shape", ()) for v in function.maker.fgraph.variables]
    widest = max(np.prod([s for s in shape if s], dtype=float) for shape in shapes)
    return int(np.clip(ELEMENTS // widest, FEWEST_ROWS, MOST_ROWS))


def runs_in_jax(function: Function) -> bool:
    """Whether PyTensor's JAX backend (``mode="JAX"``) runs the compiled function."""
    return type(function.maker.linker).__name__ == "JAXLinker"


def power_of_two(number: int) -> int:
    """The least power of two that is not below ``number`` >= 1."""
    return 1 << (number - 1).bit_length()


def of_few_shapes(function: Outputs, clock: Clock) -> Outputs:
    """``function`` of rows, θ (N, D) -> arrays (N, ...), compiled for powers of two alone.

    Rows are repeated up to the next power of two: a fit asks for dozens of numbers of rows, and
    compiling takes JAX longer than all that is computed. The first call of a shape is compilation
    and goes to ``clock``. Outputs are NumPy arrays that may be written to.
    """
    compiled: set[int] = set()

    def call(theta: Array) -> list[Array]:
        count = len(theta)
        size = power_of_two(max(count, 1))
        rows = np.concatenate([theta, np.repeat(theta[-1:], size - count, axis=0)])
        if size not in compiled:
            with clock.compiling():
                outputs = [np.array(a) for a in function(rows)]
            compiled.add(size)
        else:
            outputs = [np.array(a) for a in function(rows)]
        return [a[:count] for a in outputs]

    return call
