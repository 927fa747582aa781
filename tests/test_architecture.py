"""The data flow is one way: only ``bridge`` may import the three leaf packages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEAVES = {"pymc_ext", "stan_models", "posteriordb_cases"}
FORBIDDEN = {leaf: (LEAVES - {leaf}) | {"bridge"} for leaf in LEAVES} | {"bridge": set()}


def imported_packages(source: str) -> Iterator[str]:
    """Top-level names of everything a module imports, at any depth of its code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0]


def modules(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", modules(*FORBIDDEN), ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_import_only_downstream(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    found = set(imported_packages(path.read_text())) & (FORBIDDEN[package] | {"tests"})
    assert not found, f"{path.relative_to(ROOT)} imports {sorted(found)}"


@pytest.mark.parametrize("path", modules("pymc_ext/maths"), ids=lambda p: p.name)
def test_maths_does_not_know_pymc(path: Path) -> None:
    assert "pymc" not in set(imported_packages(path.read_text()))


def test_the_check_sees_lazy_imports() -> None:
    source = "def f():\n    from stan_models import nuts\n    import pymc_ext.ops as ops\n"
    assert set(imported_packages(source)) == {"stan_models", "pymc_ext"}
