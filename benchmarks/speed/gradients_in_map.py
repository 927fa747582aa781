"""CPU microseconds of a gradient as chains take it: a point at a time, in a map and without.

    python -m benchmarks.speed.gradients_in_map

"rows" is the same map by NumPy on rows of points, here one row, as chains took it before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_ext as px
from benchmarks.record import write
from benchmarks.speed.dear import MODELS
from pymc_ext.density import Density, DensityInCoordinates
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.map import HierarchicalMap

RESULTS = Path(__file__).parent / "results" / "gradients_in_map.json"
NAMES = ("latent AR", "horseshoe", "horseshoe, binary", "threshold")
CALLS = 2_000


def microseconds(call: Callable[[], object]) -> float:
    """CPU time of a call, after the first, which compiles."""
    call()
    begin = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - begin) / CALLS * 1e6


def by_rows(density: Density, q: HierarchicalMap, z: Array) -> None:
    """What a gradient in the map took before one point had loops of its own."""
    at = q.at(z)
    q.log_q(at)
    q.pullback_at(at, density.log_density_gradient(q.theta(at))[1])


def measured(name: str) -> dict[str, float | int]:
    """One model."""
    with MODELS[name]():
        approx = pm.fit(method=px.HierarchicalVI(random_seed=1), progressbar=False)
    density, q = approx.density.for_chains, approx.q
    z = np.random.default_rng(1).standard_normal((1, density.dimension))
    inside, theta = DensityInCoordinates(density, q), q.forward(z)[0]
    return {
        "dimension": density.dimension,
        "density": round(microseconds(partial(density.log_density_gradient, theta)), 1),
        "in_map": round(microseconds(partial(inside.log_density_gradient, z)), 1),
        "rows": round(microseconds(partial(by_rows, density, q, z)), 1),
    }


def main() -> None:
    """Measure, store and print."""
    found = {name: measured(name) for name in NAMES}
    write(RESULTS, found)
    print(f"{'model':20}{'D':>4}{'density alone':>15}{'in the map':>12}{'by rows':>9}  CPU µs")
    for name, row in found.items():
        print(f"{name:20}{row['dimension']:4}{row['density']:15.0f}{row['in_map']:12.0f}"
              f"{row['rows']:9.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
