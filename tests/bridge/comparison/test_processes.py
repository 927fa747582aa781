"""What ends a run's process is its record; workers end with the process that wants them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import pytest

from bridge.__main__ import main
from bridge.comparison.compare import compare
from bridge.errors import BridgeError
from bridge.methods.method import Fit, Method, Problem
from tests.bridge.conftest import GAUSSIAN, gaussian_fit

ROOT = Path(__file__).parents[3]
SOON = 10.0  # seconds in which a process has to end after its parent


def right(problem: Problem, draws: int, seed: int) -> Fit:
    return gaussian_fit(problem, draws, seed, shift=0.1, scale=1.0)


def crashing(problem: Problem, draws: int, seed: int) -> Fit:
    if seed == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return right(problem, draws, seed)


def leaving(problem: Problem, draws: int, seed: int) -> Fit:
    os._exit(7)


def deaf(problem: Problem, draws: int, seed: int) -> Fit:
    """As compiled code that hears no signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(60)
    return right(problem, draws, seed)


def method(run) -> Method:
    return Method(run.__name__, "of a test", "pymc", run)


def test_how_a_process_ended_is_the_record_of_its_run(gaussian_database, tmp_path) -> None:
    frame = compare(
        GAUSSIAN, [method(crashing), method(leaving)], 2,
        out=tmp_path, database=gaussian_database, draws=1000, isolate=True,
    )  # fmt: skip
    assert list(frame["status"]) == ["ok", "failed", "failed", "failed"]
    by_signal, by_exit = frame["reason"].iloc[1:3]
    assert by_signal == "the run ended its process by SIGSEGV"
    assert by_exit == "the run ended its process with exit status 7"
    alone = compare(
        GAUSSIAN, method(crashing), [1], out=tmp_path / "here", database=gaussian_database,
        draws=1000,
    )  # fmt: skip
    assert alone["khat"].iloc[0] == frame["khat"].iloc[0]  # the same run, wherever it is made


@pytest.mark.slow  # a limit has to be longer than imports take
def test_a_limit_that_is_not_heard_ends_the_process(
    gaussian_database, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("bridge.comparison.processes.GRACE", 0.5)
    frame = compare(
        GAUSSIAN, method(deaf), 1, out=tmp_path, database=gaussian_database, draws=1000,
        isolate=True, run_limit=20,
    )  # fmt: skip
    assert frame["reason"].iloc[0] == "TimeoutError: killed 0.5 s after the limit of 20 s a run"
    assert frame["total_seconds"].iloc[0] < 40


def test_a_worker_that_is_ended_ends_the_comparison_in_a_sentence(
    gaussian_database, tmp_path
) -> None:
    with (
        joblib.parallel_config(n_jobs=2),
        pytest.raises(BridgeError, match=r"ended its worker process.*isolate=True"),
    ):
        compare(GAUSSIAN, method(crashing), 4, out=tmp_path, database=gaussian_database, draws=1000)


KILLED = """
import os, sys, time
from pathlib import Path
import joblib
from bridge.comparison.compare import compare
from bridge.methods.method import Method

def slow(problem, draws, seed, where={folder!r}):
    (Path(where) / f"{{os.getpid()}}.pid").touch()
    time.sleep(120)

with joblib.parallel_config(n_jobs=2):
    compare({case!r}, Method("slow", "", "pymc", slow), 2, out={out!r}, database={database!r},
            isolate={isolate})
"""


@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_process_outlives_a_comparison_that_is_killed(
    gaussian_database, tmp_path, isolate: bool
) -> None:
    code = KILLED.format(
        folder=str(tmp_path), case=GAUSSIAN, out=str(tmp_path / "out"),
        database=str(gaussian_database), isolate=isolate,
    )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.2)
    workers = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert len(workers) == 2 and all(map(is_there, workers))
    process.kill()
    process.wait()
    until = time.monotonic() + SOON
    while any(map(is_there, workers)) and time.monotonic() < until:
        time.sleep(0.2)
    assert not any(map(is_there, workers))


def is_there(pid: int) -> bool:
    """Whether a process runs, and is not one that nobody has waited for."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_the_zoo_has_no_processes_of_its_own(capsys, tmp_path) -> None:
    command = ["sweep", "--zoo", "ring", "--isolate", "--out", str(tmp_path)]
    assert main(command) == 2
    assert "--isolate is of posteriors, not of --zoo" in capsys.readouterr().err
