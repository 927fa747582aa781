"""Answers of `bridge.fit` on centred hierarchies drawn by chance, each with its exact posterior.

    python -m benchmarks.speed.hierarchies [--kind groups] [--sets 48] [--first 0]

Of kind ``groups`` each set has 3 to 15 groups, standard errors between .5 and 2, a half-Cauchy
prior of the groups' sd τ whose scale is .5 to 5, and data of a τ around .6. Of kind ``rows`` it has
twelve groups of four rows whose spread is not known, a half-normal prior, and data of a τ of .3 to
1, as a user simulated them; two seeds a set. Of kind ``effects`` intercepts and slopes of 10 to 20
groups of 5 to 8 rows vary together, an LKJ prior on their correlation, with exponential priors on
two scales and on σ, and data of scales of .2 to 1. Of kind ``many`` it has hundreds of effects: 100
to 280 groups of known standard errors, or intercepts and slopes of 50 or 60 groups, with data of
scales from .1 on, which leave a neck. Of kind ``more`` it has 30 to 80 groups of 2 to 4 rows whose
spread is not known, and data of a τ of .1, .3 or 1. Of kind ``crossed`` each row has an effect of
either of two factors, of 5 to 40 and 4 to 20 levels, 40 to 100 % of the pairs, with exponential
priors on three scales and data of scales of .1 to 1. Of kind ``levels`` a level of 10 to 60 times
walks under noise, half-normal priors on both scales, and data of scales of .1 to 1: either may
vanish, and half a percent of the mass have half of a variance. Of kind ``nested`` rows are in
groups and these in 4 to 8 regions, with exponential priors on three scales and data of scales of
.1 to 1. No default was chosen by any of
them, but that ``more`` shows where the law of groups has to be refused. The density has no names
and no order but that of its coordinates. Given are the sd of log τ, of which much lies in the neck,
as a share of the exact one (of two scales that farther from it), and the largest error of a mean in
posterior sds, both with the draws' own noise (2 to 5 %, more of tails). Runs are kept as they end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import bridge
from benchmarks.record import Runs
from posteriordb_cases.zoo.crossed import Crossed
from posteriordb_cases.zoo.crossed import simulated as simulated_crossed
from posteriordb_cases.zoo.density import ZooDensity
from posteriordb_cases.zoo.effects import CorrelatedEffects
from posteriordb_cases.zoo.effects import simulated as correlated
from posteriordb_cases.zoo.levels import LocalLevel
from posteriordb_cases.zoo.levels import simulated as simulated_level
from posteriordb_cases.zoo.nested import Nested
from posteriordb_cases.zoo.nested import simulated as simulated_nested
from posteriordb_cases.zoo.rows import Rows, simulated
from posteriordb_cases.zoo.schools import Groups

RESULTS = Path(__file__).parent / "results" / "hierarchies.json"
SEED, MOST_NUMBERS, SPREAD = 7, 10_000_000, 10.0
TRUE_SCALES = 0.3, 0.5, 0.7, 1.0
PLACES = {
    CorrelatedEffects: [2, 3],
    Crossed: [1, 2],
    LocalLevel: [0, 1],
    Nested: [1, 2],
}  # of log scales in θ, else 1
Row = dict[str, object]


def groups(index: int) -> Groups:
    """One posterior of known standard errors; the same for an index."""
    rng = np.random.default_rng([SEED, index])
    J, prior = int(rng.choice([3, 4, 5, 6, 8, 10, 15])), float(rng.choice([0.5, 1, 2.5, 5]))
    tau = float(np.exp(rng.normal(-0.5, 1)))
    sigma = rng.uniform(0.5, 2, J)
    y = rng.normal(0, tau, J) + rng.normal(0, sigma) + rng.normal(0, 1)
    return Groups(True, y, sigma, SPREAD, prior)


def rows(index: int) -> Rows:
    """One of rows; two indices have the same."""
    return simulated(100 + index // 2, TRUE_SCALES[index // 2 % len(TRUE_SCALES)])


def effects(index: int) -> CorrelatedEffects:
    """One of correlated effects; two indices have the same."""
    rng = np.random.default_rng([SEED, index // 2, 1])
    count, each = int(rng.choice([10, 12, 15, 20])), int(rng.choice([5, 6, 8]))
    scale = float(rng.choice([0.2, 0.3, 0.4, 0.5, 0.7, 1.0]))
    return correlated(200 + index // 2, scale, count, each)


def many(index: int) -> Groups | CorrelatedEffects:
    """One of 100 to 280 coordinates and more."""
    rng = np.random.default_rng([SEED, index, 2])
    if index % 2:
        scale, count = float(rng.choice([0.1, 0.2, 0.3])), int(rng.choice([50, 60]))
        return correlated(300 + index, scale, count, 5)
    J, tau = int(rng.choice([100, 150, 200, 280])), float(rng.choice([0.1, 0.2, 0.3, 0.5]))
    sigma = rng.uniform(0.5, 2, J)
    y = rng.normal(0, tau, J) + rng.normal(0, sigma) + rng.normal(0, 1)
    return Groups(True, y, sigma, SPREAD, 1.0)


def more(index: int) -> Rows:
    """One of rows, of more groups."""
    rng = np.random.default_rng([SEED, index, 3])
    shape = int(rng.integers(30, 80)), int(rng.integers(2, 5))
    return simulated(400 + index, float(rng.choice([0.1, 0.3, 1.0])), 1.0, shape)


def crossed(index: int) -> Crossed:
    """One of two factors that cross."""
    rng = np.random.default_rng([SEED, index, 4])
    shape = int(rng.choice([5, 8, 12, 20, 40])), int(rng.choice([4, 6, 10, 20]))
    scales = float(rng.choice([0.1, 0.3, 1.0])), float(rng.choice([0.1, 0.3, 1.0]))
    return simulated_crossed(500 + index, scales, shape, float(rng.choice([0.4, 0.7, 1.0])))


def level(index: int) -> LocalLevel:
    """One of a level that walks at random."""
    rng = np.random.default_rng([SEED, index, 5])
    step, noise = (float(rng.choice([0.1, 0.3, 1.0])) for _ in range(2))
    return simulated_level(600 + index, step, noise, int(rng.choice([10, 20, 30, 60])))


def nested(index: int) -> Nested:
    """One of three levels."""
    rng = np.random.default_rng([SEED, index, 6])
    regions, groups, each = (int(rng.choice(sizes)) for sizes in ([4, 5, 6, 8], [2, 3, 5], [2, 4]))
    scales = float(rng.choice([0.1, 0.3, 1.0])), float(rng.choice([0.1, 0.3, 1.0]))
    return simulated_nested(700 + index, scales, (regions, groups, each))


KINDS: dict[str, Callable[[int], ZooDensity]] = {
    "groups": groups,
    "rows": rows,
    "effects": effects,
    "many": many,
    "more": more,
    "crossed": crossed,
    "levels": level,
    "nested": nested,
}


def answered(kind: str, index: int) -> Row:
    """What `bridge.fit` says of it, and what is true."""
    target = KINDS[kind](index)
    count = min(200_000, MOST_NUMBERS // target.dimension)
    exact = target.draws(count, np.random.default_rng(0))
    answer = bridge.fit(target, random_seed=index, progressbar=False)
    draws = answer.idata["posterior"]["theta"].to_numpy().reshape(-1, target.dimension)
    errors = (draws.mean(axis=0) - exact.mean(axis=0)) / exact.std(axis=0)
    log_scales = PLACES.get(type(target), [1])
    sds = draws[:, log_scales].std(axis=0) / exact[:, log_scales].std(axis=0)
    return {
        "kind": kind,
        "dimension": target.dimension,
        "trusted": answer.trusted,
        "taken": answer.method,
        "gradients": answer.gradients,
        "sd_of_log_tau": float(sds[np.argmax(np.abs(np.log(sds)))]),
        "mean_error": float(np.abs(errors).max()),
    }


def table(rows: Sequence[Row]) -> str:
    """A line a set, and what they come to."""
    lines = [f"{'kind':7} {'D':>3} trusted {'taken':12} gradients  sd of log tau  mean error"]
    for row in rows:
        lines.append(
            f"{row['kind']:7} {row['dimension']:3} {row['trusted']!s:7} {row['taken']:12} "
            f"{row['gradients']:9,} {row['sd_of_log_tau']:14.3f} {row['mean_error']:11.3f}"
        )
    trusted = [row for row in rows if row["trusted"]]
    sd = np.array([row["sd_of_log_tau"] for row in trusted], dtype=float)
    by_weights = sum(row["taken"] == "hierarchical" for row in trusted)
    gradients = np.median([row["gradients"] for row in rows])
    lines.append(
        f"{len(trusted)} of {len(rows)} trusted, {by_weights} by weights; sd of log tau "
        f"{sd.min():.3f} to {sd.max():.3f}, {sd.mean():.3f} in mean, beyond 10 % off in "
        f"{np.sum(np.abs(sd - 1) > 0.1)}; median of {gradients:,.0f} gradients"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, default="groups")
    parser.add_argument("--sets", type=int, default=48)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for index in range(options.first, options.first + options.sets):
        runs(f"{options.kind} {index}", answered, options.kind, index)
    print(table([row for row in runs.made.values() if row["kind"] == options.kind]))


if __name__ == "__main__":
    main()
