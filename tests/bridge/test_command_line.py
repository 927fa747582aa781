from __future__ import annotations

from pathlib import Path

import pytest

from bridge.__main__ import main
from tests.bridge.conftest import GAUSSIAN


def compare(database: Path, out: Path, *more: str) -> int:
    where = ["--database", str(database), "--out", str(out), "--jobs", "1"]
    return main(["compare", GAUSSIAN, *where, "--draws", "2000", "--seeds", "1", *more])


def test_compare_prints_tables_and_writes_files(
    gaussian_database, gaussian_methods, tmp_path, capsys
) -> None:
    assert compare(gaussian_database, tmp_path) == 0
    printed = capsys.readouterr().out
    for text in (GAUSSIAN, "exact 7.2500", "wide", "failed: FloatingPointError: no fit on purpose"):
        assert text in printed
    assert (tmp_path / "table.csv").read_text().count("\n") == 1 + len(gaussian_methods)


def test_compare_fails_if_every_run_does(gaussian_database, gaussian_methods, tmp_path) -> None:
    assert compare(gaussian_database, tmp_path, "--methods", "broken") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare", "correlated_6-gaussian"], "correlated_5-gaussian"),
        (["compare", "--methods", "stan-nut"], "stan-nuts"),
        (["compare", "--database", "/nowhere"], "/nowhere"),
        (["generate", "cauchy_7"], "cauchy_6-cauchy_location"),
        (["compare", "--draws", "10"], "at least 200 draws"),
    ],
)
def test_a_wrong_request_is_answered_in_a_sentence(arguments, expected, tmp_path, capsys) -> None:
    if arguments[0] == "compare":
        arguments = [*arguments, "--out", str(tmp_path)]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert expected in error and "Traceback" not in error


def test_list_names_cases_and_methods(capsys) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for text in ("eight_schools-eight_schools_noncentered", "-31.3113", "stan-pathfinder"):
        assert text in printed
