"""A classifier of rows in a file: the posterior of all rows, after a kill too."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pymc_ext as px
from tests.needed import needs
from tests.tolerances import EXACT

pa = needs("pyarrow")
pq = needs("pyarrow.parquet")

ROOT = Path(__file__).parents[3]
CHILD = """
import os, signal, sys
import pymc_ext as px
from pymc_ext.rows import progress
progress.SECONDS = 0.0

class Killed(px.ParquetRows):
    def blocks(self, begin=0):
        for k, block in enumerate(super().blocks(begin)):
            if k == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            yield block

rows = Killed(sys.argv[1], {"X": ["a", "b"], "y": "y"}, block=128)
px.MatchedClassifier().fit_rows(rows, checkpoint=sys.argv[2])
"""


def data(classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 2))
    return X, np.argmax(
        X @ rng.normal(size=(2, classes)) + rng.gumbel(size=(2000, classes)), axis=1
    )


def written(path: Path, X: np.ndarray, y: np.ndarray) -> px.ParquetRows:
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), path, row_group_size=500)
    return px.ParquetRows(path, {"X": ["a", "b"], "y": "y"}, block=128)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("alpha", [0.2, "elbo"])
def test_one_pass_gives_the_posterior_of_all_rows(tmp_path: Path, classes: int, alpha) -> None:
    X, y = data(classes)
    ours = px.MatchedClassifier(alpha=alpha).fit_rows(written(tmp_path / "r.parquet", X, y))
    all_rows = px.MatchedClassifier(alpha=alpha).fit(X, y)
    assert ours.alpha_ == pytest.approx(all_rows.alpha_, rel=1e-6)
    np.testing.assert_allclose(ours.coef_, all_rows.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X[:9]), all_rows.predict_proba(X[:9]), rtol=1e-6)


def test_a_pass_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data()
    rows, kept = written(tmp_path / "r.parquet", X, y), tmp_path / "fit.npz"
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(rows.paths[0]), str(kept)]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    begins: list[int] = []
    blocks = px.ParquetRows.blocks
    monkeypatch.setattr(
        px.ParquetRows, "blocks", lambda self, begin=0: begins.append(begin) or blocks(self, begin)
    )
    ours = px.MatchedClassifier().fit_rows(rows, checkpoint=kept)
    assert begins == [500]  # four blocks, a row group, had been counted
    assert ours.state_.n_seen == len(X)
    np.testing.assert_allclose(ours.coef_, px.MatchedClassifier().fit(X, y).coef_, rtol=EXACT)


def test_names_and_labels_are_checked(tmp_path: Path) -> None:
    X, y = data(3)
    rows = written(tmp_path / "r.parquet", X, y)
    with pytest.raises(ValueError, match=r"rows must have X='x' of shape"):
        px.MatchedClassifier().fit_rows(rows, X="x")
    with pytest.raises(ValueError, match=r"labels \[2.0\] that are not in classes"):
        px.MatchedClassifier().fit_rows(rows, classes=[0.0, 1.0])
    kept = tmp_path / "fit.npz"
    px.MatchedClassifier().fit_rows(rows, checkpoint=kept)
    with pytest.raises(ValueError, match="is of other rows"):
        px.MatchedClassifier(alpha=0.3).fit_rows(rows, checkpoint=kept)
