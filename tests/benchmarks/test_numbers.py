"""The page of the papers' numbers: it is made from what is stored, by a clone alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.papers import numbers
from benchmarks.papers import numbers_common as common

DOI_OR_ARXIV = re.compile(r"\]\(https://(doi\.org/10\.\d+/\S+|arxiv\.org/abs/\d{4}\.\d{5})\)")


@pytest.fixture(scope="module")
def papers() -> list[common.Paper]:
    return [section.paper() for section in numbers.SECTIONS]


def test_the_page_is_made_from_the_results() -> None:
    assert numbers.PAGE.read_text(encoding="utf-8") == numbers.page()


def test_the_page_is_in_the_table_of_contents() -> None:
    index = numbers.PAGE.with_name("index.md").read_text(encoding="utf-8")
    assert numbers.PAGE.stem in index.split("```{toctree}")[1].split("```")[0].split()


def test_every_paper_is_cited_and_its_items_have_headings_of_their_own(papers) -> None:
    assert len(papers) == 5
    for paper in papers:
        titles = [item.title for item in paper.items]
        assert DOI_OR_ARXIV.search(paper.citation) and len(set(titles)) == len(titles)
        assert all(re.match(r"(Table|Figure)s? [IVS\d]", title) for title in titles)


def test_every_command_is_a_benchmark_and_every_figure_is_there(papers) -> None:
    folder = Path(common.__file__).parent
    for item in (item for paper in papers for item in paper.items):
        assert (folder / item.command.split()[0]).with_suffix(".py").is_file()
        assert all((common.RESULTS / figure).is_file() for figure in item.figures)


def test_rows_have_a_cell_for_every_head(papers) -> None:
    for item in (item for paper in papers for item in paper.items):
        assert len({line.count("|") for line in item.table.splitlines()}) == 1


def test_no_line_of_prose_begins_a_list_by_chance(papers) -> None:
    notes = sum(len(item.notes) for paper in papers for item in paper.items)
    lines = numbers.page().removeprefix(numbers.HEAD).splitlines()
    assert sum(line.startswith("- ") for line in lines) == notes
    assert not [line for line in lines if re.match(r"(  [-+*>]|[+*>]|(  )?\d+[.)]) ", line)]


def test_nothing_outside_the_clone_is_read(monkeypatch) -> None:
    read = Path.read_text

    def only_ours(path: Path, *arguments, **options) -> str:
        assert numbers.PAGE.parents[1] in path.resolve().parents and "shared" not in path.parts
        return read(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", only_ours)
    assert numbers.page()


def test_a_missing_result_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no .*gp_viper\.json: get it back by git"):
        common.results("gp_viper.json")


def test_cells() -> None:
    assert common.pair(0.3171, None) == "0.317 / –"
    assert common.number(-12.3, 2) == "-12.30" and common.number(None) == "–"
    assert common.spread([3.0, 1.0, 2.0]) == "2.00 (1.00 to 3.00)"
    assert common.table(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert common.grouped({"x/y/0": {"v": 1}, "x/y/1": {"v": 2}}, 2) == {
        ("x", "y"): [{"v": 1}, {"v": 2}]
    }
