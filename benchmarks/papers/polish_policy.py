"""What each threshold of a flow's polish does at half and at twice its value.

    python -m benchmarks.papers.polish_policy [--results FOLDER]

Each flow is trained once; its polish then runs under every policy, and the proposal's k̂, relative
ESS and ELBO are taken on 100,000 fresh draws. About half an hour on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.papers import bfvi_cases as cases
from pymc_ext.density import CountedDensity
from pymc_ext.density.model import PyMCDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein, _Training
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.polisher import Polisher
from pymc_ext.variational.bernstein.polish.stages import FlowFit, measure
from pymc_ext.variational.bernstein.polish.weighted import Polish
from pymc_ext.variational.core.monitor import Monitor

SHARES = {"good_ess": (0.998, 0.9995), "nearly_right": (0.8, 0.95), "leading_share": (0.35, 0.85)}
NOT_HERE = ("fewest_steps", "fewest_ratios", "standard_errors")  # decide nothing here
RUNS = [
    ("eight_schools_cp", 20_000, Polish()),
    ("eight_schools_ncp", 4000, Polish(weighted=None)),
]


def changes() -> Iterator[tuple[dict[str, Any], Policy]]:
    """What is changed, and the policy: first as it is, then with one value changed."""
    yield {}, POLICY
    for name, value in asdict(POLICY).items():
        if name in SHARES:
            yield from (({name: s}, replace(POLICY, **{name: s})) for s in SHARES[name])
        elif name not in NOT_HERE:
            for k in (0.5, 2):
                many = isinstance(value, tuple)
                new = tuple(k * v for v in value) if many else type(value)(k * value)
                yield {name: f"times {k}"}, replace(POLICY, **{name: new})


def run(case: str, steps: int, polish: Polish, seed: int) -> Iterator[dict[str, Any]]:
    density = CountedDensity(PyMCDensity(getattr(cases, case)()))
    training = _Training.begin(
        Bernstein(base="identity"), density, np.zeros(density.dimension), seed, None
    )
    training.train(steps, Monitor.silent())
    flow = training.loop.flow
    z = np.random.default_rng(99).standard_normal((100_000, flow.latent_dimension))
    for change, policy in changes():
        fit = FlowFit(deepcopy(flow), density)
        Polisher(fit, polish, policy, seed, training._train_weighted).run()
        found = measure("", fit, z)
        yield {
            "case": case, "seed": seed, "change": change, "elbo": found.elbo,
            "khat": found.khat, "relative_ess": found.relative_ess,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    folder = parser.parse_args().results
    rows = [row for case in RUNS for seed in (1, 2) for row in run(*case, seed)]
    record.write(folder / "polish_policy.json", rows)


if __name__ == "__main__":
    main()
