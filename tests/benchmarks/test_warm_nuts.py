"""The report on answers: how often a verdict is wrong by the errors of its row."""

from __future__ import annotations

import pytest

from benchmarks.record import kept
from benchmarks.speed.warm_nuts import RESULTS
from benchmarks.speed.warm_nuts_report import rates


def row(trusted: bool, mean: float, sd: float) -> dict[str, float | bool]:
    return {"trusted": trusted, "mean_error": mean, "sd_error": sd}


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (row(True, 0.19, 0.17), (0, 0)),
        (row(True, 0.21, 0.0), (1, 0)),
        (row(True, 0.0, 0.19), (1, 0)),  # a variance .62 of the true one
        (row(True, float("nan"), 0.0), (1, 0)),
        (row(False, 0.21, 0.3), (0, 0)),
        (row(False, 0.04, 0.04), (0, 1)),
        (row(False, 0.04, 0.06), (0, 0)),
    ],
)
def test_verdicts_are_held_against_errors(answer, counts) -> None:
    said = rates([answer, {"trusted": True, "no_truth": "made up"}, {"failed": "made up"}])
    assert said.startswith("answer, 1 runs beside reference draws")
    assert said.endswith("{} trusted and wrong, {} refused and right".format(*counts))


def test_what_is_stored_has_both_rates() -> None:
    made = kept(RESULTS / "answer.json", "runs")
    said = rates([numbers for key, numbers in made.items() if "/answer/" in key])
    assert "200 runs" in said and said.endswith("0 trusted and wrong, 0 refused and right")
