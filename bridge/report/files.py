"""The files of a comparison and of a report: tables as CSV, figures as PNG."""

from __future__ import annotations

import logging
from pathlib import Path

import pandas as pd

from bridge.errors import RecordsError
from bridge.measures.scores import khats, shares
from bridge.report.figures import khat_map, save, write_case, write_scores
from bridge.report.summary import best, details, failures, summary
from bridge.report.unseen import unseen

__all__ = ["all_failed", "write", "write_figures", "write_tables"]

_log = logging.getLogger(__name__)


def write(frame: pd.DataFrame, out: Path) -> list[Path]:
    """Write ``table.csv``, ``records.csv`` and the figures to ``out``; returns the paths."""
    out.mkdir(parents=True, exist_ok=True)
    summary(frame).to_csv(out / "table.csv", index=False)
    frame.drop(columns="traceback", errors="ignore").to_csv(out / "records.csv", index=False)
    paths = [out / "table.csv", out / "records.csv"]
    ok = frame[frame["status"] == "ok"]
    for case, runs in ok.groupby("case_name", sort=False):
        paths += write_case(str(case), runs, out, out)
    return paths + ([write_scores(ok, out)] if len(ok) else [])


def write_tables(frame: pd.DataFrame, out: Path) -> list[Path]:
    """Write the tables of a report to ``out``."""
    records = frame.drop(columns="traceback", errors="ignore")
    tables = {
        "shares": shares(frame).reset_index(),
        "best": best(frame).reset_index(),
        "khat": khats(frame).reset_index(),
        "unseen": unseen(frame),
        "failures": failures(frame),
        "table": details(frame),
        "records": records,
    }
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
    return [out / f"{name}.csv" for name in tables]


def write_figures(frame: pd.DataFrame, folder: Path, out: Path) -> list[Path]:
    """The heat map as PNG, and the figures of `write_case` where the draws are there."""
    k = khats(frame)
    paths = []
    if len(k.columns):
        paths.append(save(khat_map(k, all_failed(frame, k)), out / "khat.png"))
    ok = frame[frame["status"] == "ok"]
    for name, runs in ok.groupby("case_name", sort=False):
        try:
            paths += write_case(str(name), runs, folder, out)
        except (RecordsError, OSError, ValueError) as error:
            _log.warning("%s: no figures: %s", name, error)
    return paths + ([write_scores(ok, out)] if len(ok) else [])


def all_failed(frame: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """Whether all runs of a posterior and method failed, laid out as the table ``like``."""
    failed = frame["status"].eq("failed").groupby([frame["case_name"], frame["method"]]).all()
    table = failed.unstack("method").reindex(index=like.index, columns=like.columns)
    return table.eq(True)
