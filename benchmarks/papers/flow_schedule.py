"""What each constant of a flow's schedule does at half and at twice its value.

    python -m benchmarks.papers.flow_schedule [--results FOLDER]

Every flow is trained from the identity under every change; its ELBO is that of 100,000 fresh draws.
Some minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import record
from benchmarks.papers import bfvi_cases as cases
from pymc_ext.density.model import PyMCDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.training import schedule, trainer

NAMES = ("WARM_UP", "MOST_CHECKS", "FEWEST", "PATIENCE", "STEADY", "DECAY", "FINAL_RATE", "WINDOW")
SHARES = {"STEADY": (0.35, 0.85)}  # twice it is more than all
RUNS = (("eight_schools_ncp", 4000), ("eight_schools_ncp", 10_000))
DRAWS = 100_000


def changes() -> Iterator[dict[str, float]]:
    """Which constant has which other value: first none."""
    yield {}
    for name in NAMES:
        value = getattr(schedule, name)
        for other in SHARES.get(name, (value / 2, 2 * value)):
            yield {name: type(value)(other)}


def run(density: PyMCDensity, steps: int, change: dict[str, float], seed: int) -> dict[str, Any]:
    """ELBO and steps of one flow."""
    with ExitStack() as changed:
        for name, value in change.items():
            for module in (schedule, trainer):
                if hasattr(module, name):
                    changed.enter_context(patch.object(module, name, value))
        patience = (schedule.PATIENCE,)  # a default is bound when it is read
        changed.enter_context(patch.object(schedule.Plateau.__init__, "__defaults__", patience))
        fitted = Bernstein(base="identity", polish=None).fit(density, n=steps, random_seed=seed)
    z = np.random.default_rng(99).standard_normal((DRAWS, fitted.q.latent_dimension))
    theta, log_q = fitted.q.forward(z)
    elbo = float(np.mean(density.log_density(theta) - log_q))
    return {"change": change, "seed": seed, "elbo": elbo, "steps": fitted.result.iterations}


def main() -> None:
    """Run all, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    folder, rows = parser.parse_args().results, []
    for case, steps in RUNS:
        density = PyMCDensity(getattr(cases, case)())
        for change in changes():
            for seed in (1, 2):
                rows.append({"case": case, "n": steps, **run(density, steps, change, seed)})
                print(rows[-1], flush=True)
    record.write(folder / "flow_schedule.json", rows)


if __name__ == "__main__":
    main()
