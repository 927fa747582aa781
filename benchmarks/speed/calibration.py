"""Is what `bridge.fit` and its methods say true of data whose parameters are known?

    python -m benchmarks.speed.calibration [--models NAME ...] [--methods NAME ...]
        [--simulations 300] [--budget SECONDS] [--jobs 1] [--runs FOLDER] [--out FILE]
        [--figure FILE]

Each model of `calibration_models` with each method is one calibration: its simulations are kept in
FOLDER as they end, its summary in FILE once all are made, in place of one of fewer, so that
the same command goes on where it stopped. The goals: fits that are trusted have 95 % coverage
.95 ± .015 and 50 % .50 ± .035, with ECDFs inside their band by Holm's method; and of the fits of a
model and a method whose coverage is off by more than .03, at least 95 % were refused. ``--figure``
draws what is in FOLDER of `PANELS`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import bridge
from benchmarks.record import kept, write
from benchmarks.speed.calibration_models import MODELS
from bridge.calibration.result import Calibration
from bridge.comparison.cluster import cluster

RESULTS = Path(__file__).parent / "results" / "calibration.json"
RUNS = Path("results/calibration")
METHODS = ("laplace", "batch-match", "hierarchical", "answer")
SEED = 1
NEAR = {"coverage_95": 0.015, "coverage_50": 0.035}  # of trusted fits, how far from the level
OFF, REFUSED = 0.03, 0.95  # coverage that is wrong, and the share of such fits to be refused
PANELS = (  # model, method, draws, fits
    ("eight_schools_ncp", "laplace", "plain", "all"),
    ("eight_schools_ncp", "hierarchical", "psis", "all"),
    ("eight_schools_ncp", "hierarchical", "psis", "trusted"),
)
Entry = dict[str, Any]


def entry(found: Calibration) -> Entry:
    """What is kept of a calibration."""
    summary = found.summary()
    rows = {
        f"{draws} {fits}": {name: _plain(value) for name, value in row.items()}
        for (draws, fits), row in summary.iterrows()  # type: ignore[misc]
    }
    runs = found.runs
    return {
        "simulations": len(runs),
        "failed": len(found.failed),
        "trusted": float(found.trusted.mean()),
        "seconds": float(runs["seconds"].median()),
        "gradients": _plain(runs["gradients"].median()) if "gradients" in runs else None,
        "failures": found.failed["reason"].value_counts().head(3).to_dict(),
        "quantities": len(found.quantities),
        "rows": rows,
    }


def _plain(value: Any) -> Any:
    """A number or truth value as JSON has it; None for NaN."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value


def report(made: Mapping[str, Entry]) -> None:
    """A line a calibration, and the goals."""
    print(f"{'model':20}{'method':14}{'runs':>5}{'trusted':>9}{'95 %':>16}{'50 %':>16}"
          f"{'trusted 95 %':>16}{'50 %':>16}  ECDFs of the trusted")  # fmt: skip
    reached = off = refused = judged = 0
    for key, cell in made.items():
        model, method = key.split("/")[:2]
        every, good = cell["rows"]["psis all"], cell["rows"]["psis trusted"]
        inside = "inside" if good["inside"] else f"outside: {good['worst']}"
        print(f"{model:20}{method:14}{cell['simulations']:5}{cell['trusted']:9.0%}"
              f"{_with_error(every, 95)}{_with_error(every, 50)}{_with_error(good, 95)}"
              f"{_with_error(good, 50)}  {inside if good['fits'] else 'none'}")  # fmt: skip
        if good["fits"] > 1:
            judged += 1
            near = all(
                abs(good[name] - float(name[-2:]) / 100) <= limit for name, limit in NEAR.items()
            )
            reached += bool(near and good["inside"])
        coverage = every["coverage_95"]
        if coverage is None or abs(coverage - 0.95) > OFF:
            off += cell["simulations"]
            refused += round(cell["simulations"] * (1 - cell["trusted"]))
    print(f"calibrations whose trusted fits reach the goal: {reached} of {judged}")
    share = f"{refused / off:.1%}" if off else "–"
    print(f"fits of calibrations off by > {OFF}: {off}, refused {refused} ({share}, goal "
          f"{REFUSED:.0%})")  # fmt: skip


def _with_error(row: Mapping[str, Any], level: int) -> str:
    value, error = row[f"coverage_{level}"], row[f"se_{level}"]
    if value is None or error is None:
        return f"{'–':>16}"
    return f"{value:.3f} ± {error:.3f}".rjust(16)


def calibrated(
    name: str, method: str, simulations: int, runs: Path, budget: float | None = None
) -> Calibration:
    """One calibration, its simulations in ``runs``."""
    return bridge.calibrate(
        MODELS[name](), method, simulations,
        random_seed=SEED, out=runs / name / method, budget=budget,
    )  # fmt: skip


def figure(simulations: int, runs: Path, out: Path) -> None:
    """ECDFs of `PANELS` beside each other."""
    drawn = Figure(figsize=(3.1 * len(PANELS), 3.0), layout="constrained")
    axes = drawn.subplots(1, len(PANELS), sharex=True)
    for axis, (name, method, draws, fits) in zip(axes, PANELS, strict=True):
        found = calibrated(name, method, simulations, runs)
        found.plot(draws, fits, axis=axis)  # type: ignore[arg-type]
        axis.set_title(f"{method}, {draws}, {axis.get_title().split(', ')[-1]}, {fits}", fontsize=9)
    drawn.savefig(out, dpi=150)


def main() -> None:
    """Make what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--simulations", type=int, default=300)
    parser.add_argument("--budget", type=float, help="seconds after which none is started")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    end = time.monotonic() + (arguments.budget or float("inf"))
    made = kept(arguments.out)
    for name in arguments.models:
        for method in arguments.methods:
            cell, left = f"{name}/{method}/", end - time.monotonic()
            counts = [int(key.removeprefix(cell)) for key in made if key.startswith(cell)]
            if max(counts, default=0) >= arguments.simulations or left <= 0:
                continue
            limit = None if left == float("inf") else left
            with cluster("loky", arguments.jobs):
                found = calibrated(name, method, arguments.simulations, arguments.runs, limit)
            print(f"{name}: {found}", flush=True)
            if len(found.runs) == arguments.simulations:
                for count in counts:  # which are among these
                    del made[f"{cell}{count}"]
                made[f"{cell}{arguments.simulations}"] = entry(found)
                write(arguments.out, made)
    report(made)
    if arguments.figure is not None:
        figure(arguments.simulations, arguments.runs, arguments.figure)


if __name__ == "__main__":
    main()
