"""The driver's own promises: what it refuses, with which words, and what it leaves on disk.

That its draws are right is tested through cmdstanpy in ``test_baselines.py`` and its log density
in ``test_density.py``; here the executable runs as a command.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stan_models import StanProgram
from stan_models.toolchain import Toolchain

GAUSSIAN = {"D": 2, "mean": [1.0, -2.0], "cov": [[2.0, 0.5], [0.5, 1.0]], "log_z": 0, "power": 1}
USAGE, DATA, NO_INPUT, SOFTWARE, CONFIG = 64, 65, 66, 70, 78  # sysexits.h, as CmdStan
LONG = ("sample", "num_samples=100000000")
# a job started in the background ignores SIGINT, and so would what it starts
HEED_INTERRUPTS = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Driver:
    """The executable of one program, run in a directory that holds data.json and is its output."""

    def __init__(self, executable: Path, folder: Path, data: dict[str, object]) -> None:
        self.executable, self.folder = executable, folder
        self.write("data.json", json.dumps(data))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def command(self, *arguments: str) -> list[str]:
        """``data`` and ``output`` come first, so that the arguments can replace them."""
        files = ("data", "file=data.json", "output", "file=out.csv")
        return [str(self.executable), *arguments[:1], *files, *arguments[1:]]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, capture_output=True, text=True, check=False
        )

    def outputs(self) -> set[str]:
        return {path.name for path in self.folder.glob("out*")}


@pytest.fixture
def driver(program: Callable[[str], StanProgram], toolchain: Toolchain, tmp_path: Path) -> Driver:
    if not toolchain.is_assembled:
        pytest.skip("an installed CmdStan is in use, not our driver")
    return Driver(program("gaussian").compile(), tmp_path, GAUSSIAN)


def draws(path: Path) -> np.ndarray:
    """The rows of a Stan CSV below its names, as text."""
    rows = [line.split(",") for line in path.read_text().splitlines() if line[:1] not in {"", "#"}]
    return np.array(rows[1:])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no method given"),
        (("smaple",), '"smaple"'),
        (("sample", "num_sample=3"), '"num_sample" for method=sample'),
        (("sample", "num_samples=many"), 'num_samples must be an integer >= 0, got "many"'),
        (("sample", "thin=0"), "thin must be an integer >= 1"),
        (("sample", "adapt", "delta=1.5"), "delta must be a number > 0 and < 1"),
        (("sample", "engine=static"), "engine must be one of nuts"),
        (("sample", "num_warmup=0"), "needs num_warmup >= 1"),
        (("sample", "optimize"), "two methods given"),
        (("laplace",), "needs mode=FILE"),
        (("log_prob",), "either constrained_params=FILE or"),
    ],
)
def test_a_wrong_argument_is_named(driver: Driver, arguments: tuple[str, ...], words: str) -> None:
    answer = driver(*arguments)
    assert answer.returncode == USAGE
    assert answer.stderr.startswith("Error: ") and words in answer.stderr
    assert driver.outputs() == set()


def test_data_that_do_not_fit_give_stans_own_message(driver: Driver) -> None:
    driver.write("short.json", json.dumps(GAUSSIAN | {"mean": [1.0]}))
    answer = driver("sample", "data", "file=short.json")
    assert answer.returncode == DATA
    assert "Exception: mismatch" in answer.stderr and "variable name=mean" in answer.stderr
    assert driver.outputs() == set()


@pytest.mark.parametrize("broken", ['{"D": 2,', "", "[1]"])
def test_a_data_file_that_is_no_json_is_named(driver: Driver, broken: str) -> None:
    driver.write("broken.json", broken)
    answer = driver("sample", "data", "file=broken.json")
    assert answer.returncode == DATA and answer.stderr.startswith(("Error", "Exception"))
    assert driver.outputs() == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("sample", "data", "file=absent.json"),
        ("sample", "init=absent.json"),
        ("sample", "metric_file=absent.json"),
        ("laplace", "mode=absent.csv"),
        ("generate_quantities", "fitted_params=absent.csv"),
    ],
)
def test_a_missing_file_is_named(driver: Driver, arguments: tuple[str, ...]) -> None:
    answer = driver(*arguments)
    assert answer.returncode == NO_INPUT
    assert '"absent.' in answer.stderr and "No such file" in answer.stderr
    assert driver.outputs() == set()


def test_a_metric_of_the_wrong_size_leaves_no_file(driver: Driver) -> None:
    driver.write("metric.json", json.dumps({"inv_metric": [1.0, 1.0, 1.0]}))
    for chains in ("1", "2"):
        answer = driver("sample", "metric_file=metric.json", f"num_chains={chains}")
        assert answer.returncode == CONFIG and "inv_metric" in answer.stderr
        assert driver.outputs() == set()


def test_a_truncated_mode_is_refused(driver: Driver) -> None:
    driver.write("mode.csv", "lp__,x.1,x.2\n0,1\n")
    answer = driver("laplace", "mode=mode.csv")
    assert answer.returncode == DATA and "has 2 values, expected 3" in answer.stderr


def test_laplace_refuses_a_point_that_is_no_maximum(driver: Driver) -> None:
    driver.write("saddle.json", json.dumps(GAUSSIAN | {"power": -1}))
    driver.write("mode.csv", "lp__,x.1,x.2\n0,1,-2\n")
    answer = driver("laplace", "mode=mode.csv", "data", "file=saddle.json")
    assert answer.returncode == CONFIG and "not positive definite" in answer.stderr
    assert driver.outputs() == set()


def test_a_full_disk_is_an_error(driver: Driver) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    answer = driver("sample", "output", "file=/dev/full")
    assert answer.returncode == SOFTWARE and "disk full" in answer.stderr


@pytest.mark.parametrize(
    ("stop", "left"),
    [
        (signal.SIGTERM, set()),
        (signal.SIGINT, set()),
        (signal.SIGKILL, {"out.csv.part"}),
    ],
)
def test_a_killed_run_leaves_no_result(
    driver: Driver, stop: signal.Signals, left: set[str]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HEED_INTERRUPTS, *driver.command(*LONG)],
        cwd=driver.folder,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while not driver.outputs() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(stop)
    assert process.wait(20) == -stop
    assert driver.outputs() == left


def test_a_failed_run_does_not_leave_the_result_of_an_earlier_one(driver: Driver) -> None:
    driver.write("out.csv", "an earlier result")
    driver.write("metric.json", json.dumps({"inv_metric": [1.0]}))
    assert driver("sample", "metric_file=metric.json").returncode == CONFIG
    assert driver.outputs() == set()


def test_chains_are_the_same_in_one_process_and_in_many(driver: Driver) -> None:
    seed = ("random", "seed=5")
    assert driver("sample", "num_chains=2", *seed).returncode == 0
    together = [draws(driver.folder / f"out_{i}.csv") for i in (1, 2)]
    for i, expected in zip((1, 2), together, strict=True):
        assert driver("sample", f"id={i}", *seed).returncode == 0
        np.testing.assert_array_equal(draws(driver.folder / "out.csv"), expected)


def test_log_prob_takes_many_points_and_keeps_constants(driver: Driver) -> None:
    points = np.array([[1.0, -2.0], [0.0, 0.0], [3.0, 1.0]])
    driver.write("points.json", json.dumps({"params_r": points.tolist()}))
    answer = driver("log_prob", "unconstrained_params=points.json", "output", "sig_figs=18")
    assert answer.returncode == 0
    table = draws(driver.folder / "out.csv").astype(float)
    mean, cov = np.array(GAUSSIAN["mean"]), np.array(GAUSSIAN["cov"])
    slope = -np.linalg.solve(cov, (points - mean).T).T
    constant = -np.log(2 * np.pi) - np.linalg.slogdet(cov)[1] / 2
    np.testing.assert_allclose(
        table[:, 0], constant + ((points - mean) * slope).sum(axis=1) / 2, rtol=1e-12
    )
    np.testing.assert_allclose(table[:, 1:], slope, rtol=1e-12, atol=1e-14)
