"""A metric is one line of one table: it is then in the terminal, on the page and in the CSV."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from bridge.comparison.compare import compare
from bridge.comparison.records import Records
from bridge.report import metrics
from bridge.report.html_report import html_report
from bridge.report.metrics import METRICS, Metric, Shown
from bridge.report.terminal import rich_tables
from tests.bridge.conftest import GAUSSIAN
from tests.needed import needs


@pytest.fixture
def frame(gaussian_database: Path, gaussian_methods: list[str], tmp_path: Path) -> pd.DataFrame:
    """A comparison whose records have a column that no table knows."""
    found = compare(
        GAUSSIAN, ["wide"], 1, out=tmp_path, database=gaussian_database, draws=2000
    ).assign(novelty=12.3456, novelty_reliable=False)
    Records(tmp_path / "records.sqlite").add(dict(found.iloc[0]))
    return found


def printed(frame: pd.DataFrame) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for table in rich_tables(frame):
            console.print(table)
    return capture.get()


def test_a_new_metric_is_one_line(frame, tmp_path, monkeypatch) -> None:
    for module in ("plotly", "itables"):
        needs(module)
    assert "newness" not in printed(frame)
    everywhere = Shown.TERMINAL | Shown.HTML | Shown.BEST
    line = Metric("novelty", "newness", 2, "how new it is (none)", everywhere)
    monkeypatch.setattr(metrics, "METRICS", (*METRICS, line))
    text = printed(frame)
    assert "newness" in text and "12.35?" in text
    page = html_report(tmp_path)[0].read_text()
    case = page[page.index(f'<details id="{GAUSSIAN}"') :]
    assert "<th>newness</th>" in case and "<td>12.35</td>" in case
    assert "newness: how new it is (none)" in page
    assert len(re.findall(r"<th[^>]*>newness</th>", page)) >= 3  # best, all numbers, the posterior
    assert pd.read_csv(tmp_path / "table.csv")["novelty"][0] == 12.3456


def test_places_are_kept_apart(frame, monkeypatch) -> None:
    line = Metric("novelty", "newness", 2, "how new it is (none)", Shown.HTML)
    monkeypatch.setattr(metrics, "METRICS", (*METRICS, line))
    assert "newness" not in printed(frame)


def test_columns_and_headings_of_a_place_are_unique() -> None:
    assert len({metric.column for metric in METRICS}) == len(METRICS)
    for place in Shown:
        headings = [metric.heading for metric in metrics.shown_in(place)]
        assert len(set(headings)) == len(headings) > 0
