"""What `bridge.fit` has tried and found, as a notebook shows it: one small table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from bridge.attempt import Attempt

__all__ = ["as_html"]

HEADINGS = ("method", "verdict", "gradients", "seconds")
TO_THE_LEFT = ' style="text-align:left"'  # notebooks set tables to the right


def as_html(attempts: Sequence[Attempt], conclusions: Iterable[str]) -> str:
    """A row a method tried, and below it what was taken and why; text is escaped, and nothing is
    loaded.

    >>> made = Attempt.without_answer("laplace", "failed: no mode for x < 0", seconds=0.25)
    >>> "<td style=\\"text-align:left\\">failed: no mode for x &lt; 0</td>" in as_html([made], [])
    True
    """
    rows = [_row("th", HEADINGS), *(_row("td", _cells(attempt)) for attempt in attempts)]
    lines = "<br>".join(html.escape(line) for line in conclusions)
    return f"<table>{''.join(rows)}</table><p>{lines}</p>"


def _cells(attempt: Attempt) -> tuple[str, str, str, str]:
    """Gradients of the fit, and of the search for missed mass beside them."""
    gradients = "–" if attempt.gradients is None else f"{attempt.gradients:,}"
    if attempt.search_gradients:
        gradients += f" + {attempt.search_gradients:,} for missed mass"
    return attempt.method, attempt.verdict, gradients, f"{attempt.seconds:.1f}"


def _row(tag: str, cells: Iterable[str]) -> str:
    inner = "".join(f"<{tag}{TO_THE_LEFT}>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
