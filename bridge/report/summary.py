"""The records of several seeds as one row a posterior and method, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bridge.measures.limits import KHAT_USABLE
from bridge.measures.scores import NONE, best_methods
from bridge.report import metrics
from bridge.report.unseen import without_numbers

__all__ = ["best", "details", "failure_lines", "failures", "summary"]


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per case and method: the median over seeds of each of `metrics.METRICS`, of shares
    the mean.

    ``khat_spread`` is the standard deviation of k̂ over seeds, or of its batches where there is
    one seed. ``failed`` counts failures, ``reason`` gives the first. A ``{column}_reliable`` is
    True where all runs were.
    """
    rows = [
        {"case_name": case, "method": method, **_summarise(group)}
        for (case, method), group in frame.groupby(["case_name", "method"], sort=False)
    ]
    return pd.DataFrame(rows)


def _summarise(group: pd.DataFrame) -> dict[str, object]:
    ok = group[group["status"] == "ok"]
    row: dict[str, object] = {"runs": len(group), "failed": len(group) - len(ok)}
    for metric in metrics.METRICS:
        numbers = _numbers(group if metric.share else ok, metric.column)
        row[metric.column] = numbers.mean() if metric.share else numbers.median()
        if (reliable := f"{metric.column}_reliable") in ok:
            row[reliable] = bool(ok[reliable].dropna().eq(True).all())
    khats = _numbers(ok, "khat")
    with np.errstate(invalid="ignore"):  # seeds with k̂ = ∞ have no spread
        spread = khats.std(ddof=1) if len(khats) > 1 else _numbers(ok, "khat_sd").median()
    row["khat_spread"] = float(spread) if len(khats) else np.nan
    row["khat_exact"] = bool(ok.get("khat_exact", pd.Series(dtype=bool)).eq(True).any())
    reasons = group.get("reason", pd.Series(dtype=object)).dropna()
    row["reason"] = reasons.iloc[0] if len(reasons) else None
    return row


def _numbers(frame: pd.DataFrame, column: str) -> pd.Series:
    """The numbers there are in a column of records; none where there is no such column."""
    return pd.to_numeric(frame.reindex(columns=[column])[column], errors="coerce").dropna()


def details(frame: pd.DataFrame) -> pd.DataFrame:
    """`summary` with an exact k̂ as 0, so that it is sorted before all others."""
    table = summary(frame)
    table.loc[table["khat_exact"], "khat"] = 0.0
    return table


def best(frame: pd.DataFrame) -> pd.DataFrame:
    """The row of `details` of the best approximation of each posterior, by `best_methods`.

    Where that is no usable k̂, ``why`` says what the runs of this method noted or failed with; where
    no method has a finite k̂, ``method`` is "none" and ``why`` starts with the method it speaks of.
    """
    chosen = best_methods(frame)
    table = details(frame).set_index(["case_name", "method"])
    table = table.loc[list(zip(chosen.index, chosen["method"], strict=True))]
    table = table.reset_index("method").assign(khat=chosen["khat"])
    table["why"] = [
        _why(frame, str(case), method, khat)
        for case, method, khat in table[["method", "khat"]].itertuples(name=None)
    ]
    table.loc[~np.isfinite(table["khat"].to_numpy(dtype=float)), "method"] = NONE
    return table


def _why(frame: pd.DataFrame, case: str, method: str, khat: float) -> str:
    if khat < KHAT_USABLE:
        return ""
    remarks = _remarks(frame, case, method)
    return remarks if np.isfinite(khat) else f"{method}: {remarks}"


def _remarks(frame: pd.DataFrame, case: str, method: str) -> str:
    """What the runs of a method on a case noted; of remarks that differ in numbers, the first."""
    runs = frame[(frame["case_name"] == case) & (frame["method"] == method)]
    texts = runs.reindex(columns=["reason", "fit_notes", "notes"]).to_numpy().ravel()
    remarks = [
        r for text in texts if isinstance(text, str) for r in text.split("\n")[0].split("; ")
    ]
    first: dict[str, str] = {}
    for remark in remarks:
        first.setdefault(without_numbers(remark), remark)
    return "; ".join(first.values())


def failures(frame: pd.DataFrame) -> pd.DataFrame:
    """Case, method, seeds and reason (its first line) of the runs that went wrong, equal together.

    Failed runs, and runs whose method itself says that it did not converge.
    """
    columns = ["case_name", "method", "seed", "reason", "converged"]
    runs = frame.reindex(columns=columns)
    wrong = runs[frame["status"].eq("failed") | runs["converged"].isin([False])].copy()
    wrong["reason"] = [
        "did not converge" if pd.isna(reason) else f"failed: {reason.splitlines()[0]}"
        for reason in wrong["reason"]
    ]
    groups = wrong.groupby(["case_name", "method", "reason"], sort=False)["seed"]
    return groups.apply(lambda seeds: ", ".join(map(str, seeds))).reset_index(name="seeds")


def failure_lines(frame: pd.DataFrame) -> Iterator[str]:
    """`failures` as text, a line for each reason."""
    for reason, runs in failures(frame).groupby("reason", sort=False):
        methods, cases = (list(dict.fromkeys(runs[name])) for name in ("method", "case_name"))
        where = f"{len(cases)} posteriors" if len(cases) > 1 else cases[0]
        seeds = f", seed {runs['seeds'].iloc[0]}" if len(runs) == 1 else ""
        some = " (not each on all)" if len(runs) < len(methods) * len(cases) else ""
        yield f"{', '.join(methods)} on {where}{seeds}{some}: {reason}"
