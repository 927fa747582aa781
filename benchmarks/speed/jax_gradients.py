"""Path gradients in JAX's loop beside the usual estimator: ELBO, steps a second, compilation.

    python -m benchmarks.speed.jax_gradients [--seeds 2] [--out FILE]

Flows of the default shape from the identity, ten draws a step, as `pm.fit` with at most so many
steps leaves them: the ELBO of the same 20,000 normals, and CPU seconds of the whole fit, JAX's
compilation included. ``step`` is CPU microseconds of one step and the seconds of compilation for D
standard normals. ``numba`` is the loop of ``backend="pytensor"``, by path gradients too. Run it
with OMP_NUM_THREADS=1 and NPROC=1 in the environment.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_ext as px
from benchmarks.record import Runs
from benchmarks.speed.bernstein import prepared, rates
from benchmarks.speed.elbo_curves import MODELS

RESULTS = Path(__file__).parent / "results" / "jax_gradients.json"
WAYS = {  # backend, gradient
    "path": ("jax", "path"),
    "total": ("jax", "total"),
    "numba": ("pytensor", "path"),
}
STEPS = 1_000, 3_000, 10_000
# Name, standard normals, hidden layers (None: the default), steps that are timed.
LOOPS: tuple[tuple[str, int, tuple[int, ...] | None, int], ...] = (
    ("10", 10, None, 1_000),
    ("50", 50, None, 1_000),
    ("100", 100, None, 1_000),
    ("100, two layers of 512", 100, (512, 512), 200),
)
DRAWS = 20_000
Row = dict[str, float]


def method(
    way: str, model: pm.Model, seed: int, hidden: tuple[int, ...] | None = None
) -> px.BernsteinVI:
    """From the identity, without a proposal."""
    backend, gradient = WAYS[way]
    return px.BernsteinVI(
        px.FlowShape(hidden=hidden), base="identity", backend=backend, polish=None, model=model,
        step=px.StepOptions(gradient=gradient), random_seed=seed,
    )  # fmt: skip


def fit(name: str, way: str, steps: int, seed: int) -> Row:
    """What a user has after ``steps`` steps at most."""
    begin = time.process_time()
    approx = method(way, MODELS[name](), seed).fit(steps, progressbar=False)
    seconds = time.process_time() - begin
    z = np.random.default_rng(7).standard_normal((DRAWS, approx.q.latent_dimension))
    log_ratios = approx.log_ratios(z)
    return {
        "elbo": float(log_ratios.mean()),
        "error": float(log_ratios.std() / np.sqrt(DRAWS)),
        "steps": approx.result.iterations,
        "cpu_s": seconds,
    }


def step(dimension: int, hidden: tuple[int, ...] | None, steps: int, way: str) -> Row:
    """Of one loop on standard normals."""
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0, shape=dimension)
    begin, made = time.perf_counter(), method(way, model, 1, hidden)
    loop = prepared(made, made.approx.density)
    compiled = time.perf_counter() - begin
    return {
        "microseconds": 1e6 / rates(loop, steps)["steps_per_cpu_second"],
        "compile_seconds": compiled,
    }


def report(made: Mapping[str, Row]) -> None:
    """A line a run."""
    for key, row in made.items():
        print(f"{key:36}", ", ".join(f"{name} {value:.6g}" for name, value in row.items()))


def main() -> None:
    """Make what is missing, then print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # few steps do not converge, and need not
    runs = Runs(arguments.out, "runs")
    for way in WAYS:
        for loop, dimension, hidden, timed in LOOPS:
            runs(f"step/{loop}/{way}", step, dimension, hidden, timed, way)
        for name in MODELS:
            for steps in STEPS:
                for seed in range(1, arguments.seeds + 1):
                    runs(f"{name}/{steps}/{way}/{seed}", fit, name, way, steps, seed)
    report(runs.made)


if __name__ == "__main__":
    main()
