"""The data flow is one way: only ``bridge`` may import the three leaves, and nothing in circles."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEAVES = {"pymc_ext", "stan_models", "posteriordb_cases"}
ROOF = "trusted_posteriors"  # imports all, and nothing imports it
FORBIDDEN = {leaf: (LEAVES - {leaf}) | {"bridge", ROOF} for leaf in LEAVES} | {
    "bridge": {ROOF},
    ROOF: set(),
}


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


# ---------------------------------------------------------------- no import circles


def module_names(root: Path, package: str) -> dict[str, Path]:
    """Dotted names of a package's modules; a package itself is its ``__init__.py``."""
    files = sorted((root / package).rglob("*.py"))
    dotted = {path: ".".join(path.relative_to(root).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def imported_modules(name: str, path: Path, known: Container[str]) -> set[str]:
    """The modules of ``known`` that a module imports, inside functions and TYPE_CHECKING too.

    ``from package import x`` is the module ``package.x`` where there is one, else ``package``. That
    importing ``a.b`` runs ``a/__init__.py`` before is not counted: every module of ``a`` does that.
    """
    found: set[str] = set()
    stub = path.with_suffix(".pyi")  # a package's lazy imports
    source = path.read_text() + (stub.read_text() if stub.exists() else "")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
            start = parts[: len(parts) - node.level + 1] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            members = {f"{origin}.{alias.name}" for alias in node.names}
            found |= {member if member in known else origin for member in members}
    return {module for module in found if module in known} - {name}


def import_graph(root: Path, package: str) -> dict[str, set[str]]:
    """Module to the modules of the same package (``"a"``, or ``"a/b"``) that it imports."""
    modules = module_names(root, package)
    return {name: imported_modules(name, path, modules) for name, path in modules.items()}


def rooms(graph: Mapping[str, set[str]], package: str) -> dict[str, set[str]]:
    """The same between the sub-packages (and the files beside them) of a package."""
    depth = len(Path(package).parts) + 1

    def room(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    found: dict[str, set[str]] = {}
    for name, imports in graph.items():
        found.setdefault(room(name), set()).update(
            {room(other) for other in imports} - {room(name)}
        )
    return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The names of one circle, from a module back to itself; none if there is none."""
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        return error.args[1]
    return []


PACKAGES = ("pymc_ext", "stan_models", "posteriordb_cases", "bridge", "trusted_posteriors")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_by_a_detour(package: str) -> None:
    graph = import_graph(ROOT, package)
    assert len(graph) > 1
    assert not circle(graph), (
        f"import circle {' <- '.join(circle(graph))}: move what both need into a module of its own"
    )


@pytest.mark.parametrize("package", [*PACKAGES, "pymc_ext/variational"])
def test_no_room_imports_itself_by_a_detour(package: str) -> None:
    found = rooms(import_graph(ROOT, package), package)
    assert not circle(found), " <- ".join(circle(found))


LAZY = "def f():\n    from shop.a import g\n"
TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop import a\n"


@pytest.mark.parametrize(
    "back",
    [LAZY, TYPES, "import shop.a\n", "from . import a\n", "from .a import g\n",
     "from shop import g\n"],
)  # fmt: skip
def test_the_check_sees_circles_however_they_are_closed(back: str, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").write_text("from shop.a import g\n")
    (folder / "a.py").write_text("from shop.b import h\n")
    (folder / "b.py").write_text("import numpy\n")
    assert not circle(import_graph(tmp_path, "shop"))
    (folder / "b.py").write_text(back)
    # a name taken from the package above, ``from shop import g``, closes the circle through it
    assert {"shop.a", "shop.b"} <= set(circle(import_graph(tmp_path, "shop"))) <= {
        "shop", "shop.a", "shop.b"
    }  # fmt: skip


def test_the_check_sees_circles_of_rooms_whose_files_have_none(tmp_path: Path) -> None:
    sources = {
        "a/one": "",
        "a/two": "import shop.b.four",
        "b/three": "import shop.a.one",
        "b/four": "",
    }
    for name, source in sources.items():
        path = tmp_path / "shop" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    graph = import_graph(tmp_path, "shop")
    assert not circle(graph)
    assert set(circle(rooms(graph, "shop"))) == {"shop.a", "shop.b"}


# ---------------------------------------------------------------- what is imported late

HEAVY = ("pymc", "pytensor", "arviz", "xarray", "pandas", "matplotlib")
LIGHT = (
    "pymc_ext.variational.gaussian.laplace",
    "pymc_ext.variational.gaussian.mixed",
    "pymc_ext.variational.gaussian.mixture",
    "pymc_ext.variational.gaussian.monte_carlo",
    "pymc_ext.variational.bernstein.algorithm",
    "stan_models.density",
)


@pytest.mark.parametrize("module", LIGHT)
def test_algorithms_on_a_density_load_neither_pymc_nor_pytensor(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert not run.stdout.split(), f"{module} loads {run.stdout.strip()}"


# Files that a fit takes, the __init__ of packages among them; PyTensor's cache of compiled code may
# load more. Of Laplace's, 34 are the algorithm with its density, the rest what PyMC and ArviZ see:
# groups, traces, and checks of the model, each with its sentence.
FILES = {"LaplaceVI": 69, "BernsteinVI": 106}


@pytest.mark.parametrize("family", FILES)
def test_a_family_takes_few_files(family: str) -> None:
    code = f"import sys, pymc_ext as px; px.{family}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ours = [name for name in run.stdout.split() if name.split(".")[0] in LEAVES]
    assert len(ours) <= FILES[family], sorted(ours)
