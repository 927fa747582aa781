"""What the records of a sweep amount to: k̂ by posterior and method, shares, the best methods.

A failed run counts as k̂ = infinity and an error of infinity, so that failures never improve a
method's median; a k̂ that is `exact` (q equals p up to a constant) counts as 0. Samplers have no k̂
and stay out of the shares. The denominator of every share is all posteriors on record.

Records are a table with one row a run: ``case_name``, ``method``, ``seed``, ``status`` and the
columns of `bridge.comparison.judge.judge`. Time is ``cpu_seconds``. Records of versions that gave
no verdict count neither for trust nor against it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from bridge.measures.limits import (
    KHAT_GOOD,
    KHAT_USABLE,
    MEAN_WRONG,
    MOST_SECONDS,
    RATIO_WRONG,
    SMALL_ERROR,
)

__all__ = [
    "BEST", "NONE", "best_methods", "falsely_trusted", "khats", "largest_errors", "run_khats",
    "shares", "trusted", "weighted_errors",
]  # fmt: skip

BEST = "best of each posterior"
NONE = "none"  # instead of a method where no approximation has a finite k̂


def khats(frame: pd.DataFrame) -> pd.DataFrame:
    """Median k̂ over seeds, posteriors × methods; infinite where runs failed, NaN where none is."""
    return _median(frame, run_khats(frame), _approximations(frame))


def largest_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Worst error of a mean or sd after PSIS (posterior sd), median over seeds, as `khats`."""
    columns = frame.reindex(columns=["mean_error_psis", "sd_error_psis"])
    largest = columns.apply(pd.to_numeric, errors="coerce").max(axis=1, skipna=False)
    return _median(frame, largest, _approximations(frame))


def trusted(frame: pd.DataFrame) -> pd.Series:
    """1 where a run is trusted, 0 where it is not or failed, NaN where its record does not say."""
    return _numbers(frame, "trusted")


def weighted_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """``mean_error`` (posterior sd) and ``sd_ratio`` of the worst parameter of each run: of draws
    with their weights, of a sampler as they are; NaN where the record lacks them."""
    return pd.DataFrame(
        {
            name: _numbers(frame, f"{name}_psis").fillna(_numbers(frame, name))
            for name in ("mean_error", "sd_ratio")
        }
    )


def falsely_trusted(frame: pd.DataFrame) -> pd.Series:
    """1 where a run is trusted though a mean is more than `MEAN_WRONG` posterior sds off or an sd
    beyond `RATIO_WRONG` of the reference's, else 0; NaN where the record does not say."""
    verdicts, errors = trusted(frame), weighted_errors(frame)
    right = (errors["mean_error"] <= MEAN_WRONG) & errors["sd_ratio"].between(
        1 / RATIO_WRONG, RATIO_WRONG
    )
    unknown = verdicts.isna() | (verdicts.eq(1) & errors.isna().any(axis=1))
    return (verdicts.eq(1) & ~right).astype(float).mask(unknown)


def best_methods(frame: pd.DataFrame) -> pd.DataFrame:
    """The approximation with the smallest median k̂ of each posterior (the faster one of equals).

    Returns
    -------
    pandas.DataFrame
        One row a posterior on which an approximation ran: ``method``, and its median ``khat``.
        Where that is infinite no method is better than another.
    """
    k, seconds = khats(frame), _by(frame, "cpu_seconds", "median")
    table = frame[["case_name", "method"]].drop_duplicates()
    table = table[table["method"].isin(k.columns)].reset_index(drop=True)
    pairs = list(table.itertuples(index=False, name=None))
    table["khat"] = [k.at[pair] for pair in pairs]
    table["rank"] = table["khat"].clip(lower=0)  # below 0 every weight is bounded: equally good
    table["seconds"] = [seconds.at[pair] for pair in pairs]
    table = table.sort_values(["rank", "seconds"], na_position="last", kind="stable")
    table = table.drop_duplicates("case_name").set_index("case_name")[["method", "khat"]]
    return table.reindex([case for case in k.index if case in table.index])


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a method, and one for the best method of each posterior.

    Columns: ``posteriors`` tried; shares of all posteriors on record whose k̂ is usable and good,
    whose errors of all means and sds after PSIS are small, and whose every fit is in time (limits:
    `bridge.measures.limits`); ``trusted`` and ``falsely_trusted``, to which a posterior contributes
    the share of its seeds; ``failed`` runs; medians over posteriors of seconds and gradient
    evaluations.
    """
    k, errors = khats(frame), largest_errors(frame)
    seconds = _by(frame, "cpu_seconds", "max").reindex_like(k)
    trust, false = (_mean(frame, f(frame)).reindex_like(k) for f in (trusted, falsely_trusted))
    every = (k, errors, seconds, trust, false)
    rows = [_share(name, *(table[name] for table in every)) for name in k]
    if not rows:
        return pd.DataFrame(index=pd.Index([], name="method"))
    table = pd.DataFrame(rows).set_index("method")
    runs = frame.groupby("method")
    table["failed"] = runs["status"].apply(lambda s: int((s == "failed").sum()))
    for name, column in (
        ("median_seconds", "cpu_seconds"),
        ("median_gradient_evaluations", "gradient_evaluations"),
    ):
        table[name] = _by(frame, column, "median").median().reindex(table.index)
    best = best_methods(frame)
    chosen = best["method"].where(np.isfinite(best["khat"].astype(float)), NONE)
    picked = [_pick(t, chosen, np.inf) for t in (k, errors, seconds)]
    picked += [_pick(t, chosen, 0.0) for t in (trust, false)]
    table.loc[BEST] = pd.Series(_share(BEST, *picked)).drop("method")
    return table


def _approximations(frame: pd.DataFrame) -> list[str]:
    """All methods but samplers, which are known by their R-hat, and particles, which have no k̂."""
    sampled = frame.reindex(columns=["rhat"])["rhat"].notna()
    if "khat_exact" in frame:
        none = frame.reindex(columns=["khat", "khat_exact"]).isna().all(axis=1)
        sampled |= (frame["status"] == "ok") & none
    samplers = set(frame["method"][sampled])
    return [method for method in dict.fromkeys(frame["method"]) if method not in samplers]


def run_khats(frame: pd.DataFrame) -> pd.Series:
    """k̂ of each run, 0 where it is exact, infinite where the run failed or its ratios have none."""
    k = _numbers(frame, "khat").fillna(np.inf)
    return k.mask(frame.reindex(columns=["khat_exact"])["khat_exact"].eq(True), 0.0)


def _numbers(frame: pd.DataFrame, column: str) -> pd.Series:
    """A column of records as numbers; NaN where there is none."""
    return pd.to_numeric(frame.reindex(columns=[column])[column], errors="coerce").astype(float)


def _mean(frame: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    """Mean over the seeds that have a value, posteriors × methods."""
    return values.groupby([frame["case_name"], frame["method"]]).mean().unstack("method")


def _median(frame: pd.DataFrame, values: pd.Series, methods: list[str]) -> pd.DataFrame:
    values = values.mask(frame["status"] == "failed", np.inf)
    groups = values.groupby([frame["case_name"], frame["method"]], sort=False)
    table = groups.median().unstack("method")
    return table.reindex(index=list(dict.fromkeys(frame["case_name"])), columns=methods)


def _by(frame: pd.DataFrame, column: str, statistic: str) -> pd.DataFrame:
    groups = _numbers(frame, column).groupby([frame["case_name"], frame["method"]], sort=False)
    return getattr(groups, statistic)().unstack("method")


def _share(
    name: str,
    k: pd.Series,
    errors: pd.Series,
    seconds: pd.Series,
    trust: pd.Series,
    false: pd.Series,
) -> dict[str, object]:
    total = len(k)
    return {
        "method": name,
        "posteriors": int(k.notna().sum()),
        "khat_usable": float((k < KHAT_USABLE).sum() / total),
        "khat_good": float((k < KHAT_GOOD).sum() / total),
        "small_errors": float((errors < SMALL_ERROR).sum() / total),
        "in_time": float((seconds <= MOST_SECONDS).sum() / total),
        "trusted": _rate(trust, k.notna()),
        "falsely_trusted": _rate(false, k.notna()),
    }


def _rate(shares: pd.Series, tried: pd.Series) -> float:
    """Sum over all posteriors on record but those whose records do not say; NaN where none does."""
    said = len(shares) - int((tried & shares.isna()).sum())
    return float(shares.sum() / said) if shares.notna().any() else np.nan


def _pick(table: pd.DataFrame, chosen: pd.Series, none: float) -> pd.Series:
    values = {c: none if m == NONE else table.at[c, m] for c, m in chosen.items()}
    return pd.Series(values, dtype=float).reindex(table.index)
