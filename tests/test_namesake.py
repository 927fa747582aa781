"""PyPI's pymc-ext installs a `pymc_ext` over ours: whichever came last, it is said in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    return tmp_path


def python(site: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=site,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])},
        capture_output=True,
        text=True,
    )


STARTS = [["-c", "import bridge"], ["-c", "import trusted_posteriors"], ["-m", "bridge", "list"]]


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
    run = python(site, "-W", "error", "-c", "import trusted_posteriors")
    assert (run.returncode, run.stderr) == (0, "")
