"""How often the search for missed mass finds a mode, and what it takes: modes narrow, far, or both.

    python -m benchmarks.speed.missed_modes [--seeds 20] [--dimensions 1 2 3 5 10] [--along|--walls]

q is one mode, exactly: a normal, or independent t of four degrees. Beside it lies half of the mass
in N(m, w² I), m so many of q's sds away, in a random direction or along a coordinate. Given are the
share of seeds that find it, in per cent, by w and distance, and the median gradients; with
``--walls`` of 30 % of the mass in a mode as wide as q that a wall cuts, by where it is and how
steep. Then targets of the zoo with nothing beside q, where whatever is found is a false alarm.
There are no fits: some minutes.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence

import numpy as np

from posteriordb_cases.zoo import ZOO, ZooDensity
from posteriordb_cases.zoo.gaussians import CorrelatedNormal, of_condition
from posteriordb_cases.zoo.marginals import Mixed, StudentT
from posteriordb_cases.zoo.walls import Walled
from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.missed.missed_mass import SEARCHED, MissedMass, mass_outside

WIDTHS, DISTANCES = (0.1, 0.2, 0.4, 1.0), (5, 15, 30, 100, 500)
EDGES, SLOPES = (1.0, 0.0, -1.0, -2.0, -3.0), (5.0, 40.0, 400.0, np.inf)
MAIN = {"normal": lambda D: of_condition(D, 1.0), "t": lambda D: Mixed(StudentT(4.0), D)}
ALONE = (
    "gaussian-1", "scales-50", "banana-10", "funnel-10", "skewed-5", "warped-heavy-5", "laplace-4",
    "logistic-10", "student-5", "cauchy-1", "regression-6", "schools", "groups-7",
)  # fmt: skip


class Beside:
    """p = ½ main + ½ N(m, w² I), normalised."""

    def __init__(self, main: ZooDensity, middle: Array, width: float) -> None:
        self.main, self.middle, self.width = main, middle, width
        self.dimension = main.dimension

    def log_density(self, theta: Array) -> Array:
        return self.log_density_gradient(theta)[0]

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        log_main, score = self.main.log_density_gradient(theta)
        log_main = log_main - self.main.log_z + np.log(0.5)
        z = (theta - self.middle) / self.width
        norm = self.dimension * (np.log(self.width) + 0.5 * np.log(2 * np.pi))
        log_beside = np.log(0.5) - 0.5 * (z**2).sum(axis=1) - norm
        log_p = np.logaddexp(log_main, log_beside)
        share = np.exp(log_beside - log_p)[:, None]
        return log_p, (1 - share) * score - share * z / self.width


@functools.cache
def moments(kind: str, D: int) -> tuple[Array, Array]:
    """Mean and sds (D,) of a main mode."""
    draws = MAIN[kind](D).draws(100_000, np.random.default_rng(0))
    return draws.mean(axis=0), draws.std(axis=0)


def searched(main: ZooDensity, density: ZooDensity | Beside, mass: float, seed: int) -> MissedMass:
    """What the search finds beside q, which is the law of ``main`` and covers so much mass."""
    theta = main.draws(SEARCHED, np.random.default_rng([seed, 0]))
    with np.errstate(all="ignore"):
        log_p = density.log_density(theta)
    return mass_outside(
        CountedDensity(density), theta, log_p, lambda x: main.log_density(x) - main.log_z,
        np.log(mass), np.random.default_rng([seed, 1]),
    )  # fmt: skip


def beside(
    kind: str, D: int, width: float, distance: float, seed: int, along: bool = False
) -> MissedMass:
    """What it finds where there is such a mode; width and distance in q's sds."""
    main, rng = MAIN[kind](D), np.random.default_rng([seed, 2])
    u = np.eye(D)[rng.integers(D)] * rng.choice([-1, 1]) if along else rng.standard_normal(D)
    mean, sd = moments(kind, D)
    middle = mean + distance * sd * u / np.linalg.norm(u)
    return searched(main, Beside(main, middle, width * float(sd.mean())), 0.5, seed)


def table(kind: str, D: int, seeds: int, along: bool = False) -> str:
    """A line a width: shares in per cent by distance, then median gradients."""
    where = "along a coordinate" if along else "in a random direction"
    lines = [f"beside a {kind} in {D} dimensions, {where}; sds away: {DISTANCES}"]
    for width in WIDTHS:
        found = [
            [beside(kind, D, width, d, seed, along) for seed in range(seeds)] for d in DISTANCES
        ]
        shares = " ".join(f"{100 * np.mean([f.matters for f in row]):4.0f}" for row in found)
        spent = " ".join(f"{np.median([f.gradients for f in row]):6,.0f}" for row in found)
        lines.append(f"  {width:3} as wide {shares}   | {spent} gradients")
    return "\n".join(lines)


def behind_walls(D: int, seeds: int) -> str:
    """A line a slope of the wall: shares in per cent by its place in the mode's sds, and median
    gradients."""
    main = CorrelatedNormal(np.zeros(D), np.eye(D))
    lines = [f"a mode cut by a wall, in {D} dimensions; the wall at {EDGES} sds of its middle"]
    for slope in SLOPES:
        found = [
            [searched(main, Walled(D, 12.0, 0.3, edge, slope), 0.7, seed) for seed in range(seeds)]
            for edge in EDGES
        ]
        shares = " ".join(f"{100 * np.mean([f.matters for f in row]):4.0f}" for row in found)
        spent = " ".join(f"{np.median([f.gradients for f in row]):6,.0f}" for row in found)
        lines.append(f"  {slope:3g} nats a sd {shares}   | {spent} gradients")
    return "\n".join(lines)


def alarms(name: str, seeds: int) -> str:
    """A line of a target of one mode, whose law q is."""
    main = ZOO[name].make()
    found = [searched(main, main, np.exp(main.log_z), seed) for seed in range(seeds)]
    false = sum(one.matters for one in found)
    spent = np.median([one.gradients for one in found])
    return f"{name:15} {main.dimension:3} D: {false} of {seeds} alarms, {spent:6,.0f} gradients"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 3, 5, 10])
    parser.add_argument("--main", nargs="*", choices=MAIN, default=list(MAIN))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--along", action="store_true", help="modes along coordinates")
    where.add_argument("--walls", action="store_true", help="modes that end at a wall")
    options = parser.parse_args(arguments)
    if options.walls:
        for D in options.dimensions:
            if D > 1:  # a wall is along another coordinate than the modes
                print(behind_walls(D, options.seeds), flush=True)
    for kind in () if options.walls else options.main:
        for D in options.dimensions:
            print(table(kind, D, options.seeds, options.along), flush=True)
    for name in ALONE:
        print(alarms(name, options.seeds), flush=True)


if __name__ == "__main__":
    main()
