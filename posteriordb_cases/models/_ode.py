"""Solvers of ordinary differential equations written out in PyTensor, with fixed steps.

A step of a simple method is repeated n = 1, 2, ... times over the same interval and the results
extrapolated to n = infinity. Hairer, Norsett and Wanner (1993), Solving ODEs I, section II.9.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from posteriordb_cases.models import _scan

State = Sequence[TensorVariable]
Step = Callable[..., State]


def solve(
    step: Step,
    start: State,
    grid: np.ndarray,
    parameters: Sequence[TensorVariable],
    *,
    levels: int,
    power: int,
) -> list[TensorVariable]:
    """Return each component of the solution at ``grid[1:]``.

    ``step(t, h, *state, *parameters)`` moves the scalars of ``state`` from time t to t + h by a
    method whose error is a series in ``h**power``: 2 for a symmetric method, otherwise 1. Every
    interval of the grid is covered by 1, 2, ... ``levels`` such steps.
    """

    _scan.register()

    def interval(
        t: TensorVariable, h: TensorVariable, *arguments: TensorVariable
    ) -> list[TensorVariable]:
        state, fixed = arguments[: len(start)], arguments[len(start) :]
        return _extrapolate(
            [_repeat(step, t, h, state, fixed, n + 1) for n in range(levels)], power
        )

    components = pytensor.scan(
        interval,
        sequences=[pt.as_tensor(grid[:-1]), pt.as_tensor(np.diff(grid))],
        outputs_info=list(start),
        non_sequences=list(parameters),
        return_updates=False,
    )
    return components if isinstance(components, list) else [components]


def refine(times: np.ndarray, steps: int) -> np.ndarray:
    """Divide every interval between neighbouring times into equal steps; shape (n,) -> (m,)."""
    parts = np.linspace(times[:-1], times[1:], steps, endpoint=False, axis=1)
    return np.append(parts.ravel(), times[-1])


def _repeat(
    step: Step,
    t: TensorVariable,
    h: TensorVariable,
    state: State,
    fixed: Sequence[TensorVariable],
    n: int,
) -> State:
    for i in range(n):
        state = step(t + h * i / n, h / n, *state, *fixed)
    return state


def _extrapolate(table: list[State], power: int) -> list[TensorVariable]:
    """Aitken and Neville's scheme; ``table[i]`` was reached in i + 1 steps."""
    for j in range(1, len(table)):
        for i in range(len(table) - 1, j - 1, -1):
            ratio = ((i + 1) / (i + 1 - j)) ** power
            pairs = zip(table[i - 1], table[i], strict=True)
            table[i] = [fine + (fine - coarse) / (ratio - 1) for coarse, fine in pairs]
    return list(table[-1])
