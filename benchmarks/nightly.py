"""Whether this code answers as well, and for as little, as it did: an alarm for each night.

    make nightly                                     # against the stored baseline
    .venv/bin/python -m benchmarks.nightly --save    # this code becomes the baseline

The embedded posteriors are compared by the default methods and one flow, three seeds each, in an
empty folder: about three minutes of one core. For each method the median k̂, the median gap between
its ELBO and the exact log evidence, the median gradients, the CPU seconds of all its fits and the
shares that were trusted and that failed are held against ``benchmarks/results/nightly.json``. What
got worse by more than `LIMITS` is printed, and the exit status is 1. CPU seconds are compared on
the machine of the baseline only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

import bridge
from benchmarks.record import environment, write
from posteriordb_cases import EMBEDDED, list_cases, load_case

BASELINE = Path(__file__).parent / "results" / "nightly.json"
METHODS = ("laplace", "batch-match", "hierarchical", "warm-nuts", "mixed-eig", "bernstein")
SEEDS = 3
# What counts as worse: k̂ and trusted shares move by less from one processor to another, whose last
# digits differ; so do ELBOs of three seeds, and gradients by a block of steps. CPU seconds of a
# quiet machine repeat within a tenth.
LIMITS = {
    "khat": 0.1, "gap": 0.05, "gradients": 1.2, "cpu_seconds": 1.2, "trusted": -0.1, "failed": 1e-9,
}  # fmt: skip
RATIOS = ("gradients", "cpu_seconds")  # the others are differences
Numbers = dict[str, dict[str, float]]  # by method


def measured() -> Numbers:
    """This code's."""
    with tempfile.TemporaryDirectory() as folder:
        frame = bridge.compare(
            list_cases(EMBEDDED), METHODS, SEEDS, out=folder, database=EMBEDDED
        )  # fmt: skip
    return summary(frame, {n: load_case(n, database=EMBEDDED).exact for n in list_cases(EMBEDDED)})


def summary(frame: pd.DataFrame, exact: Mapping[str, Mapping[str, float]]) -> Numbers:
    """By method, of the records of a comparison; a method without a k̂ has none here."""
    frame = frame.copy()
    evidence = frame["case_name"].map(lambda name: exact[name].get("log_evidence"))
    frame["failed"] = frame["status"] != "ok"  # as Laplace's does where there is no mode
    frame["gap"] = evidence - pd.to_numeric(frame["elbo"], errors="coerce")
    columns = {"khat": "median", "gap": "median", "gradient_evaluations": "median",
               "cpu_seconds": "sum", "trusted": "mean", "failed": "mean"}  # fmt: skip
    numeric = frame[["method"]].join(frame[list(columns)].apply(pd.to_numeric, errors="coerce"))
    table = numeric.groupby("method").agg(columns)
    table = table.rename(columns={"gradient_evaluations": "gradients"})
    return {
        str(method): {name: float(value) for name, value in row.items() if pd.notna(value)}
        for method, row in table.iterrows()
    }


def alarms(now: Numbers, before: Numbers, same_machine: bool) -> list[str]:
    """A line for each number that got worse by more than its limit, and for each that is gone."""
    found = []
    for method, old in before.items():
        new = now.get(method, {})
        for name, value in old.items():
            if name == "cpu_seconds" and not same_machine:
                continue
            if name not in new:
                found.append(f"{method}: {name} is gone, was {value:.3g}")
            elif worse(name, new[name], value):
                found.append(f"{method}: {name} {value:.3g} -> {new[name]:.3g}")
    return found


def worse(name: str, new: float, old: float) -> bool:
    """Whether a number moved to the bad side by more than its limit."""
    limit = LIMITS[name]
    if name in RATIOS:
        return new > limit * old
    return new - old > limit if limit > 0 else new - old < limit


def main() -> int:
    """Measure, then compare or save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help="make this code the baseline")
    arguments = parser.parse_args()
    if not arguments.save and not BASELINE.is_file():
        parser.error(f"no baseline at {BASELINE}: make one with --save")
    now = measured()
    print(pd.DataFrame(now).T.round(3).to_string())
    if arguments.save:
        write(BASELINE, now)
        print(f"kept in {BASELINE}")
        return 0
    stored = json.loads(BASELINE.read_text(encoding="utf-8"))
    same = stored["environment"]["machine"] == environment()["machine"]
    if not same:
        print(
            f"CPU seconds are not compared: the baseline is of {stored['environment']['machine']}"
        )
    found = alarms(now, stored["results"], same)
    print("\n".join(found) if found else f"as good as on {stored['environment']['date']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
