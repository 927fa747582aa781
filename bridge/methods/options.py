"""Every option of a run as plain values, for its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np

__all__ = ["described", "options_text"]


def described(value: object) -> object:
    """A value of options as JSON can hold it: objects as their class and what they are made of.

    >>> from pymc_ext.variational.bernstein.latents import Logistic, StudentT
    >>> described((Logistic(), StudentT(df=3)))
    [{'type': 'Logistic'}, {'type': 'StudentT', 'df': 3}]
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): described(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, type):
        return value.__name__
    if is_dataclass(value):
        held = {f.name: getattr(value, f.name) for f in fields(value)}
    elif callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    else:
        held = {name: entry for name, entry in vars(value).items() if not name.startswith("_")}
    return {"type": type(value).__name__} | {n: described(entry) for n, entry in held.items()}


def options_text(**options: object) -> str:
    """Column ``options`` of a record."""
    return json.dumps(described(options), ensure_ascii=False)
