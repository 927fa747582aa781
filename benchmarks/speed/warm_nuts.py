"""Exact answers: gradients and seconds to ESS 400 with and without an approximation's coordinates.

    python -m benchmarks.speed.warm_nuts [--seeds 3] [--posteriors PATTERN ...]
        [--database FOLDER ...] [--runs answer warm stan nutpie cmdstan gaussian]
        [--ess 400] [--budget 2000000] [--out FILE]

On each posterior, each seed:

- ``answer``: `bridge.fit`, whichever rung it takes;
- ``warm``: `bridge`'s method warm-nuts, an approximation and then NUTS in its coordinates, the
  approximation's gradients included; with Stan's own sampler, in this process;
- ``gaussian``, only where asked for: the same with batch and match's Gaussian in place of the map;
- ``stan``: Stan's default adaptation (1,000 iterations, diagonal) from random starts, then draws;
- ``nutpie``: nutpie's default adaptation (400 iterations) from the same, then draws.

All end by one rule: bulk and tail ESS of ``--ess`` for every unconstrained coordinate, every
parameter and transformed parameter and log p̃, and R̂ <= 1.02, or at the budget, where
``gradients`` is a lower bound. ``cmdstan`` gives the wall seconds of Stan's program at its default
4 × (1000 + 1000) beside those of ``warm`` and ``answer``, without and with reading its draws, which
the others have in memory; compilation counts in none. ``mean_error`` and ``sd_error`` of these two
are the largest in posterior sds, with the largest in standard errors of the difference, against
reference draws where the database has them, else (``answer`` only) against ``cmdstan``'s own of
another seed. The report ends with how often the verdict of ``answer`` is wrong by them;
``--posteriors none`` makes no run and reports what FILE has.

A database is a folder as `posteriordb_cases` reads it; without one the cases inside this package
run. Runs are kept in FILE as they end, so that none is made twice.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import arviz as az
import numpy as np

import bridge
from benchmarks.record import Runs
from benchmarks.speed.warm_nuts_report import Numbers, report
from bridge.comparison.problem import CaseProblem
from bridge.errors import IncompleteReferenceError
from bridge.methods.families import Made
from bridge.methods.named_draws import NamedDraws
from bridge.methods.warm_nuts import WarmNUTS
from bridge.stan.sampler import StanNUTS
from posteriordb_cases import EMBEDDED, list_cases, load_case
from pymc_ext.maths.convergence import bulk_ess
from pymc_ext.sampling.nutpie import NutpieNUTS
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample

RESULTS = Path(__file__).parent / "results"
DEFAULT_RUNS = ("answer", "warm", "stan", "nutpie", "cmdstan")
PATTERNS = ("eight_schools-*", "garch-*", "surgical*", "pilots-*", "seeds_data-seeds_c*",
            "seeds_data-seeds_model", "rats_data*")  # fmt: skip
MAP, GAUSSIAN = WarmNUTS(), WarmNUTS(Made("gaussian.batch_match:BatchMatch"))


def problems(databases: list[str], patterns: list[str]) -> Iterator[CaseProblem]:
    """Cases with a Stan program whose names match, each once."""
    seen: set[str] = set()
    for database in databases:
        for name in list_cases(database=database):
            wanted = any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
            if not wanted or name in seen:
                continue
            case = load_case(name, database=database)
            if case.stan_code is not None:
                seen.add(name)
                yield CaseProblem(case)


def warm(problem: CaseProblem, seed: int, options: Sampling, method: WarmNUTS = MAP) -> Numbers:
    """The method of `bridge`, or one of another approximation."""
    begin = time.process_time()
    fit = replace(method, options=options)(problem, 0, seed)
    info = fit.info
    kept = ("approximation_gradients", "warm_up_gradients", "in_map", "trusted", "verdict",
            "divergences", "energy_fmi", "draws_per_chain", "mean_steps", "approximation",
            "engine", "stop_reason")  # fmt: skip
    found: Numbers = {
        "gradients": fit.gradient_evaluations,
        "seconds": fit.seconds,
        "cpu_seconds": time.process_time() - begin,
        **{name: info[name] for name in kept},  # type: ignore[dict-item]
    }
    return found | errors(problem, fit.theta)


def answer(problem: CaseProblem, seed: int, options: Sampling) -> Numbers:
    """What a user gets who asks for no method."""
    _ = problem.stan_target.density  # compiled before the clock starts
    begin = time.perf_counter()
    advice = bridge.fit(problem.program, problem.data, ess=options.ess, random_seed=seed)
    seconds = time.perf_counter() - begin
    assert isinstance(advice.draws, NamedDraws)
    values = {k: v.reshape(-1, *v.shape[2:]) for k, v in advice.draws.values.items()}
    theta = problem.stan_target.unconstrain(values)
    lp = advice.draws.statistics["lp"]
    found: Numbers = {
        "gradients": advice.gradients,
        "seconds": seconds,
        "method": advice.method,
        "trusted": advice.trusted,
        "verdict": advice.reasons,
    }
    try:
        return found | errors(problem, theta.reshape(*lp.shape, -1), own_truth=True)
    except RuntimeError as error:  # the answer stands without a truth
        return found | {"no_truth": f"{type(error).__name__}: {error}"}


def alone(
    problem: CaseProblem, seed: int, options: Sampling, sampler: StanNUTS | NutpieNUTS
) -> Numbers:
    """A sampler that adapts by itself, to the same end."""
    target, begin = problem.stan_target, time.process_time()
    found = sample(
        target.density, None, sampler, options, seed=seed, constrain=target.constrain,
    )  # fmt: skip
    return {
        "gradients": found.gradient_evaluations,
        "seconds": found.seconds,
        "cpu_seconds": time.process_time() - begin,
        "warm_up_gradients": found.warm_up_gradients,
        "trusted": found.trusted,
        "verdict": found.verdict,
        "divergences": found.diagnostics.divergences,
        "energy_fmi": found.diagnostics.energy_fmi,
        "draws_per_chain": int(found.theta.shape[1]),
        "stop_reason": found.stop_reason,
    }


def cmdstan(problem: CaseProblem, seed: int, options: Sampling) -> Numbers:
    """The program at its defaults, through cmdstanpy."""
    from stan_models import nuts

    problem.program.compile()
    begin = time.perf_counter()
    idata = nuts(problem.program, problem.data, random_seed=seed)
    attrs = idata["posterior"].attrs
    theta = idata["unconstrained_posterior"]["theta"].values
    return {
        "gradients": int(attrs["gradient_evaluations"]),
        "seconds": float(attrs["seconds"]),
        "seconds_with_reading": time.perf_counter() - begin,
        "ess_bulk": float(bulk_ess(theta).min()),
        "divergences": int(idata["sample_stats"]["diverging"].values.sum()),
    }


RUNS = {
    "answer": answer,
    "warm": warm,
    "gaussian": lambda problem, seed, options: warm(problem, seed, options, GAUSSIAN),
    "stan": lambda problem, seed, options: alone(problem, seed, options, StanNUTS()),
    "nutpie": lambda problem, seed, options: alone(problem, seed, options, NutpieNUTS()),
    "cmdstan": cmdstan,
}


@functools.cache
def long_run(name: str, problem: CaseProblem) -> np.ndarray:
    """Draws of Stan's default, of a seed that no run has."""
    from stan_models import nuts

    idata = nuts(problem.program, problem.data, random_seed=10_001)
    return np.asarray(idata["unconstrained_posterior"]["theta"].values)


def errors(problem: CaseProblem, theta: np.ndarray, own_truth: bool = False) -> Numbers:
    """Largest errors of means and sds of unconstrained coordinates against reference draws."""
    try:
        reference = problem.reference_theta(problem.stan_target)
    except (FileNotFoundError, LookupError, IncompleteReferenceError):
        if not own_truth:
            return {}
        reference = long_run(problem.case.name, problem)
    sd = reference.std(axis=(0, 1))
    found: Numbers = {}
    for name, power in (("mean", 1), ("sd", 2)):
        center = reference.mean(axis=(0, 1))
        ours, truth = ((x - center) ** power for x in (theta, reference))
        se = np.sqrt(sum(x.var(axis=(0, 1)) / mean_ess(x) for x in (ours, truth)))
        difference = ours.mean(axis=(0, 1)) - truth.mean(axis=(0, 1))
        in_sds = difference / sd if power == 1 else difference / (2 * sd**2)
        found[f"{name}_error"] = float(np.abs(in_sds).max())
        found[f"{name}_error_se"] = float(np.abs(difference / se).max())
    return found


def mean_ess(x: np.ndarray) -> np.ndarray:
    """Effective draws for the mean of each scalar, (chains, draws, K) -> (K,)."""
    return np.array([float(az.ess(own, method="mean")) for own in np.moveaxis(x, -1, 0)])


def main() -> None:
    """Make what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--posteriors", nargs="+", default=list(PATTERNS))
    parser.add_argument("--database", nargs="+", default=[str(EMBEDDED)])
    parser.add_argument("--runs", nargs="+", default=list(DEFAULT_RUNS), choices=list(RUNS))
    parser.add_argument("--ess", type=float, default=400.0)
    parser.add_argument("--budget", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "answer.json")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    options = Sampling(ess=arguments.ess, budget=arguments.budget)
    runs = Runs(arguments.out, "runs", ess=options.ess, budget=options.budget)
    for problem in problems(arguments.database, arguments.posteriors):
        for seed in range(1, arguments.seeds + 1):
            for run in arguments.runs:
                key = f"{problem.case.name}/{run}/{seed}"
                numbers = runs(key, _guarded, RUNS[run], problem, seed, options)
                print(key, {k: v for k, v in numbers.items() if k != "verdict"}, flush=True)
    report(runs.made, list(RUNS))


def _guarded(run, problem: CaseProblem, seed: int, options: Sampling) -> Numbers:  # type: ignore[no-untyped-def]
    """A run's numbers, or what it failed with."""
    try:
        return run(problem, seed, options)
    except (ValueError, RuntimeError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
