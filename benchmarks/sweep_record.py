"""The sweep of record: every method on every posterior with reference draws, and README's table.

    python -m benchmarks.sweep_record --database PATH [--seeds 3] [--jobs 2] [--methods NAME ...]
        [--out results/record] [--results FOLDER] [--table]

It says how long the missing runs take, by the record before, and keeps each run in ``--out`` as it
ends, so that the same command goes on where it stopped. What the record has of other methods than
these stays. The record is ``records.parquet``, one row
a run; beside it lie ``methods.csv``, the table, ``khat.csv``, the median k̂ of each posterior and
method, and where and with what it was made. ``--table`` prints the table of what is stored.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

import bridge
from benchmarks import record
from bridge.comparison.folder import RECORDS
from bridge.comparison.records import Records
from bridge.comparison.sweep import cases_with_reference
from bridge.measures.limits import KHAT_USABLE, SMALL_ERROR
from bridge.measures.scores import falsely_trusted, khats, run_khats, trusted, weighted_errors
from bridge.methods.table import METHODS

RESULTS = Path(__file__).parent / "results" / "sweep"
OUT = Path("results/record")
# Ours that work on any posterior, and what a user would take instead.
METHOD_NAMES = (
    "stan-nuts", "stan-advi-diagonal", "stan-advi-full", "stan-laplace", "stan-pathfinder",
    "laplace", "mixed-eig", "batch-match", "hierarchical", "bernstein", "warm-nuts",
)  # fmt: skip
NOT_KEPT, ENVIRONMENT = ("traceback",), "environment.json"


def methods_of(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a method, in the order of `METHOD_NAMES`.

    Shares of all posteriors: whose median k̂ over seeds is usable, and whose worst mean and sd, of
    weighted draws or of a sampler's, are within a tenth of a posterior sd. Shares of all runs that
    are trusted, and trusted and wrong. Failed runs; medians over posteriors of the seeds' medians
    of CPU seconds and gradients.
    """
    errors = weighted_errors(frame)
    with np.errstate(divide="ignore"):  # weighted sds of infinite draws are none of the reference's
        worst = np.maximum(errors["mean_error"], np.abs(np.log(errors["sd_ratio"])))
    by_run = pd.DataFrame(
        {
            "case_name": frame["case_name"], "method": frame["method"],
            "khat": run_khats(frame).where(frame["status"] != "failed", np.inf),
            "error": worst.fillna(np.inf),
            "cpu_seconds": frame["cpu_seconds"], "gradients": frame["gradient_evaluations"],
        }
    )  # fmt: skip
    of_posterior = by_run.groupby(["method", "case_name"]).median(numeric_only=True)
    of_method = of_posterior.groupby("method")
    runs = frame.groupby("method")
    sampler = frame.reindex(columns=["rhat"])["rhat"].notna().groupby(frame["method"]).any()
    table = pd.DataFrame(
        {
            "posteriors": of_method.size(),
            "khat_usable": of_method["khat"].agg(lambda k: (k < KHAT_USABLE).mean()),
            "trusted": trusted(frame).fillna(0).groupby(frame["method"]).mean(),
            "falsely_trusted": falsely_trusted(frame).groupby(frame["method"]).mean(),
            "small_errors": of_method["error"].agg(lambda e: (e < SMALL_ERROR).mean()),
            "failed": runs["status"].agg(lambda s: int((s == "failed").sum())),
            "cpu_seconds": of_method["cpu_seconds"].median(),
            "gradients": of_method["gradients"].median(),
        }
    )
    table["khat_usable"] = table["khat_usable"].mask(sampler)
    order = dict.fromkeys((*METHOD_NAMES, *table.index))
    return table.reindex([method for method in order if method in table.index])


def markdown(table: pd.DataFrame) -> str:
    """The table as README has it."""
    lines = [
        "| Method | k̂ < 0.7 | errors < 0.1 sd | trusted | falsely | failed runs | CPU s "
        "| gradients |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in table.iterrows():
        shares = (
            "–" if np.isnan(row[c]) else f"{row[c]:.0%}"
            for c in ("khat_usable", "small_errors", "trusted", "falsely_trusted")
        )
        gradients = "–" if np.isnan(row["gradients"]) else f"{row['gradients']:,.0f}"
        lines.append(
            f"| `{name}` | {' | '.join(shares)} | {row['failed']:.0f} | "
            f"{row['cpu_seconds']:.2g} | {gradients} |"
        )
    return "\n".join(lines)


def stored(folder: Path = RESULTS) -> pd.DataFrame | None:
    """The record; None where there is none."""
    path = folder / "records.parquet"
    return pd.read_parquet(path) if path.is_file() else None


def hours_of(missing: pd.DataFrame, before: pd.DataFrame, jobs: int) -> float:
    """Hours that runs (``case_name``, ``method``) take, by those of the record before."""
    medians = before.groupby(["case_name", "method"])["cpu_seconds"].median()
    typical = before.groupby("method")["cpu_seconds"].median()
    pairs = pd.MultiIndex.from_frame(missing[["case_name", "method"]])
    seconds = medians.reindex(pairs).to_numpy()
    others = typical.reindex(missing["method"]).fillna(typical.median()).to_numpy()
    return float(np.where(np.isnan(seconds), others, seconds).sum() / jobs / 3600)


def store(frame: pd.DataFrame, folder: Path) -> None:
    """Write the record and what follows from it; rows of other methods stay, with their dates."""
    folder.mkdir(parents=True, exist_ok=True)
    before, today = stored(folder), record.environment()["date"]
    dates = dict.fromkeys(frame["method"].unique().tolist(), today)
    if before is not None:
        others = before[~before["method"].isin(list(dates))]
        known = json.loads((folder / ENVIRONMENT).read_text(encoding="utf-8"))
        of_all = known["environment"]["date"]
        dates |= {
            name: known["results"].get("dates", {}).get(name, of_all)
            for name in others["method"].unique().tolist()
        }
        frame = pd.concat([frame, others], ignore_index=True)
    kept = frame.drop(columns=[c for c in NOT_KEPT if c in frame]).copy()
    for column in kept:
        kept[column] = kept[column].map(_as_a_column_has_it)
    kept.to_parquet(folder / "records.parquet", index=False)
    methods_of(frame).to_csv(folder / "methods.csv")
    khats(frame).to_csv(folder / "khat.csv")
    results = {"runs": len(frame), "dates": dates}
    record.write(folder / ENVIRONMENT, results, "cmdstanpy", "pyarrow")


def _as_a_column_has_it(value: object) -> object:
    """Infinities, which records name, as numbers; what JSON nests as its text."""
    if isinstance(value, dict | list):
        return json.dumps(value)
    return float(value) if value in ("inf", "-inf") else value  # type: ignore[arg-type]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, store the record, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", help="in the layout of posteriordb; default: its embedded")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHOD_NAMES))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    before = stored(options.results)
    if not options.table:
        cases = cases_with_reference(options.database)
        wanted = pd.MultiIndex.from_product(
            [cases, options.methods, range(1, options.seeds + 1)],
            names=["case_name", "method", "seed"],
        )
        done = Records(options.out / RECORDS).frame()
        if len(done):
            wanted = wanted.difference(pd.MultiIndex.from_frame(done[list(wanted.names)]))
        told = ""
        if before is not None and len(wanted):
            told = f", some {hours_of(wanted.to_frame(False), before, options.jobs):.1f} hours"
        print(f"{len(wanted):,} runs are missing{told}")
        with joblib.parallel_config(n_jobs=options.jobs):
            frame = bridge.sweep(
                cases, options.methods, options.seeds, database=options.database, out=options.out
            )
        store(frame, options.results)
        before = stored(options.results)
    assert before is not None, f"nothing is stored in {options.results}"
    print(markdown(methods_of(before)))


if __name__ == "__main__":
    main()
