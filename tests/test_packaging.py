"""What users install: the sdist and the wheel hold every file that is not Python."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pymc_ext", "stan_models", "bridge", "posteriordb_cases", "trusted_posteriors")
NAMESAKE = "trusted_posteriors_namesake"  # a module that all of them import
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"  # noqa: E501
MODULES = {
    "arviz_stats": "arviz",
    "pymc_extras": "pymc-extras",
    "sklearn": "scikit-learn",
    "stanio": "cmdstanpy",
}


def tracked(*paths: str) -> set[str]:
    """Files of the working tree that git knows."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: what belongs into the packages is what git tracks")
    names = subprocess.run(
        ["git", "ls-files", "-z", *paths], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


def clone(folder: Path) -> Path:
    """A copy of what git tracks, with none of what is built beside it."""
    for name in tracked():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    return folder


def build(what: str, source: Path, out: Path) -> Path:
    """Run setuptools as ``python -m build`` does."""
    out.mkdir(exist_ok=True)
    run = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{what}", str(out)],
        cwd=source,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return out / run.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[set[str], set[str], str]:
    """Names in the sdist, names in the wheel built from it, and the wheel's metadata."""
    folder = tmp_path_factory.mktemp("packaging")
    sdist = build("sdist", clone(folder / "clone"), folder / "dist")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    wheel = build("wheel", source, folder / "dist")
    with zipfile.ZipFile(wheel) as archive:
        (record,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return names, set(archive.namelist()), archive.read(record).decode()


def test_sdist_holds_packages_tests_and_what_builds_them(built) -> None:
    wanted = tracked(
        *PACKAGES, f"{NAMESAKE}.py", "tests", "setup.cfg", "pyproject.toml", "Makefile", "LICENSE"
    )
    assert not wanted - built[0]


def test_wheel_holds_every_file_of_the_packages_and_nothing_else(built) -> None:
    found = {name for name in built[1] if ".dist-info/" not in name}
    wanted = tracked(*PACKAGES, f"{NAMESAKE}.py")
    assert found == wanted
    assert {Path(name).suffix for name in found} >= {".stan", ".c", ".cpp", ".json", ".zip"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= found


def test_wheel_describes_itself(built) -> None:
    text = built[2]
    assert re.search(r"^Requires-Python: >=3\.11$", text, flags=re.M)
    assert "Requires-Dist: pymc<7,>=5.28" in text
    assert "License-File: LICENSE" in text
    assert "# Approximate posteriors" in text  # the README is the long description


def declared() -> set[str]:
    """Packages named in setup.cfg, in the requirements and the extras."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lists = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    lines = "\n".join(lists).split("\n")
    return {re.split(r"[<>=!~;\[ ]", line.strip())[0] for line in lines if line.strip()}


def test_everything_imported_is_declared() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    imported: set[str] = set()
    for node in (node for path in files for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported.add(node.module.split(".")[0])
    outside = imported - set(sys.stdlib_module_names) - {*PACKAGES, NAMESAKE}
    assert {MODULES.get(name, name) for name in outside} <= declared()


def test_lower_bounds_are_pip_constraints() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "minimum_versions.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = run.stdout.split()
    assert "pymc==5.28" in lines
    assert len({line.split("==")[0] for line in lines}) == len(lines)


def test_installed_packages_fit_together() -> None:
    """What ``pip check`` says of this environment about our own requirements."""
    ours = metadata.distribution("trusted-posteriors")
    run = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    complaints = [line for line in run.stdout.splitlines() if ours.name in line]
    assert not complaints
