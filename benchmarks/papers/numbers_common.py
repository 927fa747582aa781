"""What the sections of docs/papers.md are made of: papers, their tables and figures, cells."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record

RESULTS = Path(__file__).parent / "results"
MISSING = "–"
NOT_STORED = "The paper's values are not stored."
WIDTH = 110  # characters of a line of prose


@dataclass(frozen=True)
class Item:
    """A published table or figure with our results.

    Parameters
    ----------
    title
        As the paper numbers it, and what it is about.
    command
        Module and options that made the results.
    files
        The results, under ``results/``.
    text
        What rows and columns are.
    table
        Markdown.
    notes
        What is wrong or not stated in the original, and where ours differs.
    figures
        Of ours, under ``results/``.
    """

    title: str
    command: str
    files: tuple[str, ...]
    text: str
    table: str
    notes: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The item under its heading."""
        dates = sorted({_environment(file)["date"] for file in self.files})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        made = f"`python -m benchmarks.papers.{self.command}` ({when})"
        parts = [f"### {self.title}", prose(f"{made}. {self.text}"), self.table]
        notes = "\n".join(prose(f"- {note}", "  ") for note in self.notes)
        parts += [notes] if notes else []
        parts += [
            f"![{self.title}, ours](../benchmarks/papers/results/{name})" for name in self.figures
        ]
        return "\n\n".join(parts)


@dataclass(frozen=True)
class Paper:
    """One paper: its heading, its citation, its items, and what of it was not run again."""

    title: str
    citation: str
    items: tuple[Item, ...]
    absent: str

    def markdown(self) -> str:
        """The paper's section."""
        items = (item.markdown() for item in self.items)
        absent = prose(f"Not run again: {self.absent}.")
        return "\n\n".join([f"## {self.title}", prose(self.citation), *items, absent])


def _environment(file: str) -> dict[str, Any]:
    return json.loads((RESULTS / file).read_text(encoding="utf-8"))["environment"]


def results(file: str) -> Any:
    """What a benchmark recorded in ``results/file``."""
    if not (RESULTS / file).is_file():
        raise FileNotFoundError(f"no {RESULTS / file}: get it back by git, or run its benchmark")
    return record.kept(RESULTS / file)


def prose(text: str, indent: str = "") -> str:
    """The text in lines, those after the first indented."""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [" | ".join(head), "|".join(["---"] * len(head)), *map(" | ".join, rows)]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def number(value: float | None, digits: int = 3) -> str:
    """The value with so many decimals, a dash where there is none."""
    return MISSING if value is None else f"{value:.{digits}f}"


def pair(theirs: float | None, ours: float | None, digits: int = 3) -> str:
    """Theirs / ours."""
    return f"{number(theirs, digits)} / {number(ours, digits)}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median, and the smallest and largest in brackets."""
    low, middle, high = np.quantile(values, [0, 0.5, 1])
    return f"{number(middle, digits)} ({number(low, digits)} to {number(high, digits)})"


def grouped(runs: dict[str, dict[str, Any]], parts: int) -> dict[tuple[str, ...], list[dict]]:
    """Runs with keys "set/method/…/seed" by the first so many parts of the key."""
    groups: dict[tuple[str, ...], list[dict]] = {}
    for key, run in runs.items():
        groups.setdefault(tuple(key.split("/")[:parts]), []).append(run)
    return groups
