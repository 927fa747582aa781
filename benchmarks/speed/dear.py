"""Models for which a trusted answer is dear, or is refused, beside `pm.sample` at its defaults.

    python -m benchmarks.speed.dear [--models ...] [--runs ...] [--seeds 1] [--out FILE]

A level that jumps at a continuous time, a latent autoregressive series under counts, regressions
under a regularised horseshoe (Piironen & Vehtari 2017, arXiv:1707.01694), a Weibull law with a
threshold, a stationary series whose level lies far from the middle of its prior, as it may do
near a unit root, where fits end, and item responses of two parameters with free scales of items;
sds of threshold and series are known by quadrature. ``answer`` is
`bridge.fit`, ``pymc`` is `pm.sample`, 4 × (1000 + 1000); where asked for, ``warm-nuts``,
``flow-nuts`` and ``nutpie`` are as in `benchmarks.speed.bent_nuts`, with at most a million
gradients. Each run is kept as it ends. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pymc as pm

import bridge
from benchmarks.record import Runs
from benchmarks.speed.bent_nuts import drawn
from benchmarks.speed.dear_models import (
    MODELS,
    series_by_quadrature,
    threshold_by_quadrature,
)
from bridge.methods.problems import as_problem
from pymc_ext.density import PyMCDensity
from pymc_ext.maths.convergence import bulk_ess_and_rhat
from pymc_ext.maths.types import Array
from pymc_ext.sampling.run import BudgetSpentError

RESULTS = Path(__file__).parent / "results" / "dear.json"
BUDGET = 1_000_000
Numbers = dict[str, float | int | str | bool | None]
Found = tuple[Numbers, dict[str, Array]]


def answer(model: pm.Model, seed: int) -> Found:
    """What `bridge.fit` gives."""
    advice = bridge.fit(model, random_seed=seed, progressbar=False)
    numbers: Numbers = {
        "method": advice.method,
        "trusted": advice.trusted,
        "gradients": advice.gradients,
        "verdict": advice.reasons,
    }
    return numbers, {name: np.asarray(x) for name, x in advice.idata["posterior"].items()}


def by_default(model: pm.Model, seed: int) -> Found:
    """`pm.sample`."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, which the numbers below show
        idata = pm.sample(cores=1, chains=4, random_seed=seed, progressbar=False,
                          discard_tuned_samples=False)  # fmt: skip
    statistics, warm = idata["sample_stats"], idata["warmup_sample_stats"]
    steps = sum(int(np.asarray(group["n_steps"]).sum()) for group in (statistics, warm))
    draws = {name: np.asarray(x) for name, x in idata["posterior"].items()}
    flat = np.concatenate([x.reshape(*x.shape[:2], -1) for x in draws.values()], axis=2)
    ess, rhat = bulk_ess_and_rhat(flat)
    divergences = int(np.asarray(statistics["diverging"]).sum())
    return {
        "gradients": steps,
        "divergences": divergences,
        "ess": float(ess.min()),
        "rhat": float(rhat.max()),
    }, draws


def by_chains(run: str) -> Callable[[pm.Model, int], Found]:
    """A sampler of `benchmarks.speed.bent_nuts`; its draws are not kept."""

    def sampled(model: pm.Model, seed: int) -> Found:
        try:
            numbers, _ = drawn(as_problem(model, None), PyMCDensity(model), run, seed, BUDGET)
        except BudgetSpentError as error:
            return {"gradients": error.spent, "trusted": False, "verdict": str(error)}, {}
        return numbers, {}

    return sampled


RUNS: dict[str, Callable[[pm.Model, int], Found]] = {
    "answer": answer,
    "pymc": by_default,
    **{run: by_chains(run) for run in ("warm-nuts", "flow-nuts", "nutpie")},
}


def made(name: str, run: str, seed: int) -> Numbers:
    """One run; means and sds of scalar variables are kept with it."""
    begin = time.process_time()
    numbers, draws = RUNS[run](MODELS[name](), seed)
    numbers["cpu_s"] = round(time.process_time() - begin, 1)
    for variable, x in draws.items():
        if x.ndim == 2:
            numbers |= {f"mean({variable})": float(x.mean()), f"sd({variable})": float(x.std())}
    return numbers


def report(runs: Mapping[str, Numbers]) -> None:
    """A line a run."""
    for key, n in runs.items():
        trusted = {True: "trusted", False: "refused", None: ""}[n.get("trusted")]  # type: ignore[index]
        more = "".join(
            f", {k} {n[k]:.4g}"
            for k in ("divergences", "ess", "rhat", "sd(at)", "mean(rho)", "sd(c)")
            if k in n
        )
        print(f"{key:32} {trusted:8} {n['gradients']:>10,} gradients {n['cpu_s']:6.1f} s{more}")


def main() -> None:
    """Make what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--runs", nargs="+", default=["answer", "pymc"], choices=list(RUNS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    mean, sd = threshold_by_quadrature()
    runs = Runs(arguments.out, "runs", threshold={"mean(at)": mean, "sd(at)": sd})
    for name in arguments.models:
        for seed in range(1, arguments.seeds + 1):
            for run in arguments.runs:
                runs(f"{name}/{run}/{seed}", made, name, run, seed)
    report(runs.made)
    print(f"threshold by quadrature: mean {mean:.3f}, sd {sd:.3f}")
    exact = ", ".join(f"{name} {value:.3f}" for name, value in series_by_quadrature().items())
    print(f"near a unit root by quadrature: {exact}")


if __name__ == "__main__":
    main()
