"""docs/gallery: every page is listed, has all parts, and its code compiles; `make docs` runs it."""

import re
from pathlib import Path

import pytest

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
PAGES = sorted(page for page in GALLERY.glob("*.md") if page.stem != "index")
HEADINGS = ["The model", "Fit and verdict", "NUTS beside it", "The answer", "What to report"]


def cells(page: Path) -> list[str]:
    """The code of a page, cell by cell."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.M | re.S)


def test_every_page_is_in_the_table_and_in_the_toctree():
    index = (GALLERY / "index.md").read_text(encoding="utf-8")
    names = sorted(page.stem for page in PAGES)
    assert sorted(re.findall(r"\((\w+)\.md\) \|$", index, re.M)) == names
    toctree = index[index.index("```{toctree}") :]
    assert sorted(re.findall(r"^(\w+)$", toctree, re.M)) == names
    assert len(names) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_all_parts_and_says_its_seeds(page: Path):
    text = page.read_text(encoding="utf-8")
    found = [heading for heading in re.findall(r"^## (.*)$", text, re.M) if heading in HEADINGS]
    assert found == HEADINGS
    assert "**Question.**" in text and "**Data.**" in text
    code = cells(page)
    for number, cell in enumerate(code, start=1):
        compile(cell, f"docs/gallery/{page.name}, cell {number}", "exec")
    assert "random_seed=1" in "".join(code)
    assert len(re.findall(r"plt\.subplots\(", "".join(code))) == 1
