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


def ours_beside_maths(source: str) -> set[str]:
    """Modules of this project, outside ``pymc_ext.maths``, that the source of one imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add(f"pymc_ext.relative{'.' * node.level}")  # where it leads cannot be read here
    ours = {name for name in found if name.split(".")[0] in FORBIDDEN}
    return {name for name in ours if not f"{name}.".startswith("pymc_ext.maths.")}


@pytest.mark.parametrize("path", modules("pymc_ext/maths"), ids=lambda p: p.name)
def test_maths_knows_neither_pymc_nor_the_rest_of_the_project(path: Path) -> None:
    source = path.read_text()
    assert "pymc" not in set(imported_packages(source))
    assert not ours_beside_maths(source), f"{path.name}: move what it needs into maths"


def test_the_check_of_maths_sees_every_form_of_import() -> None:
    allowed = "from pymc_ext.maths import lowrank\nimport pymc_ext.maths.lowrank\nimport numpy\n"
    assert not ours_beside_maths(allowed)
    for line in ("import pymc_ext.ops", "from pymc_ext import ops", "from ..ops import compiler"):
        assert ours_beside_maths(f"def f():\n    {line}\n"), line


def test_the_check_sees_lazy_imports() -> None:
    source = "def f():\n    from stan_models import nuts\n    import pymc_ext.ops as ops\n"
    assert set(imported_packages(source)) == {"stan_models", "pymc_ext"}
