"""CPU time of one step of a Gaussian or hierarchical fit beside its scores: goal 1 ms at D = 100.

    python -m benchmarks.speed.steps [--dimensions 10 100] [--steps 200]

The density is a standard normal, so that all but some hundredths of a millisecond are the step's
own. ``match`` is a batch of batch and match in a trust region, ``natural`` a natural-gradient step
on all of a dense covariance, ``map`` a step of a hierarchical map in which one log scale governs
eight others, and ``averaged`` one in the second half of a block, which keeps moments too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.gaussian.natural_gradient import NaturalGradient
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.gaussian.score_matching import match_step
from pymc_ext.variational.gaussian.trust_region_matching import TrustRegionMatching
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.training import Training

GOVERNED, SLOPE = 8, 0.5


def steps(dimension: int) -> dict[str, Callable[[], float]]:
    """One step of each kind, by name, from a q beside the target."""
    rng = np.random.default_rng(1)
    density = CountedDensity(
        CallableDensity(lambda t: -0.5 * (t**2).sum(axis=1), lambda t: -t, dimension=dimension)
    )
    q = Gaussian(np.full(dimension, 0.1), 1.3 * np.eye(dimension))
    scales = np.zeros((dimension, dimension))
    scales[1 : 1 + GOVERNED, 0] = SLOPE
    linked = replace(HierarchicalMap.gaussian(q.mean, q.cov, np.arange(dimension)), scales=scales)
    first_half, second_half = (Training(density, linked, Free.of(linked), rng) for _ in range(2))
    first_half.averaging = False
    return {
        "match": TrustRegionMatching(density, q, rng, match_step).batch,
        "natural": NaturalGradient(density, q, rng).advance,
        "map": first_half.advance,
        "averaged": second_half.advance,
    }


def main() -> None:
    """Print milliseconds of CPU time a step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    for dimension in arguments.dimensions:
        for name, step in steps(dimension).items():
            step()
            begin = time.process_time()
            for _ in range(arguments.steps):
                step()
            spent = (time.process_time() - begin) / arguments.steps
            print(f"D = {dimension:4}  {name:8} {1e3 * spent:.2f} ms")


if __name__ == "__main__":
    main()
