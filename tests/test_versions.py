"""Which PyMC, ArviZ and PyTensor go together: refused at import in words, known in few files."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest

from pymc_ext import requirements

ROOT = Path(__file__).resolve().parents[1]
GOOD = [
    {"pymc": "5.28.0", "arviz": "0.20.0", "pytensor": "2.38.1"},
    {"pymc": "5.28.5", "arviz": "0.23.4", "pytensor": "2.38.3"},
    {"pymc": "6.0.0rc1", "arviz": "1.1.0", "pytensor": "3.0.0"},
    {"pymc": "6.4.0", "arviz": "1.3.0", "pytensor": "3.3.7"},
]
BAD = [
    ({"pymc": "5.27.1"}, "needs PyMC 5.28 or newer, below 7, got PyMC 5.27.1: pip install"),
    ({"pymc": "7.0.0"}, "needs PyMC 5.28 or newer, below 7, got PyMC 7.0.0: pip install"),
    ({"pymc": "4.4.0"}, "got PyMC 4.4.0"),
    ({"pymc": "6.4.0", "arviz": "0.23.4"}, "6.4.0 works with arviz 1.x, got arviz 0.23.4: pip"),
    ({"pymc": "5.28.5", "arviz": "1.3.0"}, "5.28.5 works with arviz 0.x, got arviz 1.3.0: pip"),
    (
        {"pymc": "6.4.0", "arviz": "1.3.0", "pytensor": "2.38.3"},
        "6.4.0 works with pytensor 3.x, got pytensor 2.38.3: pip install 'pymc==6.4.0'",
    ),
    ({"pymc": "unknown"}, "expected a version such as 5.28.5 of pymc, got 'unknown'"),
]


def pretend(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    monkeypatch.setattr(requirements.metadata, "version", versions.__getitem__)


@pytest.mark.parametrize("versions", GOOD, ids=lambda v: v["pymc"])
def test_versions_that_fit_are_accepted(monkeypatch, versions) -> None:
    pretend(monkeypatch, versions)
    requirements.check()


@pytest.mark.parametrize(("versions", "message"), BAD, ids=lambda v: str(v)[:50])
def test_versions_that_do_not_fit_are_refused(monkeypatch, versions, message) -> None:
    pretend(monkeypatch, versions)
    with pytest.raises(ImportError) as error:
        requirements.check()
    assert message in str(error.value)


def test_a_missing_numba_is_named(monkeypatch) -> None:
    pretend(monkeypatch, GOOD[1])
    monkeypatch.setattr(requirements.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs numba.*pip install numba"):
        requirements.check()


def test_a_missing_package_is_named() -> None:
    with pytest.raises(ImportError, match="needs no-such-package, which is not installed"):
        requirements.installed("no-such-package")


@pytest.mark.parametrize("package", ["pymc_ext", "bridge", "trusted_posteriors"])
def test_importing_checks_before_pymc_can_fail(package, tmp_path) -> None:
    """A PyMC 7 whose import would break: the message must come first."""
    record = tmp_path / "pymc-7.0.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: pymc\nVersion: 7.0.0\n")
    (tmp_path / "pymc").mkdir()
    (tmp_path / "pymc" / "__init__.py").write_text("raise RuntimeError('imported too early')")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    run = subprocess.run(
        [sys.executable, "-c", f"import {package}"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0
    assert "got PyMC 7.0.0" in run.stderr.splitlines()[-1]


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def python_for_pymc6(folder: Path) -> str:
    """What `.ci/python313` prints where nothing but the programs in ``folder`` is on the path."""
    for tool in ("sh", "grep", "sort"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    run = subprocess.run(
        [ROOT / ".ci" / "python313"], env={"PATH": str(folder)}, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_the_newest_python_of_pyenv_that_runs_gets_pymc6(tmp_path) -> None:
    path, versions = tmp_path / "bin", tmp_path / "versions"
    program(path / "python3.13", "exit 127")  # a shim
    installed = "3.11.7 3.12.1 3.12.11 3.12.2 3.13.0 3.13.0/envs/mine 3.14.0t 3.15.0 system"
    listed = f"printf '%s\\n' {installed}"
    program(path / "pyenv", f'[ "$1" = prefix ] && echo {versions}/$2 || {listed}')
    for version in installed.split():
        program(versions / version / "bin" / "python", "exit 0")
    program(versions / "3.13.0" / "bin" / "python", "exit 1")  # one without venv
    assert python_for_pymc6(path) == f"{versions}/3.12.11/bin/python\n"


def test_a_python_on_the_path_comes_before_pyenvs(tmp_path) -> None:
    program(tmp_path / "python3.12", "exit 0")
    program(tmp_path / "pyenv", "echo asked >&2")
    assert python_for_pymc6(tmp_path) == f"{tmp_path}/python3.12\n"


def test_no_python_and_no_pyenv_is_no_error(tmp_path) -> None:
    assert python_for_pymc6(tmp_path) == ""


KNOW_VERSIONS = {
    "pymc_ext/arviz_versions.py",
    "pymc_ext/requirements.py",
    "posteriordb_cases/inference_data.py",
    "stan_models/inference_data.py",
}


def compared_versions(source: str) -> list[int]:
    """Lines that take a ``__version__`` apart, i.e. use it for more than a record."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "__version__"
    ]


def test_the_check_sees_compared_versions() -> None:
    assert compared_versions("a = int(az.__version__.split('.')[0]) >= 1") == [1]
    assert compared_versions("record(version=az.__version__)") == []


def sources() -> dict[str, str]:
    packages = ("pymc_ext", "stan_models", "bridge", "posteriordb_cases", "trusted_posteriors")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def test_only_few_files_know_versions() -> None:
    found = {name for name, source in sources().items() if compared_versions(source)}
    assert found <= KNOW_VERSIONS


# ------------------------------------------------ what is undocumented is imported in one place

# A module is public if a page of its project's documentation has it as its subject or imports from
# it: PyMC's API reference (docs/source/api), PyTensor's API reference (doc/library) and its
# chapter on extending it (doc/extending), ArviZ's API reference. To use another one, name its page
# here; of one that has none, add what is needed to the file for it.
PUBLIC = {
    "arviz": "the front page",
    "pymc": "api",
    "pymc.backends": "api/backends",
    "pymc.backends.base": "api/backends",
    "pymc.distributions.transforms": "api/distributions/transforms",
    "pymc.gp": "api/gp",
    "pymc.stats": "what the warning of pymc.compute_log_prior says to import from",
    "pymc.gp.mean": "api/gp/mean",
    "pymc.gp.util": "api/gp/util",
    "pymc.math": "api/math",
    "pymc.model": "api/model",
    "pymc.pytensorf": "api/pytensorf",
    "pytensor": "library",
    "pytensor.compile": "library/compile",
    "pytensor.compile.mode": "library/compile/mode",
    "pytensor.compile.sharedvalue": "library/compile/shared",
    "pytensor.gradient": "library/gradient",
    "pytensor.graph": "library/graph",
    "pytensor.graph.basic": "library/graph/graph",
    "pytensor.graph.fg": "extending/creating_an_op",
    "pytensor.graph.op": "library/graph/op",
    "pytensor.graph.replace": "library/graph/replace",
    "pytensor.graph.rewriting.basic": "extending/graph_rewriting",
    "pytensor.graph.traversal": "library/graph/traversal",
    "pytensor.graph.utils": "library/graph/utils",
    "pytensor.link.c.op": "extending/creating_a_c_op",
    "pytensor.link.jax.dispatch": "extending/creating_a_numba_jax_op",
    "pytensor.scalar": "extending/graph_rewriting",
    "pytensor.scan": "library/scan",
    "pytensor.tensor": "library/tensor",
    "pytensor.tensor.elemwise": "library/tensor/elemwise",
    "pytensor.tensor.linalg": "library/tensor/linalg",
    "pytensor.tensor.random.basic": "library/tensor/random/distributions",
    "pytensor.tensor.random.op": "library/tensor/random",
}
# PyMC documents a few classes of ``pymc.variational``; to derive from them takes the rest of it.
IMPORT_WHAT_IS_NOT = {
    "pymc_ext/pymc_versions.py",
    "pymc_ext/pytensor_versions.py",
    "pymc_ext/variational/plugin/pymc_variational.py",
    "posteriordb_cases/models/_scan.py",  # this package does not import pymc_ext
}
LIBRARIES = ("arviz", "arviz_base", "arviz_plots", "arviz_stats", "pymc", "pytensor")


def is_module(name: str) -> bool:
    top = util.find_spec(name.split(".")[0])
    if top is None or top.origin is None:
        return False
    path = Path(top.origin).parents[1].joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def taken(source: str) -> Iterator[tuple[str, str]]:
    """What a source imports, and ``pm.math.dot``, dotted: surely a module, the whole name."""
    tree = ast.parse(source)
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.name
                known |= {alias.asname: alias.name} if alias.asname else {}
                known |= {alias.name.split(".")[0]: alias.name.split(".")[0]}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.module, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        if attributes and isinstance(node, ast.Name) and node.id in known:
            yield known[node.id].split(".")[0], ".".join([known[node.id], *attributes])


def undocumented(source: str) -> set[str]:
    """The modules of the libraries that no page names, and private names of those that one does."""
    found = set()
    for surely, name in taken(source):
        if name.split(".")[0] not in LIBRARIES:
            continue
        module = name
        while module != surely and not is_module(module):
            module = module.rpartition(".")[0]
        private = any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
        if module not in PUBLIC or private:
            found.add(name)
    return found


def test_what_is_not_documented_is_imported_in_one_file_of_each() -> None:
    found = {name: undocumented(source) for name, source in sources().items()}
    elsewhere = {k: v for k, v in found.items() if v and k not in IMPORT_WHAT_IS_NOT}
    assert not elsewhere, "import these from pymc_ext's *_versions.py"
    assert all(found[name] for name in IMPORT_WHAT_IS_NOT), "a file that need not be listed"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from pytensor.compile.function.types import Function", True),
        ("from pytensor.graph.replace import _vectorize_node", True),
        ("from pytensor.graph.replace import clone_replace", False),
        ("from pytensor.tensor.random import type", True),
        ("from pymc import variational", True),
        ("import pymc as pm\n    pm.data.MinibatchOp", True),
        ("import pymc as pm\n    pm.math.dot(x, x)", False),
        ("import pytensor.scan.op", True),
        ("from arviz_stats.base import array_stats", True),
        ("import arviz as az\n    az.__version__", False),
        ("from pymc_ext.variational import core", False),
    ],
)
def test_the_check_sees_every_form(line: str, expected: bool) -> None:
    assert bool(undocumented(f"def f():\n    {line}\n")) == expected
