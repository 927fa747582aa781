"""Speed of Bernstein flow training: the fused Op, both loops, compilation.

    python -m benchmarks.speed.bernstein [--steps 2000] [--results FOLDER]

Eight schools (D = 10), order 50, two layers of 10, 10 draws a step, on PyMC's density and on that
of the compiled Stan program; run it with OMP_NUM_THREADS=1
and NPROC=1 in the environment (one thread for JAX, whose pool takes more than it gives here).
The default flow has quadratic tails and two networks, the paper's neither.
The Op's table is microseconds for 100 rows of 50 increments, fused against pure PyTensor. Steps per
CPU second count this process alone, so that a busy machine does not slow them down. Last, in new
processes, the seconds of a whole fit of 100 steps (graphs, compilation, ELBO on fresh draws; not
the imports), with an empty folder of PyTensor's compiled code and with the one that this leaves.
``growth`` is CPU microseconds of one step for D standard normals (order 10), and the exponent of D
from one D to the next (limit: 2).
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import pymc_ext as px
from benchmarks import record
from benchmarks.papers.bfvi_cases import eight_schools_ncp
from pymc_ext.density import CountedDensity
from pymc_ext.maths.bernstein_basis import bernstein_polynomial

ORDER, ROWS = 50, 100
HIDDEN = (10, 10)  # the paper's; the default grows with the dimension
RATE = 0.01
FLOWS: dict[str, dict[str, str]] = {
    "default": {},
    "paper's": {"tails": "bounded", "conditioning": "squashed"},
}
START = """
import sys, time
import pymc as pm
import pymc_ext as px
from benchmarks.papers.bfvi_cases import eight_schools_ncp
order, shape = int(sys.argv[1]), dict(pair.split("=") for pair in sys.argv[2:])
backend = shape.pop("backend")
begin = time.perf_counter()
with eight_schools_ncp():
    shape = px.FlowShape(order, **shape)
    method = px.BernsteinVI(shape, base="identity", backend=backend, random_seed=1)
    pm.fit(100, method=method, progressbar=False)
print(time.perf_counter() - begin)
"""


def cpu(function: Callable[[], Any], repeats: int = 300) -> float:
    """CPU microseconds of one call, the best of five batches."""
    function()
    times = []
    for _ in range(5):
        begin = time.process_time()
        for _ in range(repeats):
            function()
        times.append((time.process_time() - begin) / repeats)
    return 1e6 * min(times)


def op_table() -> dict[str, float]:
    """Value, and value with gradient, of the fused Op and of the pure graph."""
    rng = np.random.default_rng(1)
    x_value, raw_value = rng.standard_normal(ROWS), rng.standard_normal((ROWS, ORDER))
    out = {}
    for name, function in (("fused", px.bernstein_map), ("pure", bernstein_polynomial)):
        x, raw = pt.vector("x"), pt.matrix("raw", shape=(None, ORDER))
        value, log_derivative = function(x, raw)
        gradient = pt.grad((value + log_derivative).sum(), [x, raw])
        for label, outputs in (("value", [value, log_derivative]), ("gradient", gradient)):
            f = pytensor.function([x, raw], outputs)
            f.trust_input = True
            out[f"{name} {label}"] = cpu(lambda f=f: f(x_value, raw_value))
    return out


def prepared(method: px.BernsteinVI, density: Any) -> Any:
    """The loop that a fit by ``method`` on ``density`` would train with, compiled."""
    algorithm, counted = method.algorithm, CountedDensity(density)
    flow = algorithm.make_flow(counted, method.approx.group.start, seed=1)
    loop = algorithm.make_loop(flow, counted, algorithm.step, np.random.default_rng(1))
    loop.run(100, RATE, 1.0)
    return loop


def rates(loop: Any, steps: int) -> dict[str, float]:
    """Steps per CPU and wall second."""
    cpu_begin, wall_begin = time.process_time(), time.perf_counter()
    for _ in range(steps // 100):
        loop.run(100, RATE, 1.0)
    return {
        "steps_per_cpu_second": steps / (time.process_time() - cpu_begin),
        "steps_per_second": steps / (time.perf_counter() - wall_begin),
    }


def loop_row(backend: str, steps: int, order: int, **options: str) -> dict[str, float]:
    """Steps per second after compilation, and seconds of compilation, on the PyMC model."""
    begin = time.perf_counter()
    shape = px.FlowShape(order, HIDDEN, **options)
    method = px.BernsteinVI(
        shape, base="identity", backend=backend, model=eight_schools_ncp(), random_seed=1
    )
    loop = prepared(method, method.approx.density)
    compiled = time.perf_counter() - begin
    return {**rates(loop, steps), "compile_seconds": compiled}


def stan_row(steps: int, order: int, **options: str) -> dict[str, float]:
    """The same on the density of the compiled Stan program."""
    from posteriordb_cases import load_case
    from stan_models import StanProgram

    case = load_case("eight_schools-eight_schools_noncentered")
    density = StanProgram(case.stan_code, name=case.model_name).density(case.data)
    begin = time.perf_counter()
    shape = px.FlowShape(order, HIDDEN, **options)
    method = px.BernsteinVI(shape, base="identity", model=eight_schools_ncp(), random_seed=1)
    loop = prepared(method, density)
    return {**rates(loop, steps), "compile_seconds": time.perf_counter() - begin}


def growth(steps: int = 200) -> list[dict[str, float]]:
    """CPU microseconds of one step against the dimension, and its growth."""
    rows: list[dict[str, float]] = []
    for D in (25, 50, 100, 200, 400):
        with pm.Model() as model:
            pm.Normal("x", 0.0, 1.0, shape=D)
        method = px.BernsteinVI(
            px.FlowShape(10, HIDDEN), base="identity", model=model, random_seed=1
        )
        loop = prepared(method, method.approx.density)
        row = {"D": D, "microseconds": cpu(lambda loop=loop: loop.run(1, RATE, 1.0), steps)}
        if rows:
            row["exponent"] = float(np.log2(row["microseconds"] / rows[-1]["microseconds"]))
        rows.append(row)
    return rows


def start_row(**options: str) -> dict[str, float]:
    """Seconds of a short fit in a new process, PyTensor's compiled code missing and there."""
    arguments = [str(ORDER), *(f"{name}={value}" for name, value in options.items())]
    command = [sys.executable, "-W", "ignore", "-c", START, *arguments]
    row = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={folder}"}
        for name in ("cold_seconds", "warm_seconds"):
            out = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            row[name] = float(out.stdout.split()[-1])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    results: dict[str, Any] = {"op_microseconds": op_table()}
    for name, value in results["op_microseconds"].items():
        print(f"{name}: {value:.0f} µs", flush=True)
    backends = ["pytensor", *(["jax"] if find_spec("jax") else [])]
    for backend in backends:
        for order, (flow, options) in itertools.product((10, ORDER), FLOWS.items()):
            name = f"{backend}, M={order}, {flow} flow"
            row = results[name] = loop_row(backend, given.steps, order, **options)
            print(f"{name}: " + ", ".join(f"{k} {v:.1f}" for k, v in row.items()), flush=True)
    for flow, options in FLOWS.items():
        name = f"Stan density, M={ORDER}, {flow} flow"
        row = results[name] = stan_row(given.steps, ORDER, **options)
        print(f"{name}: " + ", ".join(f"{k} {v:.1f}" for k, v in row.items()), flush=True)
    results["growth"] = growth()
    for row in results["growth"]:
        print(", ".join(f"{k} {v:.4g}" for k, v in row.items()), flush=True)
    for backend, (flow, options) in itertools.product(backends, FLOWS.items()):
        name = f"first fit: {backend}, {flow} flow"
        row = results[name] = start_row(backend=backend, **options)
        print(f"{name}: " + ", ".join(f"{k} {v:.1f}" for k, v in row.items()), flush=True)
    record.write(given.results / "bernstein.json", results)


if __name__ == "__main__":
    main()
