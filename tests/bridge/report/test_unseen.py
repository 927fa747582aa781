"""The verdict in tables: a column, shares, and what k̂ did not see; old records have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from bridge.comparison.compare import compare
from bridge.comparison.records import Records
from bridge.measures import scores
from bridge.measures.limits import MEAN_WRONG, RATIO_WRONG
from bridge.report.html_report import html_report
from bridge.report.stored import read_records
from bridge.report.summary import summary
from bridge.report.terminal import rich_tables
from bridge.report.unseen import REFUSED, WRONG, unseen
from bridge.zoo.judge import Judged
from tests.bridge.conftest import GAUSSIAN
from tests.bridge.report.test_html_report import add
from tests.needed import needs

MISSED = "refused: mass is missed: a mode at theta = {}, worth at least {} times the mass"
RIGHT = {"mean_error_psis": 0.05, "sd_ratio_psis": 0.97}
OFF = {"mean_error_psis": 0.25, "sd_ratio_psis": 1.05}
GOOD = {"khat": 0.2, "trusted": True, "verdict": "good enough: k̂ = 0.20 < 0.7"}


def good(folder: Path, seed: int, **record: object) -> None:
    add(folder, seed=seed, **(GOOD | RIGHT | record))


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Two posteriors: of one k̂ sees all, of the other nothing; a method that is wrong; NUTS."""
    for seed in (1, 2, 3):
        good(tmp_path, seed)
        refused = {"trusted": False, "verdict": MISSED.format(7.0 + seed, 0.4)}
        good(tmp_path, seed, case_name="b", **({} if seed == 3 else refused))
        good(tmp_path, seed, method="bernstein", **(OFF if seed == 1 else {}))
        add(tmp_path, seed=seed, case_name="b", method="bernstein", khat=0.9, trusted=False)
    failed = {"status": "failed", "reason": "E: no", "trusted": False}
    add(tmp_path, method="mixed-eig", **failed)
    add(tmp_path, method="mixed-eig", seed=2, khat=0.1, trusted=False, khat_exact=False,
        verdict="refused: the sd of x is not known: k̂ of its own = 0.80", **RIGHT)  # fmt: skip
    nuts = {"rhat": 1.0, "trusted": True, "verdict": "trusted: R̂ = 1.000"}
    add(tmp_path, method="stan-nuts", mean_error=0.01, sd_ratio=0.7, **nuts)
    return tmp_path


def printed(frame: pd.DataFrame) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as capture:
        for table in rich_tables(frame):
            console.print(table)
    return [line.split() for line in capture.get().splitlines()]


def columns(frame: pd.DataFrame, methods: list[str]) -> list[str]:
    """What the first column says of some methods."""
    return [line[1] for line in printed(frame) if line and line[0] in methods]


def test_trust_is_yes_no_or_the_share_of_seeds(judged: Path, monkeypatch) -> None:
    monkeypatch.setattr("bridge.report.terminal._title", lambda frame, case: case)
    frame = read_records(judged)
    table = summary(frame).set_index(["case_name", "method"])["trusted"]
    assert table["a", "laplace"] == 1 and table["b", "laplace"] == pytest.approx(1 / 3)
    assert table["a", "mixed-eig"] == 0  # of a failed run and one that is not
    assert columns(frame, ["laplace"]) == ["yes", "33%"]
    assert ["bernstein", "no", "0.90"] in [line[:3] for line in printed(frame)]
    assert any("trusted" in line and line.index("trusted") == 1 for line in printed(frame))


def test_a_failed_run_counts_as_not_trusted(tmp_path: Path) -> None:
    add(tmp_path, status="failed", reason="E: no", trusted=False)
    good(tmp_path, 2)
    frame = read_records(tmp_path)
    assert summary(frame)["trusted"].tolist() == [0.5]
    assert scores.shares(frame).loc["laplace", "trusted"] == 0.5


def test_records_without_a_verdict_count_neither_way(judged: Path) -> None:
    before = scores.shares(read_records(judged)).loc["laplace"]
    add(judged, case_name="c", khat=0.2)
    after = scores.shares(read_records(judged))
    assert after.loc["laplace", "trusted"] == before["trusted"]
    assert after.loc["laplace", "khat_good"] == 1 and after.loc["bernstein", "trusted"] == 1 / 3


def test_shares_of_trust_and_of_false_trust(judged: Path) -> None:
    table = scores.shares(read_records(judged))[["trusted", "falsely_trusted"]]
    assert table.loc["laplace"].tolist() == pytest.approx([2 / 3, 0])
    assert table.loc["bernstein"].tolist() == pytest.approx([1 / 2, 1 / 6])
    assert table.loc["mixed-eig"].tolist() == [0, 0]  # the one it was not tried on counts
    best = scores.best_methods(read_records(judged))["method"]
    assert best.to_dict() == {"a": "laplace", "b": "laplace"}
    assert table.loc[scores.BEST].tolist() == pytest.approx([2 / 3, 0])


@pytest.mark.parametrize("mean", [0.0, 0.19, 0.21, np.nan])
@pytest.mark.parametrize("ratio", [0.0, 0.79, 0.81, 1.24, 1.26])
def test_false_trust_is_what_the_zoo_calls_it(mean: float, ratio: float) -> None:
    record = {"trusted": True, "mean_error_psis": mean, "sd_ratio_psis": ratio}
    (found,) = scores.falsely_trusted(pd.DataFrame([record]))
    if np.isnan(mean):
        assert np.isnan(found)
    else:
        assert found == Judged(mean, ratio, 0.0).wrong
        assert found == (mean > MEAN_WRONG or not 1 / RATIO_WRONG <= ratio <= RATIO_WRONG)
    assert scores.falsely_trusted(pd.DataFrame([record | {"trusted": False}])).tolist() == [0.0]


def test_what_khat_did_not_see_is_told_with_the_reason(judged: Path) -> None:
    table = unseen(read_records(judged))
    refused = table[table["found"] == REFUSED].set_index(["case_name", "method"])
    assert set(refused.index) == {("b", "laplace"), ("a", "mixed-eig")}
    row = refused.loc[("b", "laplace")]
    assert row["seeds"] == "1, 2" and row["why"] == MISSED.format(8.0, 0.4) and row["khat"] == 0.2
    assert refused.loc[("a", "mixed-eig"), "why"].startswith("refused: the sd of x")
    wrong = table[table["found"] == WRONG].set_index("method")
    assert wrong["seeds"].to_dict() == {"bernstein": "1", "stan-nuts": "1"}
    assert wrong.loc["bernstein", "mean_error"] == 0.25
    assert wrong.loc["stan-nuts", "sd_ratio"] == 0.7 and np.isnan(wrong.loc["stan-nuts", "khat"])


def test_an_exact_fit_that_misses_a_mode_is_among_them(tmp_path: Path) -> None:
    add(tmp_path, khat_exact=True, trusted=False, verdict=MISSED.format(8, 0.4))
    (row,) = unseen(read_records(tmp_path)).to_dict("records")
    assert row["khat"] == 0 and row["found"] == REFUSED and np.isnan(row["sd_ratio"])


def test_the_page_has_the_column_and_the_section(judged: Path) -> None:
    _libraries()
    page = html_report(judged)[0].read_text()
    section = page[page.index('<h2 id="unseen">What k̂ did not see</h2>') :]
    section = section[: section.index("<h2", 1)]
    first, second = section.split("<h3>Trusted, but wrong</h3>")
    assert MISSED.format(8.0, 0.4) in first and "stan-nuts" not in first
    assert "stan-nuts" in second and "mass is missed" not in second
    assert "a mean is more than 0.2 posterior sds off or an sd not within 0.8 to 1.25" in second
    case = page[page.index('<details id="b"') :]
    assert "<th>trusted</th>" in case and "<td>33%</td>" in case and "<td>no</td>" in case
    assert '<a href="#unseen">' in page and "best k̂ 0.20, laplace</span>" in case
    assert len(pd.read_csv(judged / "unseen.csv")) == 4
    good(judged, 3, case_name="b", trusted=False)
    again = html_report(judged)[0].read_text()
    assert '<span class="badge bad">best k̂ 0.20, laplace, not trusted</span>' in again


OLD = ["trusted", "verdict", "missed", "search_gradients", "sd_ratio", "sd_ratio_psis"]


def test_records_of_before_have_a_dash(
    gaussian_database: Path, gaussian_methods: list[str], tmp_path: Path
) -> None:
    """A sweep's folder of a version without verdicts: it is read, and it can go on."""
    arguments = {"out": tmp_path, "database": gaussian_database, "draws": 2000}
    methods = ["shifted", "wide", "broken"]
    records = Records(tmp_path / "records.sqlite")
    for record in compare(GAUSSIAN, methods, 2, **arguments).to_dict("records"):
        assert "trusted" in record and set(OLD) & set(record)
        records.add({name: value for name, value in record.items() if name not in OLD})
    frame = read_records(tmp_path)
    assert not set(OLD) & set(frame)
    assert columns(frame, methods[:2]) == ["–", "–"]
    assert scores.shares(frame)[["trusted", "falsely_trusted"]].isna().all(axis=None)
    assert unseen(frame).empty
    _libraries()
    page = html_report(tmp_path)[0].read_text()
    assert "These records are of a version that gave no verdict." in page
    shares = page[page.index('<h2 id="shares">') : page.index('<h2 id="unseen">')]
    assert "<th>falsely trusted</th>" in shares and shares.count("<td>–</td>") >= 6
    mixed = compare(GAUSSIAN, methods, 3, **arguments)
    assert mixed["trusted"].notna().tolist() == [False, False, True] * 3
    assert columns(mixed, ["wide"]) == ["yes"]
    assert scores.shares(mixed).loc["wide", "trusted"] == 1


def _libraries() -> None:
    for module in ("plotly", "itables"):
        needs(module)
