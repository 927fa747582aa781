"""docs/papers.md from the stored results: every reproduced table and figure, theirs beside ours.

    .venv/bin/python -m benchmarks.papers.numbers

Runs no benchmark and needs no data of the papers: only what is in ``benchmarks/papers/results`` and
the published numbers that stand in the benchmarks. A section of the page is a file here,
``numbers_….py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers import (
    numbers_bfvi,
    numbers_hybrid,
    numbers_matching,
    numbers_mvi,
    numbers_viper,
)

PAGE = Path(__file__).resolve().parents[2] / "docs/papers.md"
SECTIONS = (numbers_viper, numbers_mvi, numbers_bfvi, numbers_matching, numbers_hybrid)
HEAD = """# The papers' numbers

The tables and figures of five papers that were run again here, beside what the papers say.

- *Theirs* is what the paper prints or, where the text says so, what its authors stored of their
  runs.
- *Ours* is what the command under the heading gave, on the date in brackets.
- *Truth* is exact, or a reference by sampling, where one is stored.
- In a cell with two numbers theirs comes first: theirs / ours. – is not stored, or does not exist.
  Numbers are rounded to the digits shown.
- Notes under a table say what the original leaves open, where it is wrong, and how ours differs.

Some commands need the papers' data, which are not in this repository. They say so, and leave out
what is missing.

The page is made by `python -m benchmarks.papers.numbers` from `benchmarks/papers/results`, where
each file names the machine and the versions of its run. The command runs no benchmark, and a test
holds the page to it.
"""


def page() -> str:
    """The page as Markdown."""
    return (
        "\n\n".join([HEAD.rstrip(), *(section.paper().markdown() for section in SECTIONS)]) + "\n"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(argv)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
