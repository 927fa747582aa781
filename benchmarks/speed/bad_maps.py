"""What a map that does not serve costs: gradients beside those of chains without one.

    python -m benchmarks.speed.bad_maps [--targets NAME ...] [--seeds 5] [--out FILE]

Targets of the zoo that have one mode; the map is a Gaussian drawn at random, N(0, A Aᵀ/D + .01 I)
with A of standard normals, which knows nothing of the posterior. Two runs on each, by nutpie to ESS
400 of every quantity: ``cold`` (its default adaptation from random starts), ``map`` (in the map's
coordinates, given up where they do not serve). Each run is kept as it ends.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.record import Runs
from posteriordb_cases.zoo import ZOO
from pymc_ext.sampling.nutpie import NutpieNUTS
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import BudgetSpentError, sample
from pymc_ext.variational.gaussian.posteriors import Gaussian

RESULTS = Path(__file__).parent / "results" / "bad_maps.json"
TARGETS = ("schools", "regression-6", "groups-7", "warped-5", "skewed-5", "quartic-4",
           "logistic-10", "effects-12")  # fmt: skip
RUNS = ("cold", "map")
BUDGET = 500_000
Numbers = dict[str, float | int | str | bool | None]


def random_gaussian(dimension: int, seed: int) -> Gaussian:
    """N(0, A Aᵀ/D + .01 I)."""
    A = np.random.default_rng(seed).standard_normal((dimension, dimension))
    cov = A @ A.T / dimension + 0.01 * np.eye(dimension)
    return Gaussian(np.zeros(dimension), np.linalg.cholesky(cov))


def made(name: str, run: str, seed: int) -> Numbers:
    """One run on a target of the zoo."""
    density = ZOO[name].make()
    q = None if run == "cold" else random_gaussian(density.dimension, seed)
    try:
        found = sample(density, q, NutpieNUTS(), Sampling(budget=BUDGET), seed=seed)
    except BudgetSpentError:
        return {"gradients": BUDGET, "in_map": None, "trusted": False}
    return {
        "gradients": found.gradient_evaluations,
        "in_map": found.in_map,
        "trusted": found.trusted,
        "mean_steps": round(float(found.statistics["n_steps"].mean()), 1),
    }


def table(runs: dict[str, Numbers], targets: list[str], seeds: int) -> str:
    """Medians of the seeds, how many are trusted, and the ratio to the cold run of a seed."""
    lines = [f"{'target':14}    cold     map  trusted of {seeds}    left  map/cold  worst"]
    for name in targets:
        of = {run: [runs[f"{name}/{run}/{s}"] for s in range(1, seeds + 1)] for run in RUNS}
        gradients = {run: np.array([float(x["gradients"] or 0) for x in of[run]]) for run in RUNS}
        ratio = gradients["map"] / gradients["cold"]
        medians = "".join(f"{np.median(gradients[run]):8,.0f}" for run in RUNS)
        trusted = " and ".join(str(sum(bool(x["trusted"]) for x in of[run])) for run in RUNS)
        left = sum(x["in_map"] is False for x in of["map"])
        lines.append(
            f"{name:14}{medians}{trusted:>14}{left:8}{np.median(ratio):10.2f}{ratio.max():7.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    runs = Runs(args.out, "runs", budget=BUDGET)
    for name in args.targets:
        for seed in range(1, args.seeds + 1):
            for run in RUNS:
                runs(f"{name}/{run}/{seed}", made, name, run, seed)
        print(table(runs.made, [name], args.seeds), flush=True)
    print(table(runs.made, args.targets, args.seeds))


if __name__ == "__main__":
    main()
