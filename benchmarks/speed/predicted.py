"""Gradients that chains took in a map's coordinates beside those that `bridge.fit` predicts.

    python -m benchmarks.speed.predicted [--database FOLDER ...] [--posteriors PATTERN ...]
        [--most 400] [--out FILE]
    python -m benchmarks.speed.predicted --answers

Each posterior's hierarchical map is fitted and judged as `bridge.fit` does; chains then run in its
coordinates to ESS 400 whether weights serve or not. Runs are kept in FILE as they end.
``--answers`` makes none: it compares the chains of `bridge.fit`'s stored answers
(`benchmarks.speed.answer`), which ran where weights did not serve.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.record import Runs, kept
from benchmarks.speed.warm_nuts import problems
from bridge.advice.search import Search
from bridge.attempt import Demands
from bridge.comparison.problem import CaseProblem
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS
from bridge.methods.warm_nuts import sampler_for
from posteriordb_cases import EMBEDDED
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.prediction import UP_TO
from pymc_ext.sampling.run import sample

RESULTS = Path(__file__).parent / "results" / "predicted.json"
ESS, BUDGET, DRAWS = 400, 400_000, 4_000  # the last as `bridge.fit` hands back
SEED_OF_FIT, SEED_OF_CHAINS = 7, 11
Numbers = dict[str, float | int | str | bool | None]


def measured(case: CaseProblem) -> Numbers:
    """One posterior."""
    problem = as_problem(case.program, case.data)
    target = problem.target
    search = Search(problem, Demands(0.7, ESS, 20_000, DRAWS), 1, SEED_OF_FIT)
    search.attempt(METHODS["hierarchical"])
    found: Numbers = {"dimension": target.dimension, "map": search.attempts[-1].gradients}
    if search.coordinates is None:
        return found
    transport = search.coordinates
    chains = sample(
        target.density, transport, sampler_for(target.density, transport),
        Sampling(ess=ESS, budget=BUDGET), seed=SEED_OF_CHAINS, constrain=target.constrain,
        in_step=True,
    )  # fmt: skip
    weights = search.weights
    return found | {
        "share": 1 / (weights.size * float(np.sum(weights**2))),
        "predicted": search.predicted,
        "gradients": chains.gradient_evaluations,
        "in_map": chains.in_map,
        "trusted": chains.trusted,
        "mean_steps": float(np.mean(chains.statistics["n_steps"])),
    }


def report(made: Mapping[str, Numbers]) -> None:
    """A line a posterior, and how far predictions are off."""
    print(f"{'posterior':50}{'D':>5}{'ESS/N':>7}{'predicted':>11}{'taken':>9}{'ratio':>7}")
    ratios = []
    for name, row in made.items():
        if "gradients" not in row:
            continue
        ratios.append(float(row["gradients"] or 0) / float(row["predicted"] or 1))
        left = "" if row["in_map"] else "  left the map"
        print(f"{name:50}{row['dimension']:5}{row['share']:7.3f}{row['predicted']:11,}"
              f"{row['gradients']:9,}{ratios[-1]:7.2f}{left}")  # fmt: skip
    within = float(np.mean([0.5 <= r <= 2 for r in ratios]))
    print(f"taken / predicted on {len(ratios)}: median {np.median(ratios):.2f}, {within:.0%} within"
          f" a factor of two, {min(ratios):.2f} to {max(ratios):.2f}")  # fmt: skip


def of_answers(paths: Iterable[Path]) -> dict[str, tuple[int, int, bool]]:
    """By run: gradients of chains, those predicted at least, and whether they left the map."""
    found = {}
    for path in paths:
        for name, run in kept(path, "runs").items():
            for line in str(run.get("verdict")).splitlines():
                numbers = re.search(
                    r"([\d,]+) gradients, (?:roughly|some) ([\d,]+).* predicted", line
                )
                if line.startswith("warm-nuts") and numbers:
                    taken, least = (int(text.replace(",", "")) for text in numbers.groups())
                    found[name.replace("/answer/", " ")] = taken, least, "own adaptation" in line
    return found


def report_answers(made: Mapping[str, tuple[int, int, bool]]) -> None:
    """A line a run, and how far the least that is predicted is off."""
    for name, (taken, least, left) in made.items():
        print(
            f"{name:52}{least:9,}{taken:11,}{taken / least:7.2f}{'  left the map' if left else ''}"
        )
    ratios = np.array([taken / least for taken, least, _ in made.values()])
    print(f"{len(ratios)} runs: median {np.median(ratios):.1f}, {np.sum(ratios <= UP_TO)} at most "
          f"{UP_TO} times, {ratios.min():.2f} to {ratios.max():.0f}")  # fmt: skip


def main() -> None:
    """Make what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", nargs="+", default=[str(EMBEDDED)])
    parser.add_argument("--posteriors", nargs="+", default=["*"])
    parser.add_argument("--most", type=int, default=400, help="parameters")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--answers", action="store_true", help="those of stored answers alone")
    arguments = parser.parse_args()
    if arguments.answers:
        return report_answers(of_answers(sorted(RESULTS.parent.glob("answer*.json"))))
    runs = Runs(arguments.out, "runs")
    for case in problems(arguments.database, arguments.posteriors):
        if case.stan_target.dimension <= arguments.most:
            runs(case.case.name, measured, case)
    report(runs.made)


if __name__ == "__main__":
    main()
