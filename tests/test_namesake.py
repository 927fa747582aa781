"""PyPI's pymc-ext installs a `pymc_ext` over ours: whichever came last, it is said in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.test_packaging import build, clone

ROOT = Path(__file__).resolve().parents[1]
THEIRS = "raise RuntimeError('another project was imported')\n"
REPAIR = ("pip uninstall pymc-ext", "pip install --force-reinstall --no-deps trusted-posteriors")


@pytest.fixture
def site(tmp_path) -> Path:
    """A site-packages with our pymc_ext and what pip leaves there of a fake of theirs."""
    package = tmp_path / "pymc_ext"
    package.mkdir()
    for path in (ROOT / "pymc_ext").iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (package / path.name).symlink_to(path)
    shutil.copyfile(ROOT / "pymc_ext" / "__init__.py", package / "__init__.py")
    (package / "optim.py").write_text(THEIRS)
    record = tmp_path / "pymc_ext-1.0.1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: pymc-ext\nVersion: 1.0.1\n")
    (tmp_path / "trusted_posteriors_namesake.py").symlink_to(
        ROOT / "trusted_posteriors_namesake.py"
    )
    return tmp_path


def python(site: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=site,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])},
        capture_output=True,
        text=True,
    )


OTHERS = ("bridge", "trusted_posteriors", "stan_models", "posteriordb_cases")  # beside pymc_ext
STARTS = [*(["-c", f"import {package}"] for package in OTHERS), ["-m", "bridge", "list"]]


@pytest.mark.parametrize("start", STARTS, ids=" ".join)
def test_theirs_over_ours_is_refused_before_it_is_imported(site, start) -> None:
    (site / "pymc_ext" / "__init__.py").write_text(THEIRS)
    run = python(site, *start)
    assert run.returncode == 1
    said = run.stderr.splitlines()[-1]
    assert f"another project's in {site / 'pymc_ext' / '__init__.py'}" in said
    assert all(command in said for command in REPAIR)


@pytest.mark.parametrize("start", [["-c", "import pymc_ext"], *STARTS], ids=" ".join)
def test_ours_over_theirs_works_with_a_warning(site, start) -> None:
    run = python(site, *start)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("pymc-ext 1.0.1") == 1
    assert all(command in run.stderr for command in REPAIR)


def test_what_uninstalling_theirs_leaves_is_refused(site) -> None:
    (site / "pymc_ext" / "__init__.py").unlink()
    (site / "bridge").symlink_to(ROOT / "bridge")
    run = subprocess.run(  # -S: no other pymc_ext is found, as a whole one goes before the folder
        [sys.executable, "-S", "-c", "import bridge"],
        cwd=site, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 1
    said = run.stderr.splitlines()[-1]
    assert "without __init__.py" in said and all(command in said for command in REPAIR)


def test_ours_alone_is_not_mentioned(site) -> None:
    shutil.rmtree(site / "pymc_ext-1.0.1.dist-info")
    everything = "; ".join(f"import {package}" for package in ("pymc_ext", *OTHERS))
    run = python(site, "-W", "error", "-c", everything)
    assert (run.returncode, run.stderr) == (0, "")


def test_looking_costs_next_to_nothing() -> None:
    """A few listed folders; the shortest of ten, as the machine has other work."""
    code = (
        "import sys, timeit, trusted_posteriors_namesake as n;"
        "print(min(timeit.repeat(n.check, number=1, repeat=10)) < 0.005,"
        "{'pymc_ext', 'importlib.metadata', 'numpy'} & set(sys.modules))"
    )
    assert python(ROOT, "-c", code).stdout.split() == ["True", "set()"]


# ---------------------------------------------------------------- as pip installs them


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Ours, built from what git tracks, and one with the names of theirs."""
    folder = tmp_path_factory.mktemp("wheels")
    theirs = folder / "pymc_ext-1.0.1-py3-none-any.whl"
    info = "pymc_ext-1.0.1.dist-info"
    files = {
        "pymc_ext/__init__.py": THEIRS,
        "pymc_ext/optim.py": THEIRS,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: pymc-ext\nVersion: 1.0.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(theirs, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return {"ours": build("wheel", clone(folder / "clone"), folder / "dist"), "theirs": theirs}


@pytest.fixture
def environment(tmp_path) -> Path:
    """The interpreter of a new environment, which finds what ours has after what it has itself."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    interpreter = tmp_path / "env" / "bin" / "python"
    (purelib,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    # a line of a .pth file comes last on the path, and the .pth files in it are not read
    (purelib / "outer.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return interpreter


def pip(environment: Path, *arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--python", environment, *arguments]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def install(environment: Path, wheel: Path) -> None:
    # --ignore-installed: of that name the environment around this one has one, too
    pip(environment, "install", "--no-index", "--no-deps", "--ignore-installed", wheel)


def started(environment: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(environment), *arguments],
        cwd=environment.parent,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(os.name == "nt", reason="environments have other folders on Windows")
@pytest.mark.parametrize("order", [("ours", "theirs"), ("theirs", "ours")], ids=" then ".join)
def test_pip_installs_both_and_what_is_said_repairs_it(environment, wheels, order) -> None:
    for name in order:
        install(environment, wheels[name])
    for start in STARTS:
        run = started(environment, *start)
        assert run.returncode == (1 if order[-1] == "theirs" else 0), run.stderr
        assert all(command in run.stderr for command in REPAIR)
    pip(environment, "uninstall", "--yes", "pymc-ext")
    for start in STARTS[:-1]:
        run = started(environment, *start)
        assert run.returncode == 1 and all(command in run.stderr for command in REPAIR)
    install(environment, wheels["ours"])
    for start in STARTS:
        run = started(environment, "-W", "error", *start)
        assert (run.returncode, run.stderr) == (0, "")
    where = started(environment, "-c", "import pymc_ext; print(pymc_ext.__file__)").stdout
    assert where.startswith(str(environment.parents[1]))
