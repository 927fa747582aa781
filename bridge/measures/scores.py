"""What the records of a sweep amount to: k̂ by posterior and method, shares, the best methods.

A failed run counts as k̂ = infinity and an error of infinity, so that failures never improve a
method's median; a k̂ that is `exact` (q equals p up to a constant) counts as 0. Samplers have no k̂
and stay out of the shares. The denominator of every share is all posteriors on record.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd

from bridge.errors import RecordsError
from bridge.methods import METHODS
from bridge.records import Records
from bridge.report import summary

_log = logging.getLogger(__name__)

USABLE, GOOD = 0.7, 0.5  # k̂; Vehtari et al. (2024), JMLR 25(72)
SMALL_ERROR = 0.1  # posterior standard deviations
MOST_SECONDS = 60.0
BEST = "best of each posterior"
NONE = "none"  # instead of a method where no approximation has a finite k̂
EXTRA = ("mean_error_psis", "sd_error_psis", "mean_error_mcse", "mean_error_mcse_psis")


def read_records(folder: Path) -> pd.DataFrame:
    """The runs that a comparison or sweep left in ``folder``, all of the same settings.

    By posterior, method in the order of `bridge.methods.METHODS`, and seed. ``seconds`` are CPU
    seconds of the fit, which do not depend on what else the machine had to do.

    Where there are runs of several settings (draws, database), those of the settings with most runs
    are taken; ``attrs["left_out"]`` counts the others.

    Raises
    ------
    RecordsError
        There are no records.
    """
    path = Path(folder) / "records.sqlite"
    if not path.is_file():
        raise RecordsError(
            f"no records in {folder}: expected the file records.sqlite, which "
            f"`python -m bridge sweep --out {folder}` writes"
        )
    frame = Records(path).frame()
    if frame.empty:
        raise RecordsError(
            f"{path} holds no run yet: `python -m bridge sweep --out {folder}` makes some"
        )
    counts = frame["settings"].value_counts()
    chosen = frame[frame["settings"] == counts.index[0]]
    order = {name: number for number, name in enumerate(METHODS)}
    chosen = chosen.sort_values(
        ["case_name", "method"],
        key=lambda c: c if c.name == "case_name" else c.map(order).fillna(len(order)),
        kind="stable",
        ignore_index=True,
    )
    chosen["seconds"] = _fit_seconds(chosen)
    chosen.attrs["left_out"] = len(frame) - len(chosen)
    if len(counts) > 1:
        _log.warning("reporting the runs with settings %s; left out: %d runs of other settings",
                     counts.index[0], chosen.attrs["left_out"])  # fmt: skip
    return chosen


def _fit_seconds(frame: pd.DataFrame) -> pd.Series:
    """CPU seconds of each fit; wall seconds in records of versions that did not take them."""
    columns = frame.reindex(columns=["cpu_seconds", "seconds"])
    cpu, wall = (pd.to_numeric(columns[name], errors="coerce") for name in columns)
    return cpu.fillna(wall)


def khats(frame: pd.DataFrame) -> pd.DataFrame:
    """Median k̂ over seeds, posteriors × methods; infinite where runs failed, NaN where none is."""
    return _median(frame, _khat(frame), _approximations(frame))


def moment_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Worst error of a mean or sd after PSIS (posterior sd), median over seeds, as `khats`."""
    columns = frame.reindex(columns=["mean_error_psis", "sd_error_psis"])
    largest = columns.apply(pd.to_numeric, errors="coerce").max(axis=1, skipna=False)
    return _median(frame, largest, _approximations(frame))


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a method, and one for the best method of each posterior.

    Columns: ``posteriors`` tried; shares of all posteriors on record with k̂ < 0.7, k̂ < 0.5, errors
    of all means and sds after PSIS < 0.1 posterior sd, and every fit within 60 CPU seconds;
    ``failed`` runs; medians over posteriors of seconds and gradient evaluations.
    """
    k, errors = khats(frame), moment_errors(frame)
    seconds = _by(frame, "seconds", "max").reindex_like(k)
    rows = [_share(name, k[name], errors[name], seconds[name]) for name in k]
    if not rows:
        return pd.DataFrame(index=pd.Index([], name="method"))
    table = pd.DataFrame(rows).set_index("method")
    runs = frame.groupby("method")
    table["failed"] = runs["status"].apply(lambda s: int((s == "failed").sum()))
    for name in ("seconds", "gradient_evaluations"):
        table[f"median_{name}"] = _by(frame, name, "median").median().reindex(table.index)
    chosen = best(frame)["method"]
    picked = [_pick(t, chosen) for t in (k, errors, seconds)]
    table.loc[BEST] = pd.Series(_share(BEST, *picked)).drop("method")
    return table


def best(frame: pd.DataFrame) -> pd.DataFrame:
    """The approximation with the smallest median k̂ of each posterior (the faster one of equals).

    Where that is no k̂ < 0.7, ``why`` says what the runs of this method noted or failed with; where
    no method has a finite k̂, ``method`` is "none" and ``why`` starts with the method it speaks of.
    """
    table, k = details(frame), khats(frame)
    table = table[table["method"].isin(k.columns)].reset_index(drop=True)
    pairs = zip(table["case_name"], table["method"], strict=True)
    table["khat"] = [k.at[case, method] for case, method in pairs]
    table["rank"] = table["khat"].clip(lower=0)  # below 0 every weight is bounded: equally good
    table = table.sort_values(["rank", "seconds"], na_position="last", kind="stable")
    table = table.drop(columns="rank").drop_duplicates("case_name").set_index("case_name")
    table["why"] = [
        "" if khat < USABLE else _remarks(frame, str(case), method)
        for case, method, khat in table[["method", "khat"]].itertuples(name=None)
    ]
    none = ~np.isfinite(table["khat"].to_numpy(dtype=float))
    table.loc[none, "why"] = table["method"] + ": " + table["why"]
    table.loc[none, "method"] = NONE
    return table.reindex([case for case in k.index if case in table.index])


def _remarks(frame: pd.DataFrame, case: str, method: str) -> str:
    """What the runs of a method on a case noted; of remarks that differ in numbers, the first."""
    runs = frame[(frame["case_name"] == case) & (frame["method"] == method)]
    texts = runs.reindex(columns=["reason", "fit_notes", "notes"]).to_numpy().ravel()
    remarks = [
        r for text in texts if isinstance(text, str) for r in text.split("\n")[0].split("; ")
    ]
    first: dict[str, str] = {}
    for remark in remarks:
        first.setdefault(re.sub(r"[-+.\d]+", "#", remark), remark)
    return "; ".join(first.values())


def details(frame: pd.DataFrame) -> pd.DataFrame:
    """`bridge.report.summary` with the errors after PSIS and in Monte Carlo standard errors.

    An exact k̂ is 0.
    """
    table = summary(frame)
    if "khat_exact" in table:
        table.loc[table["khat_exact"].eq(True), "khat"] = 0.0
    for name in (*EXTRA, "seconds"):
        medians = _by(frame, name, "median")
        table[name] = [
            medians.at[case, method] if method in medians and case in medians.index else np.nan
            for case, method in zip(table["case_name"], table["method"], strict=True)
        ]
    return table


def _approximations(frame: pd.DataFrame) -> list[str]:
    """All methods but samplers, which are known by their R-hat."""
    sampled = frame.reindex(columns=["rhat"])["rhat"].notna()
    samplers = set(frame["method"][sampled])
    return [method for method in dict.fromkeys(frame["method"]) if method not in samplers]


def _khat(frame: pd.DataFrame) -> pd.Series:
    """k̂ of each run, infinite where the run failed or its ratios have none."""
    k = pd.to_numeric(frame.reindex(columns=["khat"])["khat"], errors="coerce").fillna(np.inf)
    return k.mask(frame.reindex(columns=["khat_exact"])["khat_exact"].eq(True), 0.0)


def _median(frame: pd.DataFrame, values: pd.Series, methods: list[str]) -> pd.DataFrame:
    values = values.mask(frame["status"] == "failed", np.inf)
    groups = values.groupby([frame["case_name"], frame["method"]], sort=False)
    table = groups.median().unstack("method")
    return table.reindex(index=list(dict.fromkeys(frame["case_name"])), columns=methods)


def _by(frame: pd.DataFrame, column: str, statistic: str) -> pd.DataFrame:
    values = pd.to_numeric(frame.reindex(columns=[column])[column], errors="coerce")
    groups = values.groupby([frame["case_name"], frame["method"]], sort=False)
    return getattr(groups, statistic)().unstack("method")


def _share(name: str, k: pd.Series, errors: pd.Series, seconds: pd.Series) -> dict[str, object]:
    total = len(k)
    return {
        "method": name,
        "posteriors": int(k.notna().sum()),
        "khat_usable": float((k < USABLE).sum() / total),
        "khat_good": float((k < GOOD).sum() / total),
        "small_errors": float((errors < SMALL_ERROR).sum() / total),
        "in_time": float((seconds <= MOST_SECONDS).sum() / total),
    }


def _pick(table: pd.DataFrame, chosen: pd.Series) -> pd.Series:
    values = {c: np.inf if m == NONE else table.at[c, m] for c, m in chosen.items()}
    return pd.Series(values, dtype=float).reindex(table.index)
