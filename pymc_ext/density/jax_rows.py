"""Functions that JAX compiles anew for every shape, called with few shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pymc_ext.density.counted import Clock
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from pytensor.compile import Function

Outputs = Callable[[Array], list[Array]]


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
