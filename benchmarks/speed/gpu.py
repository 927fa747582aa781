"""The JAX path on a GPU beside the same machine's CPU, and beside PyTensor's own backend there.

    python -m benchmarks.speed.gpu [--cases ...] [--places ...] [--scale 1] [--limit 60]

Three PyMC models as people write them, each with the family that serves it: a logistic regression
of 10⁶ rows (D = 21, :class:`pymc_ext.BatchMatchVI`), Poisson counts of 1,000 groups (D = 1,003,
centred, :class:`pymc_ext.HierarchicalVI`), and Poisson counts of 97 groups with a flow of two
hidden layers of 512 units (D = 100, :class:`pymc_ext.BernsteinVI`, whose loop JAX compiles). Three
places: ``pytensor`` (what a user has without JAX), ``cpu`` and ``cuda`` (JAX's platforms, double
precision). Each run is a process of its own, one after another, with all threads that the machine
has.

Of each: the name of the device; gradients of log p̃ per second, 64 points a call, by the density
that fits use (``gradients_per_second``) and, for JAX, with all points in one call of
:class:`pymc_ext.CallableDensity`; steps of the flow's loop, 10 gradients each; the fit's seconds
without compilation and its ELBO. Of the flow, which is stopped after ``--limit`` seconds, also the
seconds after which the mean of 100 steps first reached the best that ``cpu`` had. Nothing depends
on a GPU; ``--scale 0.02`` is a trial of everything in a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_ext as px
from benchmarks import record
from benchmarks.speed.elbo_curves import logistic, poisson_groups
from pymc_ext.density import CountedDensity
from pymc_ext.density.counted import Clock
from pymc_ext.density.in_jax import jax_log_density
from pymc_ext.variational.core.monitor import Monitor

Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results" / "gpu.json"
PLACES = ("pytensor", "cpu", "cuda")
POINTS, RATE = 64, 0.005
ROWS, GROUPS, FLOW_GROUPS, WIDTH = 1_000_000, 1_000, 97, 512


def models(scale: float) -> dict[str, Callable[[], pm.Model]]:
    """Makers of the three models, their sizes times ``scale``."""
    groups, of_flow = (max(round(scale * n), 5) for n in (GROUPS, FLOW_GROUPS))
    return {
        "logistic": lambda: logistic(max(round(scale * ROWS), 100)),
        "hierarchical": lambda: poisson_groups(np.arange(4 * groups) % groups),
        "flow": lambda: poisson_groups(np.arange(4 * of_flow) % of_flow),
    }


def flow(model: pm.Model, place: str, hidden: tuple[int, int] | None = None) -> px.BernsteinVI:
    """The flow of a place: JAX's loop by the usual gradient, or the default one."""
    backend, gradient = ("pytensor", "auto") if place == "pytensor" else ("jax", "total")
    return px.BernsteinVI(
        px.FlowShape(hidden=hidden), base="identity", backend=backend, polish=None, model=model,
        step=px.StepOptions(gradient=gradient), random_seed=1,
    )  # fmt: skip


def method(case: str, model: pm.Model, place: str, scale: float) -> Any:
    """The family that serves the case."""
    if case == "flow":
        width = max(round(WIDTH * scale), 20)
        return flow(model, place, (width, width))
    family = px.BatchMatchVI if case == "logistic" else px.HierarchicalVI
    return family(model=model, random_seed=1)


class Course(Monitor):
    """Seconds and mean losses of a flow's blocks; ends the fit after ``limit`` seconds.

    Seconds are those of the fit, what ``clock`` counts as compilation left out.
    """

    def __init__(self, limit: float, clock: Clock) -> None:
        super().__init__(None, (), 0, 0, False)
        self.limit, self.clock, self.begin = limit, clock, time.perf_counter() - clock.seconds
        self.course: list[tuple[float, float]] = []

    def block(self, losses: Any, q: Any) -> None:
        super().block(losses, q)
        now = time.perf_counter() - self.clock.seconds
        self.course.append((now - self.begin, -float(np.mean(losses))))
        if self.course[-1][0] > self.limit:
            raise StopIteration(f"{self.limit:g} seconds")


# ---- one run, in a process of its own ----------------------------------------------------------


def per_second(call: Callable[[], Any], amount: int, seconds: float = 2.0) -> float:
    """``amount`` per call and second, after one call that compiles."""
    call()
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        call()
        calls += 1
    return amount * calls / (time.perf_counter() - begin)


def gradients(approx: Any, place: str) -> Row:
    """Gradients per second of the density at points around the start."""
    density = approx.density
    theta = 0.1 * np.random.default_rng(3).standard_normal((POINTS, density.dimension))
    row: Row = {
        "gradients_per_second": per_second(lambda: density.log_density_gradient(theta), POINTS)
    }
    if place != "pytensor":
        whole = px.CallableDensity(jax_log_density(density), dimension=density.dimension, jax=True)
        row["in_one_call_per_second"] = per_second(
            lambda: whole.log_density_gradient(theta), POINTS
        )
    return row


def steps(model: pm.Model, place: str, options: dict[str, Any]) -> Row:
    """Steps per second of the loop of a default flow on the model, 10 gradients each."""
    vi = flow(model, place)
    vi.approx.use_compile_kwargs(options)
    counted, algorithm = CountedDensity(vi.approx.density), vi.algorithm
    begin = time.perf_counter()
    q = algorithm.make_flow(counted, vi.approx.group.start, seed=1)
    q.warm_up()
    loop = algorithm.make_loop(q, counted, algorithm.step, np.random.default_rng(1))
    row: Row = {"loop_compile_seconds": time.perf_counter() - begin}
    begin = time.perf_counter()
    loop.run(2, RATE, 1.0)
    few = 2 if time.perf_counter() - begin > 0.2 else 100
    row["steps_per_second"] = per_second(lambda: loop.run(few, RATE, 1.0), few)
    if place != "pytensor":  # of which without any step: carrying arrays to and from the device
        row["carrying_milliseconds"] = 1e3 / per_second(lambda: loop.run(0, RATE, 1.0), 1, 1.0)
    return row


def run(case: str, place: str, scale: float, limit: float) -> Row:
    """One case at one place."""
    device = record.cpu_model()
    if place != "pytensor":
        import jax

        device = jax.devices()[0].device_kind if place == "cuda" else f"{device} (JAX)"
    options = {} if place == "pytensor" else {"mode": "JAX"}
    model = models(scale)[case]()
    vi = method(case, model, place, scale)
    vi.approx.use_compile_kwargs(options)
    row: Row = {"case": case, "place": place, "device": device, "D": vi.approx.density.dimension}
    row |= gradients(vi.approx, place)
    report(row)
    with Course(limit, vi.approx.density.clock) as course:
        result = vi.optimise(vi.default_budget, course)
    row |= {
        "seconds": result.seconds,
        "compile_seconds": vi.approx.density.clock.seconds,
        "gradients": result.gradient_evaluations,
        "elbo": result.elbo,
        "elbo_se": result.elbo_se,
        "stop_reason": result.stop_reason,
        "course": course.course,
    }
    report(row)
    if case == "logistic":
        row |= steps(model, place, options)
    report(row)
    return row


def report(row: Row) -> None:
    """The row so far as a line that the parent reads."""
    print(json.dumps(row), flush=True)


# ---- all of them -------------------------------------------------------------------------------


def child(case: str, place: str, scale: float, limit: float, seconds: float) -> Row:
    """The row of a run in a new process; how it ended where that was not well."""
    platform = "cpu" if place == "pytensor" else place
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.gpu", "--child", case, place]
    command += ["--scale", str(scale), "--limit", str(limit)]
    environment = os.environ | {"JAX_PLATFORMS": platform}
    row: Row = {"case": case, "place": place}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=seconds
        )
        out, failed = done.stdout, done.returncode != 0
        error = done.stderr.strip()[-2000:] if failed else ""
    except subprocess.TimeoutExpired as late:
        out = (late.stdout or b"").decode()
        error = f"not done after {seconds:g} seconds"
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if lines:
        row = json.loads(lines[-1])
    return row | ({"error": error} if error else {})


def time_to(rows: list[Row]) -> None:
    """Into the flow's rows: the best ELBO of JAX on the CPU, and when each reached it."""
    for target in (max(elbo for _, elbo in row["course"]) for row in rows if row["place"] == "cpu"):
        for row in rows:
            reached = (seconds for seconds, elbo in row["course"] if elbo >= target)
            row |= {"target_elbo": target, "seconds_to_target": next(reached, None)}


def shown(row: Row) -> str:
    """The row as one line."""
    numbers = {k: v for k, v in row.items() if isinstance(v, int | float) and k != "D"}
    tail = f"; {row['error']}" if "error" in row else ""
    return (
        f"{row['case']} ({row['place']}): "
        + ", ".join(f"{k} {v:,.4g}" for k, v in numbers.items())
        + tail
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(models(1)), default=list(models(1)))
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of the flow's fit")
    parser.add_argument("--wait", type=float, default=200.0, help="seconds of one process")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run(*given.child, given.scale, given.limit)
        return
    rows: list[Row] = []
    for place in reversed(given.places):  # what may not come again first
        for case in given.cases:
            row = child(case, place, given.scale, given.limit, given.wait)
            rows.append(row)
            print(shown(row), flush=True)
            time_to([row for row in rows if row["case"] == "flow" and row.get("course")])
            record.write(given.out, rows)


if __name__ == "__main__":
    main()
