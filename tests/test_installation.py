"""Where the packages run: with no compiler on the path, from a folder nobody may write to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from tests.tolerances import NUMERIC

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pymc_ext", "stan_models", "bridge", "posteriordb_cases", "trusted_posteriors")
SCRIPT = """
import json, subprocess, sys
import pymc as pm
from pytensor.compile.mode import get_default_mode
import bridge
import pymc_ext as px
from posteriordb_cases import load_case

with pm.Model():
    mu = pm.Normal("mu", 0, 2)
    pm.Normal("y", mu, 1, observed=[1.0, 2.0, 3.0])
    fit = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
case = load_case("two_successes-bernoulli_beta")
subprocess.run([sys.executable, "-B", "-c", "import pymc_ext"], check=True)
json.dump(
    {
        "linker": type(get_default_mode().linker).__name__,
        "files": [module.__file__ for module in (px, bridge)],
        "mean": float(fit.mean.eval()[0]),
        "softplus": float(px.expected_softplus(0.3, 1.2).eval()),
        "flow": [float(x) for x in px.bernstein_map([0.2], [[0.0, 1.0, 2.0]])[0].eval()],
        "log_evidence": case.exact["log_evidence"],
    },
    sys.stdout,
)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Path]:
    """A site-packages of the packages without write permission."""
    folder = tmp_path_factory.mktemp("installed") / "site-packages"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("*.pyc"))
    everything = [folder, *folder.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in everything:
        path.chmod(0o755)


def content(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*")}


def test_without_a_compiler_and_without_write_permission(site, tmp_path) -> None:
    before = content(site)
    kept = ("HOME", "OMP_NUM_THREADS", "PYTENSOR_FLAGS", "TMPDIR")
    run = subprocess.run(
        [sys.executable, "-B", "-c", SCRIPT],
        env={k: v for k, v in os.environ.items() if k in kept}
        | {"PATH": str(tmp_path), "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert all(Path(name).is_relative_to(site) for name in found["files"])
    assert found["mean"] == pytest.approx(6 / 3.25, rel=NUMERIC)  # precision 1/4 + 3
    assert found["softplus"] == pytest.approx(softplus(0.3, 1.2), rel=NUMERIC)
    assert found["flow"] == pytest.approx([flow(0.2, [0.0, 1.0, 2.0])], rel=NUMERIC)
    assert content(site) == before
    assert found["linker"] == "NumbaLinker"
    # PyTensor 3 says nothing; two processes were started
    assert run.stderr.count("g++ not") <= 1
    assert run.stderr.count("no C++ compiler") == run.stderr.count("g++ not")


def softplus(mu: float, sigma: float) -> float:
    """E log(1 + e^x) of x ~ N(mu, sigma) by quadrature."""
    density = stats.norm(mu, sigma).pdf
    return integrate.quad(lambda x: np.logaddexp(0, x) * density(x), -12, 12, epsabs=1e-12)[0]


def flow(x: float, raw: list[float]) -> float:
    """Sum of increments softplus(raw_k), each from 0 to 1 as the binomial tail of sigmoid(x)."""
    u = 1 / (1 + np.exp(-x))
    tails = stats.binom(len(raw), u).sf(np.arange(len(raw)))
    return float(np.logaddexp(0, raw) @ tails)
