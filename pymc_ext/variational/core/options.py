"""Options as values: one class of settings each, whose fields may also be given singly."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

Settings = TypeVar("Settings")


def settings_from(default: Settings, options: dict[str, Any]) -> Settings:
    """``default`` with its fields from ``options``, where they are taken out.

    >>> from pymc_ext.variational.gaussian.modes import ModeSearch
    >>> options = {"starts": 3, "draws": 10}
    >>> settings_from(ModeSearch(), options), options
    (ModeSearch(starts=3, indefinite='refuse', spread=2.0), {'draws': 10})
    """
    names = [f.name for f in fields(default)]  # type: ignore[arg-type]  # a dataclass
    given = {name: options.pop(name) for name in names if name in options}
    return replace(default, **given) if given else default  # type: ignore[type-var]


def refuse_unknown(cls: type, options: dict[str, Any]) -> None:
    """TypeError for what is left."""
    if options:
        raise TypeError(f"{cls.__name__} got unexpected keyword arguments {sorted(options)}")
