"""Which PyMC, ArviZ and PyTensor go together: refused at import in words, known in few files."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize("package", ["pymc_ext", "bridge"])
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


def test_only_few_files_know_versions() -> None:
    packages = ("pymc_ext", "stan_models", "bridge", "posteriordb_cases")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    found = {str(p.relative_to(ROOT)) for p in files if compared_versions(p.read_text())}
    assert found <= KNOW_VERSIONS
