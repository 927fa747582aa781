"""A package's public names, stated once: the imports of the stub beside its ``__init__.py``.

Type checkers read the stub; at run time each name is imported when it is first asked for. A line of
the stub is ``from .module import name as name``, or ``from . import module as module``, as
Scientific Python's SPEC 1 has it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

SUITE = "trusted-posteriors"  # what pip calls it, whose version all its packages have


@cache
def homes_of(stub: Path) -> Mapping[str, str | None]:
    """The module that each name of a stub is from, below its package; None where it is a module."""
    body = ast.parse(stub.read_text(encoding="utf-8")).body
    imports = (node for node in body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module for node in imports for alias in node.names}


def lazy_exports(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of the package of this name and ``__file__``."""
    homes = homes_of(Path(file).with_suffix(".pyi"))

    def get(name: str) -> object:
        if name == "__version__":
            from importlib import metadata  # takes 20 ms, which an import need not

            return metadata.version(SUITE)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home is None:
            return import_module(f"{package}.{name}")
        return getattr(import_module(f"{package}.{home}"), name)

    return get, lambda: sorted({*vars(sys.modules[package]), *homes}), sorted(homes)
