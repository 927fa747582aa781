"""The table of reference draws says what info files say, refusals included."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.references import report, row_of, rows_of
from posteriordb_cases import EMBEDDED, load_case
from posteriordb_cases.writer import write_refusal

GAUSSIAN = "correlated_5-gaussian"


def test_what_was_made_and_what_was_refused_are_rows(tmp_path: Path, capsys) -> None:
    database = tmp_path / "posterior_database"
    shutil.copytree(EMBEDDED, database)
    case = load_case(GAUSSIAN, database)
    info = case.reference_info
    assert info is not None and case.reference_path is not None
    write_refusal(database, info | {"diagnostics": None, "refused": "given up after 5 s"})
    assert rows_of(database)[GAUSSIAN]["refused"] is None  # draws that are there stay
    case.reference_path.unlink()
    rows = rows_of(database)
    refused = rows.pop(GAUSSIAN)
    assert refused["refused"] == "given up after 5 s" and "rhat" not in refused
    assert refused["made_of"] == load_case(GAUSSIAN, database).made_of
    assert len(rows) >= 4 and all(
        row["rhat"] < 1.01 and not row["refused"] for row in rows.values()
    )
    report(rows | {GAUSSIAN: refused})
    said = capsys.readouterr().out
    assert "refused: given up after 5 s" in said
    assert f"{len(rows)} of {len(rows) + 1} admitted; R-hat at most 1.0" in said


def test_the_worst_of_all_values_is_stored() -> None:
    case = load_case(GAUSSIAN)
    info = case.reference_info
    assert info is not None
    row, found = row_of(info), info["diagnostics"]
    assert row["values"] == 5 and row["rhat"] == max(found["r_hat"])
    ess = found["effective_sample_size_bulk"] + found["effective_sample_size_tail"]
    assert row["ess"] == min(ess) and row["divergences"] == 0
