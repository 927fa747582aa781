"""NUTS in a flow's coordinates beside NUTS in a map's and nutpie alone, where no weights serve.

    python -m benchmarks.speed.bent_nuts [--targets NAME ...] [--seeds 3] [--budget 2000000]
        [--databases PATH ... --posteriors NAME ...] [--steps N] [--out FILE]

Bananas, Neal's funnels and horseshoes of the zoo, whose truth is known, and posteriors of databases
in the layout of posteriordb, held against their reference draws. Three runs on each, to ESS 400 of
every quantity, R̂ <= 1.02 and sds as well known as means: ``flow-nuts`` (Hoffman et al. 2019,
arXiv:1903.03704; a short flow on the map), ``warm-nuts`` (the map alone), ``nutpie`` (its default
adaptation from random starts). Gradients count all: fit, warm-up, draws. Each run is kept as it
ends. With ``--steps`` the flow has another number of steps, and nothing else runs.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.record import Runs
from benchmarks.speed.flows import found
from bridge.comparison.problem import CaseProblem
from bridge.methods.method import Problem
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS
from bridge.methods.warm_nuts import WarmNUTS
from bridge.zoo.judge import judged
from posteriordb_cases.zoo import ZOO, truth_of
from pymc_ext.density import Density
from pymc_ext.maths.types import Array
from pymc_ext.sampling.nutpie import NutpieNUTS
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample

RESULTS = Path(__file__).parent / "results" / "bent_nuts.json"
TARGETS = ("banana-2", "banana-10", "funnel-2", "funnel-10", "funnel-100", "horseshoe",
           "horseshoe-centred", "product-0")  # fmt: skip
RUNS = ("flow-nuts", "warm-nuts", "nutpie")
Numbers = dict[str, float | int | str | bool | None]


def made(name: str, run: str, seed: int, budget: int) -> Numbers:
    """One run on a target of the zoo."""
    density, begin = ZOO[name].make(), time.process_time()
    numbers, theta = drawn(as_problem(density, None), density, run, seed, budget)
    numbers["cpu_s"] = round(time.process_time() - begin, 2)
    judgement = judged(density, truth_of(density), theta.reshape(-1, density.dimension))
    return numbers | {"mean_error": judgement.mean_error, "sd_ratio": judgement.sd_ratio,
                      "dimension": density.dimension}  # fmt: skip


def made_on(problem: CaseProblem, run: str, seed: int, budget: int) -> Numbers:
    """One run on a posterior with reference draws."""
    target = problem.stan_target
    truth = problem.reference_theta(target)
    truth, begin = truth.reshape(-1, truth.shape[-1]), time.process_time()
    numbers, theta = drawn(problem, target.density, run, seed, budget)
    numbers["cpu_s"] = round(time.process_time() - begin, 2)
    theta = theta.reshape(-1, theta.shape[-1])
    ratios = theta.std(axis=0) / truth.std(axis=0)
    errors = np.abs(theta.mean(axis=0) - truth.mean(axis=0)) / truth.std(axis=0)
    return numbers | {"mean_error": float(errors.max()), "dimension": theta.shape[1],
                      "sd_ratio": float(ratios[np.argmax(np.abs(np.log(ratios)))])}  # fmt: skip


def drawn(
    problem: Problem, density: Density, run: str, seed: int, budget: int
) -> tuple[Numbers, Array]:
    """One run: what it took, and its draws (chains, draws, D)."""
    options = Sampling(budget=budget)
    if run == "nutpie":
        chains = sample(density, None, NutpieNUTS(), options, seed=seed)
        return {
            "gradients": chains.gradient_evaluations,
            "trusted": chains.trusted,
            "verdict": chains.verdict,
            "divergences": chains.diagnostics.divergences,
        }, chains.theta
    name, _, steps = run.partition(":")
    method = METHODS[name].run
    assert isinstance(method, WarmNUTS)
    if steps:
        method = replace(method, n=int(steps))
    fit = replace(method, options=options)(problem, 0, seed)
    kept = ("trusted", "verdict", "divergences", "approximation_gradients", "in_map")
    return {"gradients": fit.gradient_evaluations} | {k: fit.info[k] for k in kept}, fit.theta


def report(runs: Mapping[str, Numbers]) -> None:
    """A row a target: medians of gradients, how many of the runs are trusted, the worst error."""
    names = dict.fromkeys(key.split("/")[0] for key in runs)
    kinds = dict.fromkeys((*RUNS, *(key.split("/")[1] for key in runs)))
    print(f"{'target':20}" + "".join(f"{kind:>38}" for kind in kinds))
    for name in names:
        row = f"{name:20}"
        for run in kinds:
            own = [n for key, n in runs.items() if key.startswith(f"{name}/{run}/")]
            if own:
                gradients = np.median([float(n["gradients"] or 0) for n in own])
                trusted = sum(bool(n["trusted"]) for n in own)
                sds = [float(n["sd_ratio"] or 0) for n in own]
                most = max(int(n["divergences"] or 0) for n in own)
                row += f"{gradients:12,.0f} {trusted}/{len(own)}"
                row += f" sd {min(sds):4.2f}–{max(sds):4.2f} div {most:5}"
            else:
                row += " " * 38
        print(row)


def main() -> None:
    """Make what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="*", default=list(TARGETS), choices=list(ZOO))
    parser.add_argument("--posteriors", nargs="*", default=[])
    parser.add_argument("--databases", nargs="*", type=Path, default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=2_000_000)
    parser.add_argument("--steps", type=int, help="of the flow, in place of all three runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    kinds = RUNS if arguments.steps is None else (f"flow-nuts:{arguments.steps}",)
    runs = Runs(arguments.out, "runs", budget=arguments.budget)
    for name in arguments.targets:
        for seed in range(1, arguments.seeds + 1):
            for run in kinds:
                runs(f"{name}/{run}/{seed}", made, name, run, seed, arguments.budget)
    for name in arguments.posteriors:
        problem = found(name, arguments.databases)
        if problem is None:
            parser.error(f"no database of --databases has a Stan program of {name}")
        for seed in range(1, arguments.seeds + 1):
            for run in kinds:
                runs(f"{name}/{run}/{seed}", made_on, problem, run, seed, arguments.budget)
    report(runs.made)


if __name__ == "__main__":
    main()
