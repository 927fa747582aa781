"""What k̂ did not see: fits of a good k̂ that are not trusted, and what was trusted though wrong."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from bridge.measures.limits import KHAT_USABLE
from bridge.measures.scores import falsely_trusted, run_khats, trusted, weighted_errors

__all__ = ["REFUSED", "WRONG", "unseen", "without_numbers"]

REFUSED, WRONG = "not trusted", "trusted, but wrong"
COLUMNS = ["found", "case_name", "method", "seeds", "khat", "mean_error", "sd_ratio", "why"]


def unseen(frame: pd.DataFrame) -> pd.DataFrame:
    """Runs whose k̂ is usable and that are not trusted (`REFUSED`), and runs of any method that are
    trusted and wrong by the reference (`WRONG`); equal ones of several seeds are one row.

    Returns
    -------
    pandas.DataFrame
        ``found``, which of the two; ``case_name``, ``method``; ``seeds``; the median ``khat`` (0
        where exact, NaN of samplers), the largest ``mean_error`` (posterior sd) and the farthest
        ``sd_ratio`` of weighted draws; ``why``, the verdict of the first seed.
    """
    k = run_khats(frame)
    runs = frame.reindex(columns=["case_name", "method", "seed"])
    runs["khat"] = k.where(np.isfinite(k))
    runs[["mean_error", "sd_ratio"]] = weighted_errors(frame)
    runs["why"] = frame.get("verdict", pd.Series("", frame.index)).astype(object).fillna("")
    refused = trusted(frame).eq(0) & k.lt(KHAT_USABLE) & frame["status"].eq("ok")
    runs["found"] = pd.Series(REFUSED, frame.index).mask(falsely_trusted(frame).eq(1), WRONG)
    runs = runs[refused | runs["found"].eq(WRONG)].sort_values("found", kind="stable")
    if runs.empty:
        return pd.DataFrame(columns=COLUMNS)
    groups = ["found", "case_name", "method", runs["why"].map(without_numbers)]
    rows = [_row(group) for _, group in runs.groupby(groups, sort=False)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(runs: pd.DataFrame) -> dict[str, object]:
    first, ratios = runs.iloc[0], runs["sd_ratio"]
    with np.errstate(divide="ignore"):  # an sd of zero is infinitely far off
        apart = np.abs(np.log(ratios)).fillna(0.0)
    return {
        **first[["found", "case_name", "method", "why"]],
        "seeds": ", ".join(map(str, runs["seed"])),
        "khat": runs["khat"].median(),
        "mean_error": runs["mean_error"].max(),
        "sd_ratio": ratios[apart.idxmax()],
    }


def without_numbers(text: str) -> str:
    """By which remarks that differ in numbers are the same."""
    return re.sub(r"[-+.\d]+", "#", text)
