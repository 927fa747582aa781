"""Options as values: what an algorithm says where it is given something else."""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Mapping
from functools import cache
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np

from pymc_ext.maths.types import Array


def require_number(label: str, value: object) -> None:
    """TypeError unless ``value`` is a real number.

    >>> require_number("tolerance", None)
    Traceback (most recent call last):
    ...
    TypeError: tolerance must be a number, got None
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{label} must be a number, got {value!r}")


def require_integer(label: str, value: object) -> None:
    """TypeError unless ``value`` is an integer.

    >>> require_integer("draws", 2.5)
    Traceback (most recent call last):
    ...
    TypeError: draws must be an integer, got 2.5
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{label} must be an integer, got {value!r}")


def as_numbers(label: str, value: object) -> Array:
    """An array of floats; TypeError where ``value`` is none.

    >>> as_numbers("lp", ["a", 2])
    Traceback (most recent call last):
    ...
    TypeError: lp must be numbers in an array, got ['a', 2]
    """
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{label} must be numbers in an array, got {reprlib.repr(value)}"
        ) from error


def require_count(label: str, value: object, least: int = 1) -> None:
    """ValueError unless ``value`` is an integer, and not below ``least``.

    >>> require_count("chains", 0)
    Traceback (most recent call last):
    ...
    ValueError: chains must be an integer >= 1, got 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{label} must be an integer >= {least}, got {value!r}")


def require_memory(label: str, rows: int, columns: int) -> None:
    """ValueError where arrays of so many rows do not fit in all the memory of this machine.

    Two are there at once, wherever rows are drawn: what they are made from, and they themselves.

    >>> require_memory("draws", 10**15, 2)
    Traceback (most recent call last):
    ...
    ValueError: draws=1000000000000000 takes at least 32,000,000 GB, for arrays of shape ...
    """
    needed, there = 2 * 8 * int(rows) * int(columns), machine_memory()
    if there is not None and needed > there:
        raise ValueError(
            f"{label}={rows} takes at least {needed / 1e9:,.0f} GB, for arrays of shape ({rows}, "
            f"{columns}), and this machine has {there / 1e9:,.0f} GB of memory: ask for fewer"
        )


@cache
def machine_memory() -> int | None:
    """Bytes, free or not, as what is in use may be caches; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def require_flag(label: str, value: object, otherwise: str = "") -> None:
    """TypeError unless ``value`` is a bool; ``otherwise`` says what else the caller takes.

    >>> require_flag("prior", 3)
    Traceback (most recent call last):
    ...
    TypeError: prior must be True or False, got 3
    """
    if not isinstance(value, bool | np.bool_):
        more = f", or {otherwise}" if otherwise else ""
        raise TypeError(f"{label} must be True or False{more}, got {value!r}")


def require_type(label: str, value: object, kind: type) -> None:
    """TypeError unless ``value`` is a ``kind``.

    >>> from pymc_ext.variational.gaussian.modes import ModeSearch
    >>> require_type("search", 3, ModeSearch)
    Traceback (most recent call last):
    ...
    TypeError: search must be a ModeSearch(...), got 3
    """
    if not isinstance(value, kind):
        raise TypeError(f"{label} must be a {kind.__name__}(...), got {value!r}")


def require_path(label: str, value: object) -> None:
    """TypeError unless ``value`` names a file or a folder.

    >>> require_path("path", None)
    Traceback (most recent call last):
    ...
    TypeError: path must be a text or a pathlib.Path, got None: give the name of a file or a folder
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(
            f"{label} must be a text or a pathlib.Path, got {value!r}: give the name of a file or "
            "a folder"
        )


class RefusesKeywords:
    """A class whose unknown keywords are answered in words, with who takes them.

    Attributes
    ----------
    instead
        What to write in place of some.
    parts
        Options that are given in a class of their own, by the keyword that takes it.

    Examples
    --------
    >>> from pymc_ext.variational.bernstein.shape import FlowShape
    >>> FlowShape(ordr=3)
    Traceback (most recent call last):
    ...
    TypeError: FlowShape takes no ordr=: did you mean order=?
    """

    instead: ClassVar[Mapping[str, str]] = {}
    parts: ClassVar[Mapping[str, type]] = {}

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        known = inspect.signature(cls).parameters
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()):
            unknown = {name: value for name, value in kwargs.items() if name not in known}
            if unknown:
                from pymc_ext.keywords import refuse_keywords  # not a file of a fit's

                of_parts = {
                    option: f"give {label}=px.{kind.__name__}({option}=...)"
                    for label, kind in cls.parts.items()
                    for option in inspect.signature(kind).parameters
                }
                refuse_keywords(cls, cls.__name__, unknown, {**of_parts, **cls.instead})
        return super().__new__(cls)
