"""Options as values: one class of settings each, whose fields may also be given singly."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar, cast

Settings = TypeVar("Settings")


def settings_from(
    default: Settings, options: dict[str, object], name: str | None = None
) -> Settings:
    """``default``, or the option ``name`` in its place, with its fields taken from ``options``.

    >>> from pymc_ext.variational.gaussian.modes import ModeSearch
    >>> options = {"starts": 3, "draws": 10}
    >>> settings_from(ModeSearch(), options, "search"), options
    (ModeSearch(starts=3, indefinite='refuse', spread=2.0), {'draws': 10})
    """
    if name is not None:
        default = cast("Settings", options.pop(name, default))
    names = [f.name for f in fields(default)]  # type: ignore[arg-type]  # a dataclass
    given = {name: options.pop(name) for name in names if name in options}
    return replace(default, **given) if given else default  # type: ignore[type-var]


def refuse_unknown(cls: type, options: dict[str, object]) -> None:
    """TypeError for what is left."""
    if options:
        raise TypeError(f"{cls.__name__} got unexpected keyword arguments {sorted(options)}")
