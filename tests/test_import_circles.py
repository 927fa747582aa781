"""No import circle inside a package: not at import, not inside functions, not for types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "pymc_ext/maths",
    "pymc_ext/ops",
    "pymc_ext/matching",
    "pymc_ext/gp",
    "stan_models",
    "posteriordb_cases",
)


def module_name(path: Path, root: Path) -> str:
    """Dotted name of the module in a file; that of a package for its ``__init__.py``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(source: str, package: str) -> Iterator[str]:
    """Dotted names that a module of ``package`` imports, at any depth of its code.

    ``from a.b import c`` gives ``a.b.c``: which part of it is a module, `import_graph` knows.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = [*(above if node.level else []), *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def import_graph(folder: Path, root: Path) -> dict[str, set[str]]:
    """Every module below a folder -> the modules below it that it imports.

    A name of a package's ``__init__`` counts as an import of that ``__init__``; that importing a
    module also runs the packages above it does not, or every package would be a circle.
    """
    files = {module_name(path, root): path for path in folder.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = (_module(n, files) for n in imported_names(path.read_text("utf-8"), package))
        graph[name] = {module for module in found if module is not None and module != name}
    return graph


def _module(name: str, files: dict[str, Path]) -> str | None:
    """The longest leading part of a dotted name that is a module of ours."""
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name or None


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, the first named again at the end; empty where there is none."""
    done: set[str] = set()

    def visit(module: str, above: list[str]) -> list[str]:
        if module in above:
            return [*above[above.index(module) :], module]
        if module in done:
            return []
        for next_one in sorted(graph[module]):
            if found := visit(next_one, [*above, module]):
                return found
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := visit(module, []))), [])


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other(package: str) -> None:
    found = circle(import_graph(ROOT / package, ROOT))
    assert not found, (
        f"import circle in {package}: {' -> '.join(found)}; move what both need into a module of "
        "its own"
    )


CIRCLES = {
    "at the top": "from leaf.b import g",
    "of a module": "import leaf.b",
    "inside a function": "def f():\n    from leaf import b",
    "for types alone": "import typing\nif typing.TYPE_CHECKING:\n    from leaf import b",
    "relative": "from . import b",
    "relative to a module": "from .b import g",
}


@pytest.mark.parametrize("line", CIRCLES.values(), ids=CIRCLES)
def test_the_check_sees_a_circle(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "leaf"
    folder.mkdir()
    (folder / "__init__.py").write_text("from leaf.a import f\n")
    (folder / "a.py").write_text(f"{line}\n")
    (folder / "b.py").write_text("def g():\n    from leaf.c import h\n")
    (folder / "c.py").write_text("import numpy\n")
    assert circle(import_graph(folder, tmp_path)) == []
    (folder / "c.py").write_text("from leaf.a import f\n")
    assert circle(import_graph(folder, tmp_path)) == ["leaf.a", "leaf.b", "leaf.c", "leaf.a"]


def test_a_name_taken_from_the_package_above_is_a_circle(tmp_path: Path) -> None:
    folder = tmp_path / "leaf"
    folder.mkdir()
    (folder / "__init__.py").write_text("from leaf.a import f\n")
    (folder / "a.py").write_text("def f():\n    from leaf import other\n")
    assert circle(import_graph(folder, tmp_path)) == ["leaf", "leaf.a", "leaf"]
