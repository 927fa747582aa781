"""Environments with different PyMC versions may share PyTensor's folder of compiled code."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.test_installation import flow, softplus
from tests.tolerances import NUMERIC

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """
import json, sys
import pymc, pytensor
import pytensor.tensor as pt
import pymc_ext as px

# inputs: PyTensor would work constants out before it compiles
mu, x, raw = pt.dscalar(), pt.dvector(), pt.dmatrix()
values = [px.expected_softplus(mu, 1.2), px.bernstein_map(x, raw)[0]]
results = pytensor.function([mu, x, raw], values, mode="NUMBA")(0.3, [0.2], [[0.0, 1.0, 2.0]])
json.dump([pymc.__version__, float(results[0]), float(results[1][0])], sys.stdout)
"""
TRUTH = [softplus(0.3, 1.2), flow(0.2, [0.0, 1.0, 2.0])]


def start(python: Path, cache: Path) -> subprocess.Popen[str]:
    flags = {"PYTENSOR_FLAGS": f"base_compiledir={cache}", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [str(python), "-W", "ignore", "-c", SCRIPT],
        env=os.environ | flags,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """The PyMC version that ran, its numbers being right."""
    out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    version, *found = json.loads(out)
    np.testing.assert_allclose(found, TRUTH, rtol=NUMERIC)
    return version


def kernels(cache: Path) -> int:
    """Compiled kernels of the flow's Op in the folder: one for each Python."""
    return len(list(cache.rglob("*BernsteinMap*.nbc")))


@pytest.fixture(scope="module")
def pythons() -> list[Path]:
    """Pythons of the environments beside this checkout's tests: PyMC 5 and PyMC 6."""
    folders = [ROOT / ".venv", ROOT / ".venv313"]
    found = [path for f in folders if (path := f / "bin" / "python").exists()]
    if len(found) < 2:
        pytest.skip("needs .venv and .venv313: `make test` and `make test-pymc6` make them")
    return found


@pytest.mark.slow
def test_one_after_the_other(pythons, tmp_path) -> None:
    versions = [finish(start(python, tmp_path)) for python in (*pythons, *pythons)]
    assert len(set(versions)) == 2 == kernels(tmp_path)


@pytest.mark.slow
def test_at_the_same_time(pythons, tmp_path) -> None:
    running = [start(python, tmp_path) for python in (*pythons, *pythons)]
    assert len({finish(process) for process in running}) == 2 == kernels(tmp_path)
