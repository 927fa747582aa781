"""Bernstein flow and NumPyro's AutoIAFNormal on non-centred eight schools in the same total time.

    python -m benchmarks.papers.bfvi_side_by_side --peers PEERS/bin/python [--steps 6000]
        [--seeds 5] [--polish none|auto] [--results FOLDER]

The flow runs first, with the JAX loop and 10 draws a step; NumPyro then gets the seconds that it
took, tracing and compiling included for both. The ELBO and k̂ of both come from 50,000 draws.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_ext as px
from benchmarks import record
from benchmarks.papers.bfvi_cases import eight_schools_ncp
from bridge.measures.khat import pareto_khat

DRAWS = 50_000
SCRIPT = Path(__file__).with_name("bfvi_numpyro.py")


def ours(steps: int, polish: str | None, seed: int) -> dict[str, Any]:
    """ELBO, k̂ and seconds of the flow."""
    begin = time.perf_counter()
    with eight_schools_ncp():
        method = px.BernsteinVI(
            px.FlowShape(10, (32, 32)),
            base="identity",
            polish=polish,
            step=px.StepOptions(learning_rate=0.01),
            backend="jax",
            random_seed=seed,
        )
        approx = pm.fit(steps, method=method, obj_n_mc=10, progressbar=False)
    seconds = time.perf_counter() - begin
    _, lp, lq = approx.draws_with_logs(DRAWS, random_seed=1000 + seed)
    weighted = approx.weighted_draws(DRAWS, random_seed=1000 + seed)
    return {"elbo": float(np.mean(lp - lq)), "khat": pareto_khat(*weighted[1:]).value,
            "seconds": seconds, "steps": approx.result.iterations,
            "stages": [stage.describe() for stage in approx.stages]}  # fmt: skip


def theirs(python: str, seconds: float, seed: int) -> dict[str, Any]:
    """The same of NumPyro, given as many seconds."""
    done = subprocess.run(
        [python, str(SCRIPT), str(seconds), str(seed)], capture_output=True, text=True, check=True
    )
    out = json.loads(done.stdout.splitlines()[-1])
    ratios = np.load(out.pop("file"))
    return {**out, "khat": pareto_khat(ratios, np.zeros_like(ratios)).value}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", required=True, help="Python of an environment with numpyro")
    parser.add_argument("--steps", type=int, nargs="+", default=[6000])
    parser.add_argument("--polish", choices=("none", "auto"), default="none")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    polish = None if given.polish == "none" else given.polish
    suffix = "" if polish is None else "_polished"
    table: dict[str, Any] = {}
    for steps in given.steps:
        rows = table[f"{steps} steps"] = []
        for seed in range(1, given.seeds + 1):
            flow = ours(steps, polish, seed)
            rows.append({"flow": flow, "iaf": theirs(given.peers, flow["seconds"], seed)})
            for name, row in rows[-1].items():
                print(
                    f"seed {seed}, {name}: ELBO {row['elbo']:.4f}, k̂ {row['khat']:.2f}, "
                    f"{row['steps']} steps in {row['seconds']:.1f} s",
                    flush=True,
                )
            record.write(given.results / f"bfvi_side_by_side{suffix}.json", table)


if __name__ == "__main__":
    main()
