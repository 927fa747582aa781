"""Sweeps: which cases and methods, time limits, resuming, clusters."""

from __future__ import annotations

import time
from pathlib import Path

import joblib
import pytest
from joblib._parallel_backends import ThreadingBackend
from joblib.parallel import BACKENDS

from bridge.__main__ import main
from bridge.comparison.cluster import cluster
from bridge.comparison.compare import compare
from bridge.comparison.sweep import cases_with_reference, sweep
from bridge.comparison.time_limit import time_limit
from bridge.errors import BridgeError
from bridge.methods.method import Method
from bridge.methods.table import METHODS
from posteriordb_cases import EMBEDDED, list_cases
from tests.bridge.conftest import GAUSSIAN
from tests.needed import needs


def test_a_sweep_takes_the_cases_with_reference_draws(tmp_path: Path) -> None:
    assert cases_with_reference() == list_cases()  # every embedded case has some
    import shutil

    bare = tmp_path / "database"
    shutil.copytree(EMBEDDED, bare, ignore=shutil.ignore_patterns("draws"))
    with pytest.raises(ValueError, match="has reference draws"):
        cases_with_reference(bare)


def test_methods_by_default_are_the_general_ones(gaussian_database, tmp_path, monkeypatch) -> None:
    seen = []

    def record(cases, methods, *_, **__):
        seen.extend(methods)

    monkeypatch.setattr("bridge.comparison.sweep.compare", record)
    sweep([GAUSSIAN], database=gaussian_database, out=tmp_path)
    assert {"stan-nuts", "laplace", "bernstein-laplace"} <= set(seen)
    assert "viper-full" not in seen


def test_a_used_up_budget_leaves_the_rest_for_later(
    gaussian_database, gaussian_methods, tmp_path
) -> None:
    def run(**limits):
        return compare(
            GAUSSIAN, ["equal"], 3, out=tmp_path, database=gaussian_database, draws=4000, **limits
        )

    assert len(run(budget=-1.0)) == 0
    assert len(run()) == 3


def test_a_run_over_its_limit_is_a_failure(
    gaussian_database, gaussian_methods, tmp_path, monkeypatch
) -> None:
    sleeper = Method("sleeper", "", "stan", lambda *_: time.sleep(60))
    monkeypatch.setitem(METHODS, "sleeper", sleeper)
    begin = time.monotonic()
    frame = compare(
        GAUSSIAN, ["sleeper", "equal"], 1, out=tmp_path, database=gaussian_database, draws=4000,
        run_limit=10.0,
    )  # fmt: skip
    assert time.monotonic() - begin < 50
    assert list(frame["status"]) == ["failed", "ok"]
    assert frame["reason"][0] == "TimeoutError: stopped at the limit of 10 s a run"


def test_an_alarm_that_is_swallowed_sounds_again() -> None:
    with pytest.raises(TimeoutError), time_limit(0.1):
        try:
            time.sleep(5)
        except TimeoutError:
            time.sleep(5)
    time.sleep(1.2)  # and not after the block


def test_unknown_backend() -> None:
    with pytest.raises(BridgeError, match="loky, dask or ray, got 'slurm'"), cluster("slurm", 1):
        pass


def test_a_backend_that_answers_when_all_is_done_gets_a_round_at_a_time(
    gaussian_database, gaussian_methods, tmp_path, monkeypatch
) -> None:
    class Late(ThreadingBackend):
        supports_return_generator = False

    monkeypatch.setitem(BACKENDS, "late", Late)
    seen = []
    with joblib.parallel_config(backend="late", n_jobs=2):
        frame = compare(
            GAUSSIAN,
            ["equal", "broken"],
            seeds=3,
            out=tmp_path,
            database=gaussian_database,
            draws=1000,
            on_record=lambda record, done, total: seen.append((done, total)),
        )
    assert list(frame["status"]) == ["ok"] * 3 + ["failed"] * 3
    assert seen == [(i, 6) for i in range(1, 7)]


def test_threads_of_one_process_take_turns(gaussian_database, gaussian_methods, tmp_path) -> None:
    inside, widest = [], []

    def slow(problem, draws, seed):
        inside.append(seed)
        widest.append(len(inside))
        time.sleep(0.1)
        fit = METHODS["equal"].run(problem, draws, seed)
        inside.remove(seed)
        return fit

    METHODS["slow"] = Method("slow", "slow", "pymc", slow)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        frame = compare(
            GAUSSIAN, ["slow"], seeds=6, out=tmp_path, database=gaussian_database, draws=1000
        )
    assert list(frame["status"]) == ["ok"] * 6
    assert widest == [1] * 6


@pytest.mark.stan
@pytest.mark.parametrize(("cluster", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_local_cluster_gives_the_same_numbers(cluster, module, tmp_path: Path, capsys) -> None:
    needs(module)
    options = ["--methods", "stan-laplace", "--seeds", "1", "--draws", "2000", "--jobs", "2"]
    options += ["--shard", "1/5"]  # a few cases
    for backend in (cluster, "loky"):
        folder = str(tmp_path / backend)
        assert main(["sweep", *options, "--backend", backend, "--out", folder]) == 0
    import pandas as pd

    columns = ["case_name", "khat", "elbo"]
    found, loky = (pd.read_csv(tmp_path / b / "table.csv")[columns] for b in (cluster, "loky"))
    assert len(found) > 1
    pd.testing.assert_frame_equal(found, loky)
