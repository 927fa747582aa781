"""The sweep of record resumes, says how long it takes, and gives README its table."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import record, sweep_record
from benchmarks.sweep_record import RESULTS, hours_of, main, markdown, methods_of, store, stored

README = Path(__file__).parents[2] / "README.md"


def row(case, method, seed=1, **more):
    return {
        "case_name": case, "method": method, "seed": seed, "status": "ok", "khat": 0.3,
        "khat_exact": False, "trusted": True, "mean_error": 0.01, "sd_ratio": 1.02,
        "mean_error_psis": 0.01, "sd_ratio_psis": 1.02, "rhat": None, "cpu_seconds": 2.0,
        "gradient_evaluations": 100.0, **more,
    }  # fmt: skip


def test_methods_are_judged_over_posteriors_and_runs():
    frame = pd.DataFrame(
        [
            row("a", "laplace"),
            row("a", "laplace", 2, khat=0.9, trusted=False),
            row("a", "laplace", 3, khat=0.2, sd_ratio_psis=1.5),  # trusted, and wrong
            row("b", "laplace", khat=None, trusted=None, mean_error_psis=None, mean_error=None,
                sd_ratio=None, sd_ratio_psis=None, status="failed", cpu_seconds=4.0),
            row("a", "stan-nuts", rhat=1.0, khat=None, mean_error_psis=None, sd_ratio_psis=None),
        ]
    )  # fmt: skip
    table = methods_of(frame)
    assert list(table.index) == ["stan-nuts", "laplace"]
    laplace = table.loc["laplace"]
    assert laplace["khat_usable"] == 0.5
    assert laplace["small_errors"] == 0.5
    assert laplace["trusted"] == 2 / 4
    assert laplace["falsely_trusted"] == 1 / 3  # a failed run was not judged
    assert laplace["failed"] == 1
    assert laplace["cpu_seconds"] == 3.0
    assert "| `stan-nuts` | – | 100% | 100% | 0% | 0 | 2 | 100 |" in markdown(table)


def test_how_long_it_takes_is_told_by_the_record_before():
    before = pd.DataFrame([row("a", "laplace", cpu_seconds=3600.0), row("a", "fast")])
    missing = pd.DataFrame({"case_name": ["a", "new"], "method": ["laplace", "laplace"]})
    assert hours_of(missing, before, jobs=2) == pytest.approx(1.0)


def test_a_second_call_runs_nothing_and_keeps_the_table(tmp_path, capsys):
    command = [
        "--methods", "batch-match", "laplace", "--seeds", "1", "--jobs", "1",
        "--out", str(tmp_path / "runs"), "--results", str(tmp_path / "kept"),
    ]  # fmt: skip
    main(command)
    first = capsys.readouterr().out
    assert first.startswith("14 runs are missing\n")
    frame = stored(tmp_path / "kept")
    assert frame is not None
    assert (frame["trusted"] & (frame["case_name"] == "correlated_5-gaussian")).any()
    main(command)
    second = capsys.readouterr().out
    assert second == first.replace("14", "0", 1)
    main(["--table", "--results", str(tmp_path / "kept")])
    assert capsys.readouterr().out == first.split("\n", 1)[1]


def test_methods_that_are_not_run_again_stay_with_their_date(tmp_path):
    store(pd.DataFrame([row("a", "laplace"), row("a", "stan-nuts")]), tmp_path)
    path = tmp_path / "environment.json"
    path.write_text(path.read_text().replace(record.environment()["date"], "2026-01-02"))
    store(pd.DataFrame([row("a", "laplace", khat=0.1), row("a", "nutpie")]), tmp_path)
    frame = stored(tmp_path)
    assert frame is not None
    assert sorted(frame["method"]) == ["laplace", "nutpie", "stan-nuts"]
    assert frame.set_index("method")["khat"]["laplace"] == 0.1
    dates = json.loads(path.read_text())["results"]["dates"]
    assert dates["stan-nuts"] == "2026-01-02" < dates["nutpie"] == dates["laplace"]


def test_readme_has_the_table_of_the_record():
    kept = stored(RESULTS)
    assert kept is not None
    assert markdown(methods_of(kept)) in README.read_text(encoding="utf-8")
    assert set(sweep_record.METHOD_NAMES) <= set(kept["method"])
