"""The whole judging chain on a Gaussian case, where every score has a closed form."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import posteriordb_cases.case
from bridge.comparison.compare import compare
from bridge.comparison.problem import CaseProblem
from bridge.comparison.records import Records
from bridge.comparison.run import Run, _problem, run_one
from bridge.comparison.settings import Settings
from bridge.comparison.sweep import cases_with_reference
from bridge.errors import (
    DiskFullError,
    IncompleteReferenceError,
    UnknownMethodError,
    UnreliableReferenceError,
)
from bridge.methods.method import Fit, Method, Problem
from bridge.methods.table import METHODS
from bridge.report.figures import loss_traces
from bridge.report.files import write
from bridge.report.html_figures import loss_curves
from bridge.report.stored import read_records, read_traces
from posteriordb_cases import load_case
from posteriordb_cases.files import read_zipped_json
from posteriordb_cases.writer import zipped_json
from tests.bridge.conftest import GAUSSIAN, gaussian_fit
from tests.tolerances import EXACT, monte_carlo

D = 5
LOG_EVIDENCE = 7.25
SHIFT = 0.5


@pytest.fixture
def run(gaussian_database: Path, gaussian_methods: list[str], tmp_path: Path):
    def run(methods, seeds=1, **changes):
        arguments = {"out": tmp_path, "database": gaussian_database, "draws": 4000} | changes
        return compare(GAUSSIAN, methods, seeds, **arguments)

    return run


def test_equal_densities_are_reported_as_exact(run) -> None:
    row = run(["equal"]).iloc[0]
    assert row["status"] == "ok" and row["khat_exact"] and row["khat"] is None
    assert row["elbo"] == pytest.approx(LOG_EVIDENCE, rel=EXACT)
    assert abs(row["kl_qp"]) < monte_carlo(row["kl_qp_se"])
    assert abs(row["kl_pq"]) < monte_carlo(row["kl_pq_se"])


def test_what_is_no_fit_is_said(run) -> None:
    row = run([Method("none", "of a user", "pymc", lambda p, n, s: 3)]).iloc[0]
    assert row["reason"] == "TypeError: method 'none' must return a bridge.Fit, got 3"


def shifted(problem: Problem, draws: int, seed: int) -> Fit:
    return gaussian_fit(problem, draws, seed, shift=SHIFT, scale=1.0)


def test_what_a_users_method_minimises_is_in_the_figures(run, tmp_path: Path) -> None:
    run([Method("own", "of a user", "pymc", shifted, objective="−log score")])
    runs = read_records(tmp_path)
    assert list(runs["objective"]) == ["−log score"]
    traces = read_traces(runs, tmp_path)
    assert traces["own"].objective == "−log score" and len(traces["own"].seeds) == 1
    (title,) = loss_curves(traces).layout.annotations
    assert title.text == "own: −log score"
    axes = loss_traces(GAUSSIAN, runs, tmp_path).axes
    assert [axis.get_ylabel() for axis in axes] == ["−log score"]
    older = runs.drop(columns="objective")
    assert read_traces(older, tmp_path)["own"].objective == "loss"


@pytest.mark.stan
def test_a_record_says_what_a_method_ran_on(monkeypatch, tmp_path: Path) -> None:
    case = "two_successes-bernoulli_beta"
    arguments = {"out": tmp_path, "draws": 1000, "repetitions": 1}
    assert compare(case, "laplace", 1, **arguments)["representation"][0] == "pymc"
    monkeypatch.setattr(CaseProblem, "uses_port", False)
    _problem.cache_clear()
    found = compare(case, ["laplace", "pymc-advi", "stan-laplace"], 2, **arguments)
    assert dict(zip(found["method"], found["representation"], strict=True)) == {
        "laplace": "stan",
        "pymc-advi": "stan in pymc",
        "stan-laplace": "stan",
    }
    _problem.cache_clear()


def test_a_shifted_gaussian_has_its_closed_form_divergences(run) -> None:
    row = run(["shifted"], draws=20_000).iloc[0]
    kl = 0.5 * SHIFT**2
    assert row["kl_qp"] == pytest.approx(kl, abs=monte_carlo(row["kl_qp_se"]))
    assert row["kl_pq"] == pytest.approx(kl, abs=monte_carlo(row["kl_pq_se"]))
    assert row["log_evidence"] == pytest.approx(
        LOG_EVIDENCE, abs=monte_carlo(row["log_evidence_se"])
    )
    assert row["mean_error"] == pytest.approx(SHIFT, abs=monte_carlo(2 / np.sqrt(10_000)))
    assert row["mean_error_psis"] < SHIFT / 2


def test_a_wide_gaussian_has_its_closed_form_divergences(run) -> None:
    row = run(["wide"], draws=20_000).iloc[0]
    # KL(N(0, c²) ‖ N(0, 1)) = ½ (c² − 1 − log c²) a dimension
    kl_qp = 0.5 * D * (1.5**2 - 1 - 2 * np.log(1.5))
    kl_pq = 0.5 * D * (1.5**-2 - 1 + 2 * np.log(1.5))
    assert row["kl_qp"] == pytest.approx(kl_qp, abs=monte_carlo(row["kl_qp_se"]))
    assert row["kl_pq"] == pytest.approx(kl_pq, abs=monte_carlo(row["kl_pq_se"]))
    assert row["sd_error"] == pytest.approx(0.5, abs=0.05)
    assert row["khat"] < 0.2  # weights are bounded


def test_cpu_seconds_count_the_programs_that_a_method_runs(run, monkeypatch) -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass"

    def fit(problem, draws, seed):
        subprocess.run([sys.executable, "-c", busy], check=True)
        return gaussian_fit(problem, draws, seed, shift=0.0, scale=1.0)

    monkeypatch.setitem(METHODS, "busy", Method("busy", "runs a program", "pymc", fit))
    ticks = 0.05  # the system counts CPU time in hundredths of a second, some here and some there
    assert run(["busy"]).iloc[0]["cpu_seconds"] > 0.5 - ticks


def test_a_failure_is_a_record_with_its_reason(run) -> None:
    frame = run(["broken", "wide"])
    assert list(frame["status"]) == ["failed", "ok"]
    assert frame["reason"][0] == "FloatingPointError: no fit on purpose"
    assert "in broken" in frame["traceback"][0]


def test_a_fit_is_judged_without_divergences_where_the_reference_lacks_parameters(
    run, monkeypatch
) -> None:
    def lacking(*_):
        raise IncompleteReferenceError("the reference draws hold ['y'] and not x")

    _problem.cache_clear()
    monkeypatch.setattr(CaseProblem, "reference_theta", lacking)
    row = run(["shifted"]).iloc[0]
    assert row["status"] == "ok" and np.isfinite(row["khat"])
    assert "kl_qp" not in row and "not available: the reference draws hold ['y']" in row["notes"]


def test_rows_come_in_the_order_asked_for(run) -> None:
    frame = run(["wide", "equal"], seeds=[3, 1])
    rows = list(frame[["method", "seed"]].itertuples(index=False, name=None))
    assert rows == [("wide", 3), ("wide", 1), ("equal", 3), ("equal", 1)]


def test_an_interrupted_comparison_goes_on_where_it_stopped(run, tmp_path, monkeypatch) -> None:
    calls: list[int] = []
    wide = METHODS["wide"].run

    def interrupted(problem, draws, seed):
        calls.append(seed)
        if calls == [1, 2, 3]:
            raise KeyboardInterrupt
        return wide(problem, draws, seed)

    monkeypatch.setitem(METHODS, "wide", Method("wide", "", "pymc", interrupted))
    with pytest.raises(KeyboardInterrupt):
        run(["wide"], seeds=4)
    assert {key[2] for key in Records(tmp_path / "records.sqlite").by_key()} == {1, 2}
    assert list(run(["wide"], seeds=4)["status"]) == ["ok"] * 4
    assert calls == [1, 2, 3, 3, 4]


def test_failures_are_run_again_on_request_only(run, monkeypatch) -> None:
    run(["broken"])
    mended = Method("broken", "", "pymc", METHODS["wide"].run)
    monkeypatch.setitem(METHODS, "broken", mended)
    assert run(["broken"])["status"][0] == "failed"
    assert run(["broken"], retry_failed=True)["status"][0] == "ok"


def test_other_settings_are_other_runs(run, tmp_path) -> None:
    run(["equal"])
    frame = run(["equal"], draws=5000)
    assert list(frame["draws"]) == [5000]
    assert len(Records(tmp_path / "records.sqlite").frame()) == 2


def test_draws_are_stored_whole_or_not_at_all(run, tmp_path, monkeypatch) -> None:
    row = run(["wide"]).iloc[0]
    path = tmp_path / row["draws_file"]
    posterior = xr.open_dataset(path, group="posterior", engine="h5netcdf")
    stats = xr.open_dataset(path, group="sample_stats", engine="h5netcdf")
    assert posterior["x"].shape == (1, 4000, D)
    assert (stats["lp"] - stats["lq"]).std() > 0

    def fail(*arguments, **options):
        raise OSError("no such device")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", fail)
    failed = run(["shifted"]).iloc[0]
    assert failed["status"] == "failed" and "no such device" in failed["reason"]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_full_disk_stops_the_comparison_and_room_lets_it_go_on(run, monkeypatch) -> None:
    free = iter([10**9, 2_000, 10**9, 10**9])
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=next(free)))
    with pytest.raises(DiskFullError, match="make room and give the same command again"):
        run(["wide"], seeds=3)
    frame = run(["wide"], seeds=3)
    assert list(frame["status"]) == ["ok"] * 3 and next(free, None) is None


def test_a_record_without_room_leaves_those_before_it(run, tmp_path) -> None:
    run(["wide"])
    records = Records(tmp_path / "records.sqlite")
    with records._connection() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()

    @contextmanager
    def full():
        with closing(sqlite3.connect(records.path)) as connection, connection:
            connection.execute(f"PRAGMA max_page_count = {pages}")
            yield connection

    records._connection = full
    row = {"case_name": "a", "method": "m", "seed": 1, "settings": "{}", "status": "ok"}
    with pytest.raises(DiskFullError, match="no room for a record"):
        records.add(row | {"notes": "x" * 100_000})
    assert list(records.frame()["method"]) == ["wide"]


def test_what_is_named_twice_runs_once(run) -> None:
    assert len(run(["wide", "wide"], seeds=[1, 2, 1])) == 2


def test_a_reference_that_failed_its_checks_is_no_truth(
    gaussian_database, gaussian_methods, tmp_path, caplog
) -> None:
    database = tmp_path / "database"
    shutil.copytree(gaussian_database, database)
    (info,) = database.glob(f"reference_posteriors/draws/info/{GAUSSIAN}.info.json")
    checks = {"r_hat_below_1_01": False, "nchains_is_gte_4": True}
    info.write_text(json.dumps(json.loads(info.read_text()) | {"checks_made": checks}))
    with pytest.raises(UnreliableReferenceError, match=r"failed the checks r_hat_below"):
        compare(GAUSSIAN, ["wide"], 1, out=tmp_path / "out", database=database)
    assert not (tmp_path / "out").exists()
    assert GAUSSIAN not in cases_with_reference(database)
    assert "left out: its reference draws failed the checks r_hat_below_1_01" in caplog.text


@pytest.fixture
def own_database(gaussian_database: Path, tmp_path: Path) -> Path:
    database = tmp_path / "database"
    shutil.copytree(gaussian_database, database)
    return database


def test_without_reference_draws_nothing_is_fitted(
    own_database, gaussian_methods, tmp_path
) -> None:
    for draws in own_database.glob(f"reference_posteriors/draws/draws/{GAUSSIAN}.json.zip"):
        draws.unlink()
    with pytest.raises(UnreliableReferenceError, match=f"no reference draws.*generate {GAUSSIAN}"):
        compare(GAUSSIAN, ["wide"], 1, out=tmp_path / "out", database=own_database)
    assert not (tmp_path / "out").exists()


def test_a_case_that_has_changed_is_run_again(
    own_database, gaussian_methods, tmp_path, caplog
) -> None:
    def again(seeds: int, **options: float) -> pd.DataFrame:
        options = {"out": tmp_path / "out", "database": own_database, **options}
        return compare(GAUSSIAN, ["wide"], seeds, draws=2500, **options)

    first = again(2)
    assert again(2).equals(first)
    (data,) = own_database.glob("data/data/correlated_5.json.zip")
    content = read_zipped_json(data)
    data.write_bytes(zipped_json(dict(reversed(content.items())), "correlated_5.json"))
    assert again(2).equals(first) and "has changed" not in caplog.text  # the same data
    content["mu"][0] += 1.0
    data.write_bytes(zipped_json(content, "correlated_5.json"))
    assert again(2, budget=0.0).empty  # nothing old is handed back
    second = again(2)
    assert f"{GAUSSIAN} has changed since it was recorded" in caplog.text
    assert (second["mean_error"] > first["mean_error"] + 0.1).all()
    assert len(Records(tmp_path / "out" / "records.sqlite").all()) == 2


def test_a_record_without_a_digest_counts(own_database, gaussian_methods, tmp_path) -> None:
    frame = compare(GAUSSIAN, ["wide"], 1, out=tmp_path, draws=2500, database=own_database)
    records = Records(tmp_path / "records.sqlite")
    (old,) = records.all()
    del old["case_sha256"]
    records.add(old | {"elbo": 1.0})
    frame = compare(GAUSSIAN, ["wide"], 1, out=tmp_path, draws=2500, database=own_database)
    assert frame["elbo"][0] == 1.0


def test_unknown_method_names_the_near_ones(run) -> None:
    with pytest.raises(UnknownMethodError, match="shifted"):
        run(["shift"])


@pytest.mark.parametrize("changes", [{"draws": 100}, {"repetitions": 0}])
def test_too_few_draws_for_a_khat_are_refused(run, changes) -> None:
    with pytest.raises(ValueError, match="at least 200 draws"):
        run(["wide"], **changes)


def test_the_progress_callback_sees_every_run(run) -> None:
    seen = []
    run(["wide", "broken"], on_record=lambda r, done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_report_writes_tables_and_figures(run, tmp_path) -> None:
    frame = run(["wide", "equal", "broken"], seeds=2)
    paths = write(frame, tmp_path)
    assert {p.name for p in paths} == {
        "table.csv",
        "records.csv",
        "scores.png",
        f"{GAUSSIAN}-marginals.png",
        f"{GAUSSIAN}-loss.png",
    }
    assert all(p.stat().st_size > 200 for p in paths)


def test_a_case_that_changes_while_it_is_compared_is_a_failed_run(
    own_database, gaussian_methods, tmp_path, monkeypatch
) -> None:
    (data,) = own_database.glob("data/data/correlated_5.json.zip")
    wide = METHODS["wide"].run

    def changing(problem, draws, seed):
        content = read_zipped_json(data)
        content["mu"][0] += 1.0
        data.write_bytes(zipped_json(content, "correlated_5.json"))
        return wide(problem, draws, seed)

    monkeypatch.setitem(METHODS, "wide", Method("wide", "", "pymc", changing))
    options = {"out": tmp_path / "out", "database": own_database, "draws": 2500}
    first = compare(GAUSSIAN, ["wide"], 1, **options)
    assert first["status"][0] == "ok"  # of what was read before it changed
    _problem.cache_clear()  # as in another process, which begins with what is there by then
    failed = run_one(Run(GAUSSIAN, "wide", 2, Settings(2500, 5, str(own_database)),
                         str(first["case_sha256"][0])), tmp_path)  # fmt: skip
    assert failed["status"] == "failed" and "has changed since" in str(failed["reason"])


def test_what_a_port_is_made_of_counts(own_database, tmp_path, monkeypatch) -> None:
    before = load_case(GAUSSIAN, own_database).sha256
    ports = tmp_path / "ports"
    shutil.copytree(posteriordb_cases.case._PORTS, ports)
    monkeypatch.setattr(posteriordb_cases.case, "_PORTS", ports)
    assert load_case(GAUSSIAN, own_database).sha256 == before
    helper = ports / "_regression.py"
    helper.write_text(helper.read_text() + "# another\n")
    assert load_case(GAUSSIAN, own_database).sha256 != before
