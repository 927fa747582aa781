"""What `advice.density` is of each posterior of a database, and how near its own draws are.

    python -m benchmarks.speed.kept --databases PATH ... [--names ...] [--results FILE]

Beside each answer (seed 1): the family of the law, what Laplace's method made it along, its ELBO,
the log evidence of the answer, and the worst error of a mean (sds) and ratio of an sd of its own
draws, without weights, beside the weighted ones. Of the fit itself the same error and its ELBO.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import bridge
from benchmarks.record import Runs
from benchmarks.speed.flows import found
from bridge.comparison.problem import CaseProblem
from posteriordb_cases import list_cases

Row = dict[str, float | str | bool | None]
RESULTS = Path(__file__).parent / "results" / "kept.json"
SEED = 1


def kept(problem: CaseProblem) -> Row:
    """Of one posterior."""
    advice = bridge.fit(problem.program, problem.data, random_seed=SEED, progressbar=False)
    row: Row = {"method": advice.method, "trusted": advice.trusted}
    law = advice.density
    if law is None or advice.log_evidence is None:
        return row
    notes = law.notes
    return row | {
        "law": type(law.q).__name__,
        "along": " and ".join(notes.get("along", ())),
        "usable": notes["usable"],
        "elbo": round(notes["elbo"], 3),
        "elbo_of_fit": round(float((advice.fit.lp - advice.fit.lq).mean()), 3),
        "log_evidence": round(advice.log_evidence[0], 3),
        "mean_error": round(notes["mean_error"], 3),
        "sd_ratio": round(notes["sd_ratio"], 3),
    }


def table(made: dict[str, Row]) -> str:
    """A line a posterior."""
    lines = [
        f"{'posterior':44} {'taken':13} {'law':16} {'along':10} usable       ELBO  of the fit"
        "      log Z   mean     sd"
    ]
    for name, row in made.items():
        head = f"{name[:44]:44} {row['method']:13}"
        if "law" not in row:
            lines.append(f"{head} none")
            continue
        lines.append(
            f"{head} {row['law']:16} {row['along']:10} {'yes' if row['usable'] else 'no':6}"
            f"{row['elbo']:11.3f}{row['elbo_of_fit']:12.3f}{row['log_evidence']:11.3f}"
            f"{row['mean_error']:7.3f}{row['sd_ratio']:7.3f}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--databases", nargs="+", required=True, help="clones or their folders")
    parser.add_argument("--names", nargs="*", help="default: all that have a Stan program")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    every = dict.fromkeys(name for path in options.databases for name in list_cases(path))
    runs = Runs(options.results, "runs")
    for name in options.names or sorted(every):
        problem = found(name, options.databases)
        if problem is not None:
            runs(name, kept, problem)
    print(table(runs.made))


if __name__ == "__main__":
    main()
