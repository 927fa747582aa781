"""On which scale a program's unconstrained coordinates are, for messages that give their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

SCALES: Mapping[str, Callable[[float], float]] = {  # by what is said before the parameter's name
    "": float,
    "log ": math.exp,
    "logit ": lambda x: 1 / (1 + math.exp(-x)),
}


def on_their_scale(
    names: Sequence[str], point: Sequence[float], values: Mapping[str, float]
) -> list[str]:
    """Names of coordinates that say what the numbers are.

    Parameters
    ----------
    names
        Of the D coordinates: those of the parameters, as Stan has it.
    point
        A value of each, (D,), all different.
    values
        The parameters there, by name.

    Examples
    --------
    >>> on_their_scale(["mu", "tau", "k"], [0.0, 1.0, 2.0], {"mu": 0.0, "tau": math.e, "k": 9.0})
    ['mu', 'log tau', 'unconstrained k']
    """
    return [f"{_scale(x, values.get(name))}{name}" for name, x in zip(names, point, strict=True)]


def _scale(x: float, value: float | None) -> str:
    for words, transform in SCALES.items():
        if value is not None and math.isclose(value, transform(x), rel_tol=1e-9):
            return words
    return "unconstrained "
