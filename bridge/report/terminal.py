"""The tables of a comparison in a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bridge.measures.limits import KHAT_GOOD, KHAT_USABLE
from bridge.report.metrics import Metric, Shown, shown_in
from bridge.report.summary import summary
from posteriordb_cases import load_case

__all__ = ["LEGEND", "rich_tables"]

LEGEND = (
    f"k̂ < {KHAT_GOOD:g} good, < {KHAT_USABLE:g} usable; ELBO and KL in nats; errors of the worst "
    "parameter in posterior standard deviations; ? = unreliable, see `notes` in records.csv; "
    "trusted: without knowing the reference, see `verdict` there."
)


def rich_tables(frame: pd.DataFrame) -> Iterator[Table]:
    """One table a case; a number flagged unreliable carries a ``?``."""
    metrics = shown_in(Shown.TERMINAL)
    for case, rows in summary(frame).groupby("case_name", sort=False):
        table = Table(
            title=_title(frame, str(case)),
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            collapse_padding=True,
        )
        table.add_column("method", no_wrap=True)
        for metric in metrics:
            table.add_column(metric.heading, justify="right", no_wrap=True)
        for row in rows.to_dict("records"):
            table.add_row(row["method"], *(_cell(row, metric) for metric in metrics))
        yield table


def _title(frame: pd.DataFrame, case: str) -> str:
    """The case with its exact log evidence, where it is known, and the bridge sampling one."""
    runs = frame[frame["case_name"] == case].reindex(columns=["log_evidence", "settings"])
    bridged = pd.to_numeric(runs["log_evidence"]).median()
    settings = runs["settings"].iloc[0]
    known = load_case(case, database=json.loads(settings)["database"]).exact or {}
    exact = f", exact {known['log_evidence']:.4f}" if "log_evidence" in known else ""
    found = "" if np.isnan(bridged) else f" {bridged:.4f} by bridge sampling"
    return f"{case}: log Z{found}{exact}" if found or exact else case


def _cell(row: Mapping[str, object], metric: Metric) -> str:
    name = metric.column
    value = row[name]
    if row["failed"] == row["runs"]:
        return "failed" if name == "khat" else ""
    if name == "khat" and row.get("khat_exact"):
        return "exact"
    if not isinstance(value, float):
        return "–"
    doubt = "?" if row.get(f"{name}_reliable") is False else ""
    return f"{metric.text(value)}{doubt}"
