"""Rows of Parquet files: what comes is what was written, and what is wrong is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pymc_ext as px
from tests.needed import needs

pa = needs("pyarrow")
pq = needs("pyarrow.parquet")

GROUP, COLUMNS = 100, {"X": ["a", "b"], "y": "label"}


def table(rows: int, begin: int = 0) -> pa.Table:
    a = np.arange(begin, begin + rows, dtype=float)
    return pa.table({
        "a": a, "b": (a + 0.5).astype("float32"), "label": (a % 3 == 0), "city": ["x"] * rows,
    })  # fmt: skip


def written(path: Path, rows: int = 250, **options: object) -> Path:
    pq.write_table(table(rows), path, row_group_size=GROUP, **options)
    return path


def test_blocks_hold_every_row_once_in_order(tmp_path: Path) -> None:
    rows = px.ParquetRows(written(tmp_path / "r.parquet"), COLUMNS, block=30)
    blocks = list(rows.blocks())
    assert len(rows) == 250 and rows.shapes == {"X": (2,), "y": ()}
    assert max(len(block["y"]) for block in blocks) == 30
    a = np.arange(250.0)
    np.testing.assert_array_equal(np.concatenate([b["X"] for b in blocks]), np.c_[a, a + 0.5])
    np.testing.assert_array_equal(np.concatenate([b["y"] for b in blocks]), a % 3 == 0)


@pytest.mark.parametrize("begin", [0, 7, 100, 130, 249, 250])
def test_blocks_begin_at_any_row(tmp_path: Path, begin: int) -> None:
    rows = px.ParquetRows(written(tmp_path / "r.parquet"), {"a": "a"}, block=30)
    found = [x for block in rows.blocks(begin) for x in block["a"]]
    np.testing.assert_array_equal(found, np.arange(begin, 250))


def test_a_folder_is_its_files_by_name(tmp_path: Path) -> None:
    for k in (1, 0):
        pq.write_table(table(120, 120 * k), tmp_path / f"part-{k}.parquet", row_group_size=GROUP)
    rows = px.ParquetRows(tmp_path, {"a": "a"})
    assert len(rows) == 240
    found = [x for block in rows.blocks(110) for x in block["a"]]
    np.testing.assert_array_equal(found, np.arange(110.0, 240.0))


def test_a_sample_is_from_all_over(tmp_path: Path) -> None:
    rows = px.ParquetRows(written(tmp_path / "r.parquet", 1000), {"a": "a"}, block=7)
    found = rows.sample(50)["a"]
    np.testing.assert_array_equal(found, np.arange(1000).reshape(10, 100)[:, :5].ravel())
    assert len(rows.sample(1000)["a"]) == 1000


def test_the_fingerprint_follows_files_and_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet")
    first = px.ParquetRows(path, COLUMNS).fingerprint
    assert px.ParquetRows(path, COLUMNS).fingerprint == first
    assert px.ParquetRows(path, {"X": ["b", "a"], "y": "label"}).fingerprint != first
    written(path, 251)
    assert px.ParquetRows(path, COLUMNS).fingerprint != first


def test_a_missing_column_is_named_with_one_like_it(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet")
    with pytest.raises(ValueError, match=r"has no columns \['labels'\]; it has .*'label'"):
        px.ParquetRows(path, {"y": "labels"})


@pytest.mark.parametrize(
    ("columns", "words"),
    [({"y": "city"}, r"column 'city' of .* holds string: expected numbers"), ({}, "at least one")],
)
def test_columns_that_do_not_serve_are_refused(tmp_path: Path, columns: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        px.ParquetRows(written(tmp_path / "r.parquet"), columns)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_number_that_is_missing_or_not_finite_ends_the_pass(
    tmp_path: Path, value: float | None
) -> None:
    values = [1.0] * 150
    values[120] = value
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"a": pa.array(values, pa.float64())}), path, row_group_size=GROUP)
    blocks = px.ParquetRows(path, {"a": "a"}).blocks()
    assert len(next(blocks)["a"]) == GROUP
    with pytest.raises(ValueError, match=r"column 'a' of .* has 1 numbers .* row group 1: drop"):
        next(blocks)


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet", write_page_checksum=True)
    place = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    with path.open("r+b") as file:
        file.seek(place + 60)
        file.write(b"\xff" * 40)
    blocks = px.ParquetRows(path, {"a": "a"}).blocks()
    next(blocks)
    with pytest.raises(ValueError, match=r"row group 1 of .* cannot be read .* damaged"):
        next(blocks)


def _nothing(path: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (_nothing, FileNotFoundError, "there is no file"),
        (lambda p: p.write_bytes(b"no parquet at all"), ValueError, "no readable Parquet file"),
        (Path.mkdir, FileNotFoundError, r"no \*.parquet in the folder"),
        (lambda p: pq.write_table(table(0), p), ValueError, "has no rows"),
    ],
)
def test_what_is_no_file_of_rows_is_refused(
    tmp_path: Path, make: Callable[[Path], object], error: type[Exception], words: str
) -> None:
    path = tmp_path / "r.parquet"
    make(path)
    with pytest.raises(error, match=words):
        px.ParquetRows(path, COLUMNS)


@pytest.mark.parametrize("block", [0, 1.5, True])
def test_a_block_is_a_number_of_rows(tmp_path: Path, block: object) -> None:
    with pytest.raises(ValueError, match="block must be an integer >= 1"):
        px.ParquetRows(written(tmp_path / "r.parquet"), COLUMNS, block=block)
