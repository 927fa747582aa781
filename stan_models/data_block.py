"""What a program's data block asks for, set against the data that were given."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from stan_models.stanc import Source, run_stanc

Numbers = float | str | list["Numbers"]  # as JSON nests them


class Declaration(TypedDict):
    """A variable of the data block, as stanc's ``--info`` describes it."""

    type: str
    dimensions: int


def declared_data(program: Source) -> dict[str, Declaration]:
    """Stan's type and number of dimensions of each variable of the data block."""
    return json.loads(run_stanc(program, ["--info"]))["inputs"]


def misfit(program: Source, data: str) -> str:
    """What is missing from ``data`` (JSON text), has the wrong number of dimensions, or is no
    integer where one is declared.

    Stan stops at the first variable it cannot read and then speaks of its dimensions even where it
    is absent, and of no entry; this names all of them. Empty where sizes or constraints are the
    trouble, which Stan names well.
    """
    declared, given = declared_data(program), json.loads(data)
    missing = [_described(name, kind) for name, kind in declared.items() if name not in given]
    wrong = [
        f"{_described(name, kind)} was given {_dimensions(given[name])}"
        for name, kind in declared.items()
        if name in given and not _fits(kind, given[name])
    ]
    lines = [f"missing: {', '.join(missing)}"] if missing else []
    lines += [f"wrong number of dimensions: {'; '.join(wrong)}"] if wrong else []
    broken = _first_of_each(declared, given, "int", lambda x: isinstance(x, int))
    lines += [f"no integers: {', '.join(broken)}"] if broken else []
    if missing:
        lines.append(f"given: {', '.join(given) or 'nothing'}")
    return "\n".join(lines)


def numeric_arrays(program: Source, given: Mapping[str, object]) -> dict[str, NDArray]:
    """Integers and reals of the data block, in its order, as arrays by name, each of its own shape.

    What was given beyond the data block is left out; "NaN" and the like are read as Stan reads
    them.
    """
    kinds = {"int": int, "real": float}
    return {
        name: np.asarray(given[name], dtype=kinds[kind["type"]])
        for name, kind in declared_data(program).items()
        if kind["type"] in kinds
    }


def not_finite(program: Source, data: str) -> list[str]:
    """The first NaN or infinity of each real variable in ``data`` (JSON text), with Stan's index.

    Programs may mean them, as marks of what is missing or as bounds that are none: they are worth
    naming where the density is undefined.
    """
    return _first_of_each(
        declared_data(program), json.loads(data), "real", lambda x: math.isfinite(_number(x))
    )


def _first_of_each(
    declared: Mapping[str, Declaration],
    given: Mapping[str, Numbers],
    type_name: str,
    is_right: Callable[[object], bool],
) -> list[str]:
    """Of each variable of a type the first entry that is not right, with Stan's index."""
    found = []
    for name, kind in declared.items():
        if kind["type"] == type_name and name in given:
            wrong = ((at, x) for at, x in _elements(given[name]) if not is_right(x))
            for at, x in islice(wrong, 1):
                found.append(f"{name}{list(at) if at else ''} = {x}")
    return found


def _elements(value: Numbers, at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], object]]:
    """What is nested in lists, with Stan's indices, from 1 on."""
    if isinstance(value, list):
        for i, element in enumerate(value, start=1):
            yield from _elements(element, (*at, i))
    else:
        yield at, value


def _number(value: object) -> float:
    """Texts such as "NaN" are read as Stan reads them; what it does not read is NaN."""
    try:
        return float(value)  # type: ignore[arg-type]  # of JSON, whatever it is
    except (TypeError, ValueError):
        return math.nan


def _described(name: str, kind: Declaration) -> str:
    count = kind.get("dimensions", 0)
    return f"{name} ({kind['type']}{f', {count}-dimensional' if count else ''})"


def _fits(kind: Declaration, value: object) -> bool:
    """Whether the nesting agrees; empty lists and Stan's tuples and complex numbers may."""
    if kind["type"] not in ("int", "real") or _is_empty(value):
        return True
    return _dimensions(value) == kind["dimensions"]


def _dimensions(value: object) -> int:
    return 1 + _dimensions(value[0]) if isinstance(value, list) and value else 0


def _is_empty(value: object) -> bool:
    return isinstance(value, list) and (not value or _is_empty(value[0]))
