"""The order of a program's unconstrained coordinates, which Stan's own names get wrong.

Stan lays an array out element by element (``rows.1.1``, ``rows.1.2``, …), but lists its
unconstrained names with the first index fastest, as for a matrix. How many of a parameter's
indices belong to an array is read from stanc's formatting of the program.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from itertools import groupby

from stan_models.stanc import Source, run_stanc


@functools.lru_cache(maxsize=64)  # of programs at hand: stanc takes 20 ms, as long as an easy fit
def array_dimensions(program: Source) -> dict[str, int]:
    """Number of array indices of each array in the parameters block."""
    block = re.search(r"^parameters \{\n(.*?)^\}", _formatted(program), re.M | re.S)
    lines = block[1].splitlines() if block else []
    return {name: _indices(line) for line in lines if "array[" in line for name in _declared(line)}


def in_order(names: list[str], arrays: dict[str, int]) -> list[str]:
    """Stan's unconstrained ``names`` in the order of the coordinates they belong to."""
    grouped = groupby(names, key=lambda name: name.split(".")[0])
    return [name for base, group in grouped for name in _reordered(group, arrays.get(base, 0))]


def indexed(name: str) -> str:
    """A flat name of Stan's as its programs write it, and CmdStanPy: indices from 1 in brackets.

    >>> indexed("rows.1.2"), indexed("pair:1.3"), indexed("tau")
    ('rows[1,2]', 'pair.1[3]', 'tau')
    """
    parts = (part.split(".") for part in name.split(":"))
    return ".".join(base + (f"[{','.join(at)}]" if at else "") for base, *at in parts)


def _reordered(names: Iterable[str], count: int) -> list[str]:
    """Sorted by the first ``count`` indices; the sort keeps Stan's order within an element."""
    return sorted(names, key=lambda name: [int(i) for i in name.split(".")[1 : count + 1]])


def _formatted(program: Source) -> str:
    options = ["--auto-format", "--canonicalize=strip-comments", "--max-line-length=1000000"]
    return run_stanc(program, options)


def _declared(line: str) -> list[str]:
    """The names declared by one formatted line, ``array[2] vector[K] a, b;``."""
    found = re.search(r"(\w+(?:, \w+)*);$", line)
    return found[1].split(", ") if found else []


def _indices(line: str) -> int:
    """1 + the commas directly inside the brackets after ``array``."""
    depth, commas = 0, 0
    for character in line.partition("array")[2]:
        depth += (character in "[(") - (character in "])")
        commas += character == "," and depth == 1
        if depth == 0:
            break
    return commas + 1
