from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from bridge.comparison.records import Records
from bridge.errors import RecordsError


def record(**changes):
    base = {"case_name": "c", "method": "m", "seed": 1, "settings": "{}", "status": "ok"}
    return base | changes


def test_a_record_comes_back_as_it_was_put_in(tmp_path: Path) -> None:
    records = Records(tmp_path / "new" / "records.sqlite")
    records.add(record(khat=np.float64(0.25), draws=np.int64(7), reason=None, ok=np.bool_(True)))
    row = Records(records.path).frame().iloc[0]
    assert (row["khat"], row["draws"], row["reason"], row["ok"]) == (0.25, 7, None, True)


def test_what_is_not_finite_keeps_its_meaning(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.sqlite")
    records.add(record(khat=np.inf, elbo=-np.inf, kl=np.nan))
    row = records.frame().iloc[0]
    assert (row["khat"], row["elbo"], row["kl"]) == ("inf", "-inf", None)


def test_the_key_is_case_method_seed_settings(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.sqlite")
    records.add(record(status="failed"))
    records.add(record(status="ok"))
    records.add(record(seed=2, status="failed"))
    assert set(records.by_key()) == {("c", "m", 1, "{}"), ("c", "m", 2, "{}")}
    assert set(records.by_key(status="ok")) == {("c", "m", 1, "{}")}


def test_an_empty_database_has_no_records(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.sqlite")
    assert records.by_key() == {} and records.frame().empty


def test_a_record_that_cannot_be_written_leaves_the_others(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.sqlite")
    records.add(record())
    with pytest.raises(TypeError):
        records.add(record(seed=2, khat=object()))
    with pytest.raises(sqlite3.IntegrityError):
        with records._connection() as connection:
            connection.execute("INSERT INTO runs VALUES ('c', 'm', 3, '{}', NULL)")
    assert set(records.by_key()) == {("c", "m", 1, "{}")}


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    path.write_text("not a database, but long enough to be read as one" * 10)
    with pytest.raises(RecordsError, match="--out"):
        Records(path)
    assert path.read_text().startswith("not a database")


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordsError, match="cannot keep records"):
        Records(tmp_path / "file" / "records.sqlite")
