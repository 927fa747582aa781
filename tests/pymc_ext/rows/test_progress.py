"""What is kept of a pass comes back, and only to what it belongs to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pymc_ext.rows.progress import Progress


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    Progress(path, "a").write({"rows": np.array(3)}, now=True)
    assert int(Progress(path, "a").found["rows"]) == 3


def test_writes_wait_for_seconds_to_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.npz"
    progress = Progress(path, "a")
    progress.write({"rows": np.array(3)})
    assert not path.exists()
    monkeypatch.setattr("pymc_ext.rows.progress.SECONDS", 0.0)
    progress.write({"rows": np.array(4)})
    assert int(Progress(path, "a").found["rows"]) == 4


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    Progress(path, "a").write({"rows": np.array(3)}, now=True)
    with pytest.raises(ValueError, match="is of other rows, another model or other options"):
        Progress(path, "b")
    path.write_bytes(b"half a file")
    with pytest.raises(ValueError, match="is no checkpoint"):
        Progress(path, "a")
    with pytest.raises(FileNotFoundError, match="create the folder"):
        Progress(tmp_path / "not" / "p.npz", "a")


def test_without_a_path_nothing_is_kept() -> None:
    progress = Progress(None, "a")
    progress.write({"rows": np.array(3)}, now=True)
    assert not progress.found
