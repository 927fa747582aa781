"""Writing reference draws: round trip, same bytes, all or nothing."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from posteriordb_cases import write_reference_draws
from posteriordb_cases.draws import flatten, fold, read_draws


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_round_trip_keeps_shapes_and_eight_digits(tmp_path: Path, draws, info) -> None:
    draws["A"] = np.random.default_rng(0).normal(size=(4, 25, 3, 2))
    path = write_reference_draws(tmp_path, draws, info)
    found = read_draws(path)
    assert list(found) == list(draws)
    for name, values in draws.items():
        assert found[name].shape == values.shape
        np.testing.assert_allclose(found[name], values, rtol=5e-8)
        assert np.abs(found[name] / values - 1).max() > 1e-10  # digits were indeed cut


def test_digits_are_the_callers_choice(tmp_path: Path, draws, info) -> None:
    found = read_draws(write_reference_draws(tmp_path, draws, info, digits=17))
    np.testing.assert_array_equal(found["theta"], draws["theta"])


def test_info_is_written_beside_the_draws(tmp_path: Path, draws, info) -> None:
    path = write_reference_draws(tmp_path, draws, info)
    written = json.loads((path.parents[1] / "info" / f"{info['name']}.info.json").read_text())
    assert written == info


def test_same_draws_give_the_same_bytes(tmp_path: Path, draws, info) -> None:
    first = write_reference_draws(tmp_path / "a", draws, info)
    second = write_reference_draws(tmp_path / "b", draws, info)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        (entry,) = archive.infolist()
    assert entry.date_time == (1980, 1, 1, 0, 0, 0)  # whenever it was written


def test_files_are_readable_by_others_and_nothing_else_is_left(tmp_path, draws, info) -> None:
    path = write_reference_draws(tmp_path, draws, info)
    assert path.stat().st_mode & 0o044 == 0o044
    assert len(snapshot(tmp_path)) == 2


@pytest.mark.parametrize("failing_call", [1, 2])
def test_failure_while_moving_leaves_no_temporary_file(
    tmp_path: Path, draws, info, monkeypatch: pytest.MonkeyPatch, failing_call: int
) -> None:
    write_reference_draws(tmp_path, draws, info)
    before = snapshot(tmp_path)
    real_fsync, calls = os.fsync, []

    def full_disk(handle: int) -> None:
        calls.append(handle)
        if len(calls) == failing_call:
            raise OSError("No space left on device")
        real_fsync(handle)

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_reference_draws(tmp_path, {"mu": draws["mu"]}, info)
    assert snapshot(tmp_path) == before


def test_bad_draws_and_info_are_refused_before_anything_is_written(tmp_path, draws, info) -> None:
    broken = draws | {"mu": np.full((4, 25), np.nan)}
    with pytest.raises(ValueError, match="100 draws of mu are not finite"):
        write_reference_draws(tmp_path, broken, info)
    with pytest.raises(ValueError, match="info lacks diagnostics"):
        write_reference_draws(tmp_path, draws, {k: info[k] for k in info if k != "diagnostics"})
    assert snapshot(tmp_path) == {}


def test_flat_names_are_stans(draws) -> None:
    flat = flatten({"mu": draws["mu"], "A": np.arange(24.0).reshape(2, 2, 3, 2)})
    assert list(flat) == ["mu", "A[1,1]", "A[1,2]", "A[2,1]", "A[2,2]", "A[3,1]", "A[3,2]"]
    np.testing.assert_array_equal(flat["A[3,1]"], [[4, 10], [16, 22]])


def test_fold_does_not_depend_on_the_order_of_elements(draws) -> None:
    flat = flatten({"theta": draws["theta"]})
    backwards = dict(reversed(flat.items()))
    np.testing.assert_array_equal(fold(backwards)["theta"], draws["theta"])
