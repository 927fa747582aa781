"""docs/from_pm_sample.md and the example of docs/start.md are run: their Python blocks in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.needed import needs

DOCS = Path(__file__).resolve().parents[1] / "docs"


def blocks(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(?:python|{code-cell} ipython3)\n(.*?)^```", text, flags=re.M | re.S)


def run(page: str) -> dict:
    names: dict = {"__name__": page.replace(".", "_")}
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"docs/{page}, block {number}", "exec"), names)
    return names


@pytest.mark.filterwarnings(
    "ignore:The inplace keyword in DataFrame:DeprecationWarning",  # ArviZ 0.23 with pandas 3
)
def test_the_page_runs_and_says_the_truth(tmp_path, monkeypatch) -> None:
    needs("nutpie")
    monkeypatch.chdir(tmp_path)
    left = run("from_pm_sample.md")
    assert left["advice"].trusted and left["chains"]["posterior"].attrs["trusted"] == 1
    for name in ("slope", "spread", "level"):  # the answers of bridge.fit and of px.sample agree
        ours, theirs = left["idata"]["posterior"][name], left["chains"]["posterior"][name]
        over = ("chain", "draw")
        assert (abs(ours.mean(over) - theirs.mean(over)) < 0.2 * theirs.std(over)).all()
    assert left["idata"]["posterior_predictive"]["y"].shape == (4, 1000, 120)
    assert len(left["found"].checks) == 4  # ADVI is asked the same
    assert left["compared"].index[0] == "slope"


def test_the_example_of_the_start_page_runs() -> None:
    assert run("start.md")["idata"]["posterior"].attrs["verdict"].startswith("exact")


def test_the_page_is_in_the_table_of_contents() -> None:
    assert "from_pm_sample" in (DOCS / "index.md").read_text(encoding="utf-8").split()
