"""The tables of the page; `bridge.report.metrics` says which columns, headings and digits."""

from __future__ import annotations

import html
from collections.abc import Mapping

import pandas as pd

from bridge.measures.limits import KHAT_USABLE
from bridge.report.html_page import filter_table, plain_table
from bridge.report.metrics import METRICS, SHARES, Metric, Shown, shown_in

__all__ = [
    "best_table", "case_table", "failures_table", "metrics_table", "shares_table", "unseen_table",
]  # fmt: skip

_WHAT = {"case_name": "posterior", "method": "method"}
_COUNTS = {"runs": "runs", "failed": "failed"}
_WHY = {"why": f"why not below {KHAT_USABLE:g}"}


def metrics_table(details: pd.DataFrame) -> str:
    """All numbers of all posteriors and methods, to be sorted and filtered; what they are below."""
    metrics = shown_in(Shown.HTML)
    shown = _renamed(_in_words(details), _WHAT | _headings(metrics) | _COUNTS)
    lines = (f"<li>{html.escape(f'{m.heading}: {m.description}')}</li>" for m in metrics)
    words = f"<summary>What the columns are</summary><ul>{''.join(lines)}</ul>"
    return f"{filter_table(shown, _formats(metrics))}<details>{words}</details>"


def case_table(details: pd.DataFrame) -> str:
    """The same of one posterior, as a plain table."""
    metrics = shown_in(Shown.HTML)
    names = {"method": "method"} | _headings(metrics) | _COUNTS
    return plain_table(_renamed(_in_words(details), names), _formats(metrics))


def best_table(best: pd.DataFrame) -> str:
    """The best approximation of each posterior, and why it is no better."""
    if best.empty:
        return "<p>No approximation is on record.</p>"
    metrics = shown_in(Shown.BEST)
    names = _WHAT | _headings(metrics) | _WHY
    shown = _renamed(_in_words(best.reset_index()), names)
    return filter_table(shown, _formats(metrics), wrap=True)


def shares_table(shares: pd.DataFrame) -> str:
    """How many posteriors each method gets right."""
    names = {"method": "method"} | {share.column: share.heading for share in SHARES}
    formats = {share.heading: share.format for share in SHARES}
    return plain_table(_renamed(shares.reset_index(), names), formats)


def failures_table(failures: pd.DataFrame) -> str:
    """What failed, and why."""
    if failures.empty:
        return "<p>Nothing.</p>"
    names = _WHAT | {"seeds": "seeds", "reason": "reason"}
    return filter_table(_renamed(failures, names), {}, wrap=True)


def unseen_table(unseen: pd.DataFrame) -> str:
    """Runs of one kind of `bridge.report.unseen.unseen`."""
    if unseen.empty:
        return "<p>None.</p>"
    errors = {"khat": "k̂", "mean_error": "Δmean PSIS", "sd_ratio": "sd ratio PSIS"}
    names = _WHAT | {"seeds": "seeds"} | errors | {"why": "verdict"}
    formats = dict.fromkeys(errors.values(), ".2f")
    return filter_table(_renamed(unseen, names), formats, wrap=True)


def _in_words(table: pd.DataFrame) -> pd.DataFrame:
    """With shares as `Metric.text` says them."""
    shares = [metric for metric in METRICS if metric.share]
    return table.assign(**{m.column: table[m.column].map(m.text) for m in shares})


def _headings(metrics: list[Metric]) -> dict[str, str]:
    return {metric.column: metric.heading for metric in metrics}


def _formats(metrics: list[Metric]) -> dict[str, str]:
    return {metric.heading: metric.format for metric in metrics if not metric.share}


def _renamed(table: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The columns named, in this order, under their headings."""
    kept = [name for name in names if name in table]
    return table[kept].rename(columns=names)
