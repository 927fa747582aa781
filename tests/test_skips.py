"""A run ends with what was skipped, why, and how to run it; extras have their tests run."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needed

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest
from tests.needed import needs

@pytest.mark.parametrize("_", [1, 2])
def test_skipped(_):
    needs("no_such_module")

def test_known():
    needs("bambi_of_nowhere")

@pytest.mark.slow
def test_slow():
    pass

def test_runs():
    pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_end_says_what_was_skipped(workers: str, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "needed.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    (tmp_path / "tests" / "test_some.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        workers,
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    end = ran.stdout.partition("skipped, why, and how to run it")[2]
    assert [line for line in end.splitlines()[1:-1] if line] == [
        "    2  no_such_module is not installed: pip install no_such_module",
        "    1  bambi_of_nowhere is not installed: pip install bambi_of_nowhere",
        "    1  left out by -m 'not slow': make test-all",
    ]  # fmt: skip


def test_every_optional_module_says_what_installs_it() -> None:
    """One function skips, so that no reason is without its remedy."""
    found = [
        path.relative_to(ROOT)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path not in (ROOT / "tests" / "needed.py", Path(__file__).resolve())
        and re.search(r"importorskip|skipif\(\s*find_spec", path.read_text(encoding="utf-8"))
    ]
    assert not found, f"use tests.needed.needs in {found}"


def extras() -> dict[str, str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return dict(config["options.extras_require"])


def test_those_named_are_extras() -> None:
    assert set(needed.EXTRAS.values()) <= set(extras())


def test_make_test_installs_what_its_tests_need() -> None:
    """All but the peers, which are compared with."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^EXTRAS := (.*)$", makefile, flags=re.M)
    assert set(extras()) - {*line.split(","), "peers", "docs", "nutpie"} == set()
    assert "nutpie" in extras()["test"]
    (on_6,) = re.findall(r"^EXTRAS313 := (.*)$", makefile, flags=re.M)
    assert {*line.split(",")} - {*on_6.split(",")} == {"discrete"}  # of no PyMC from 6.4 on
    for extras_of in ("EXTRAS", "EXTRAS313"):
        assert len(re.findall(rf"^\t\$\(call environment,.*\$\({extras_of}\)", makefile, re.M)) == 1


def test_paths_that_the_makefile_names_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w./$)])(?:tests|bridge|docs|benchmarks|\.ci)/[\w./]+", makefile))
    built = {"docs/_build", "docs/_build/html", "docs/_build/links", "docs/_build/html/index.html"}
    missing = sorted(path for path in named - built if not (ROOT / path).exists())
    assert len(named) > 3 and not missing
