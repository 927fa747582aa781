"""The models of `benchmarks.speed.model_kinds`, by name: all of `benchmarks.speed.kinds`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction

import pymc as pm

from benchmarks.speed.kinds import forms, groups, observed, regressions, series

KINDS: dict[str, Callable[[], pm.Model]] = {
    name.replace("_", "-"): make
    for file in (regressions, groups, series, observed, forms)
    for name, make in vars(file).items()
    if isfunction(make) and make.__module__ == file.__name__ and not name.startswith("_")
}
