"""Flows on a Stan density by today's code, beside this project's own code at commit 458124b.

    git worktree add --detach /tmp/then 458124b
    python -m benchmarks.speed.flows_then --then /tmp/then [--repeats 2] [--out FILE]

Eight schools, not centred, by its compiled Stan program, ten draws a step: steps per CPU second of
the flow of order 10 and 50, by default and as in the paper (``total``: by the estimator of then,
today), and one whole fit of each code by its defaults, with its CPU seconds (the second in a
process, so that nothing is compiled), gradients and ELBO. Each row is a process of its own; run it
with OMP_NUM_THREADS=1 while nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.record import Runs

RESULTS = Path(__file__).parent / "results" / "flows_then.json"
ROOT = Path(__file__).resolve().parents[2]
STEPS = 3_000
# What a process prints, as JSON: of a flow of order ``sys.argv[1]`` with options ``sys.argv[2]``;
# of a fit with that seed.
COMMON = """
import json, sys, time, warnings, logging
warnings.simplefilter("ignore"), logging.disable(logging.WARNING)
import numpy as np, pymc as pm
import pymc_ext as px
import benchmarks.speed.bernstein as speed
from posteriordb_cases import load_case
from stan_models import StanProgram
order, options = int(sys.argv[1]), json.loads(sys.argv[2])
case = load_case("eight_schools-eight_schools_noncentered")
program = StanProgram(case.stan_code, name=case.model_name)
"""
THEN = (
    COMMON
    + """
from bridge import stan_model
model = stan_model(program, case.data)
"""
)
STEPS_THEN = (
    THEN
    + f"""
speed.eight_schools_ncp = lambda: model
row = speed.loop_row("pytensor", {STEPS}, order, **options)
print(json.dumps({{"steps_per_cpu_second": row["steps_per_cpu_second"]}}))
"""
)
FIT_THEN = (
    THEN
    + """
for _ in range(2):
    begin = time.process_time()
    with model:
        approx = pm.fit(method=px.BernsteinVI(random_seed=order), progressbar=False)
    seconds = time.process_time() - begin
result = approx.result
print(json.dumps({"cpu_s": seconds, "elbo": float(result.elbo)}))
"""
)
STEPS_NOW = (
    COMMON
    + f"""
from dataclasses import replace
gradient = options.pop("gradient", "auto")
def prepared(method, density):
    algorithm, counted = method.algorithm, speed.CountedDensity(density)
    flow = algorithm.make_flow(counted, method.approx.group.start, seed=1)
    step = replace(algorithm.step, gradient=gradient)
    loop = algorithm.make_loop(flow, counted, step, np.random.default_rng(1))
    loop.run(100, speed.RATE, 1.0)
    return loop
speed.prepared = prepared
row = speed.stan_row({STEPS}, order, **options)
print(json.dumps({{"steps_per_cpu_second": row["steps_per_cpu_second"]}}))
"""
)
FIT_NOW = (
    COMMON
    + """
from pymc_ext.variational.bernstein.algorithm import Bernstein
density = program.density(case.data)
for _ in range(2):
    begin = time.process_time()
    fit = Bernstein().fit(density, random_seed=order)
    seconds = time.process_time() - begin
print(json.dumps({"cpu_s": seconds, "elbo": float(fit.result.elbo),
                  "gradients": fit.result.gradient_evaluations}))
"""
)
PAPERS = {"tails": "bounded", "conditioning": "squashed"}
FLOWS: dict[str, dict[str, str]] = {"default": {}, "paper's": PAPERS}


def child(code: str, where: Path, first: int, options: dict[str, str]) -> dict[str, float]:
    """What the code prints, run with the packages of ``where``."""
    environment = {**os.environ, "PYTHONPATH": str(where)}
    ended = subprocess.run(
        [sys.executable, "-c", code, str(first), json.dumps(options)],
        cwd=where, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise RuntimeError(ended.stderr[-2000:])
    return json.loads(ended.stdout.splitlines()[-1])


def main() -> None:
    """Run what is missing, print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--then", type=Path, required=True, help="a checkout of 458124b")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    then, runs = arguments.then.resolve(), Runs(arguments.out, "runs")
    for repeat in range(1, arguments.repeats + 1):
        for order in (10, 50):
            for flow, options in FLOWS.items():
                key = f"steps, order {order}, {flow}"
                total = {**options, "gradient": "total"}
                runs(f"{key}/then/{repeat}", child, STEPS_THEN, then, order, options)
                runs(f"{key}/now/{repeat}", child, STEPS_NOW, ROOT, order, options)
                runs(f"{key}/total/{repeat}", child, STEPS_NOW, ROOT, order, total)
        runs(f"fit/then/{repeat}", child, FIT_THEN, then, repeat, {})
        runs(f"fit/now/{repeat}", child, FIT_NOW, ROOT, repeat, {})
    for key, row in runs.made.items():
        print(f"{key:40}", *(f"{name} {value:,.5g}" for name, value in row.items()))


if __name__ == "__main__":
    main()
