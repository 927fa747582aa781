"""The alarm of each night: what counts as worse, and what is compared at all."""

import json
import sys

import pandas as pd
import pytest

from benchmarks import nightly
from benchmarks.nightly import alarms, summary

BEFORE = {
    "a": {
        "khat": 0.3,
        "gap": 0.02,
        "gradients": 1000.0,
        "cpu_seconds": 10.0,
        "trusted": 1.0,
        "failed": 0.0,
    },
    "b": {"gradients": 500.0, "cpu_seconds": 1.0, "trusted": 0.9},
}


def changed(**changes):
    return {**BEFORE, "a": BEFORE["a"] | changes}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"khat": 0.41}, "a: khat 0.3 -> 0.41"),
        ({"gap": 0.08}, "a: gap 0.02 -> 0.08"),
        ({"gradients": 1201.0}, "a: gradients 1e+03 -> 1.2e+03"),
        ({"cpu_seconds": 12.1}, "a: cpu_seconds 10 -> 12.1"),
        ({"trusted": 0.89}, "a: trusted 1 -> 0.89"),
        ({"failed": 0.05}, "a: failed 0 -> 0.05"),
    ],
)
def test_what_got_worse_is_told(changes, line) -> None:
    assert alarms(changed(**changes), BEFORE, same_machine=True) == [line]


def test_small_changes_and_better_numbers_are_not() -> None:
    small = {"khat": 0.39, "gap": 0.06, "gradients": 1190.0, "cpu_seconds": 11.9, "trusted": 0.91}
    better = {"khat": -1.0, "gap": -1.0, "gradients": 1.0, "cpu_seconds": 0.1, "trusted": 1.0}
    assert alarms(changed(**small), BEFORE, True) == alarms(changed(**better), BEFORE, True) == []


def test_times_of_another_machine_are_not_compared() -> None:
    assert alarms(changed(cpu_seconds=99.0), BEFORE, same_machine=False) == []


def test_what_is_gone_is_told() -> None:
    assert alarms({"a": BEFORE["a"]}, BEFORE, True)[0] == "b: gradients is gone, was 500"


def test_a_baseline_is_asked_for_before_anything_is_run(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(nightly, "BASELINE", tmp_path / "none.json")
    monkeypatch.setattr(nightly, "measured", lambda: pytest.fail("it runs"))
    monkeypatch.setattr(sys, "argv", ["nightly"])
    with pytest.raises(SystemExit):
        nightly.main()
    assert "make one with --save" in capsys.readouterr().err


def test_the_stored_baseline_is_as_good_as_itself() -> None:
    stored = json.loads(nightly.BASELINE.read_text(encoding="utf-8"))["results"]
    assert set(stored) == set(nightly.METHODS) and alarms(stored, stored, True) == []


def test_numbers_of_a_method_are_medians_over_its_runs() -> None:
    frame = pd.DataFrame({
        "case_name": ["c", "c", "d"], "method": ["m"] * 3, "khat": [0.1, "inf", 0.3],
        "elbo": [-1.1, -1.3, None], "gradient_evaluations": [10, 20, 30],
        "cpu_seconds": [1.0, 2.0, 3.0], "trusted": [True, True, False],
        "status": ["ok", "ok", "failed"],
    })  # fmt: skip
    (found,) = summary(frame, {"c": {"log_evidence": -1.0}, "d": {}}).values()
    assert found["gap"] == pytest.approx(0.2) and found["cpu_seconds"] == 6
    assert found["khat"] == 0.3 and found["gradients"] == 20
    assert found["trusted"] == pytest.approx(2 / 3) and found["failed"] == pytest.approx(1 / 3)
