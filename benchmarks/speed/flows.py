"""What a flow reaches for so many gradients, by estimator of the gradient and by base.

    python -m benchmarks.speed.flows --databases PATH [PATH ...] [--names ...] [--variants ...]

For posteriors of databases in the layout of posteriordb: gradients (the base's own included), CPU
seconds, ELBO, k̂ and ESS/N of 20,000 fresh draws, the largest errors of their means and sds in
posterior sds where the database has reference draws. A variant is ``base/estimator``, with a budget
of steps of ten draws each; the budget ``rule`` is what a user has who says nothing, ``base`` the
base alone. Each run is kept as it ends; a later call makes only those that are missing. Run it with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.record import Runs
from benchmarks.speed.scores_alone import DRAWS, JUDGE, Row, judged
from bridge.comparison.problem import CaseProblem
from bridge.errors import IncompleteReferenceError
from posteriordb_cases import list_cases, load_case
from pymc_ext.density import CountedDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.whitening import BASES, AlgorithmBase
from pymc_ext.variational.core.algorithm import Algorithm, run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.steps import StepOptions

RESULTS = Path(__file__).parent / "results" / "flows.json"
NAMES = (
    "eight_schools-eight_schools_noncentered",
    "eight_schools-eight_schools_centered",
    "garch-garch11",
    "hmm_example-hmm_example",
    "seeds_data-seeds_stanified_model",
    "dugongs_data-dugongs_model",
)
VARIANTS = ("match/total", "match/path")
BUDGETS = ("1000", "3000", "10000")


def fitted(problem: CaseProblem, variant: str, budget: str, seed: int) -> Row:
    """One run."""
    base, gradient = variant.split("/")
    algorithm: Algorithm[Posterior] = Bernstein(
        base=base, polish=None, step=StepOptions(gradient=gradient)
    )
    if budget == "base":
        fitted_by = BASES[base]
        assert isinstance(fitted_by, AlgorithmBase)
        algorithm = fitted_by.algorithm
    density = CountedDensity(problem.stan_target.density)
    n = int(budget) if budget.isdigit() else None
    begin, start = time.process_time(), np.zeros(density.dimension)
    try:
        with Monitor.silent() as monitor:
            fit = run_algorithm(algorithm, density, start, n, random_seed=seed, monitor=monitor)
    except (ValueError, ArithmeticError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    row: Row = {
        "dimension": density.dimension,
        "cpu_s": round(time.process_time() - begin, 2),
        "gradients": fit.result.gradient_evaluations,
        "values": fit.result.density_evaluations,
        "iterations": fit.result.iterations,
        "stop_reason": fit.result.stop_reason,
        "notes": list(fit.result.notes),
    }
    return row | judged(fit.q, density) | errors(problem, fit.q)


def errors(problem: CaseProblem, q: Posterior) -> Row:
    """Largest errors of means and sds of q's draws in posterior sds.

    Of unconstrained coordinates, against reference draws; empty where there are none.
    """
    try:
        reference = problem.reference_theta(problem.stan_target)
    except (FileNotFoundError, LookupError, IncompleteReferenceError):
        return {}
    truth = reference.reshape(-1, reference.shape[-1])
    z = np.random.default_rng(JUDGE).standard_normal((DRAWS, q.latent_dimension))
    theta = q.forward(z)[0]
    sd = truth.std(axis=0)
    return {
        "mean_error": float(np.abs((theta.mean(axis=0) - truth.mean(axis=0)) / sd).max()),
        "sd_error": float(np.abs(theta.std(axis=0) / sd - 1).max()),
    }


def found(name: str, databases: Sequence[str]) -> CaseProblem | None:
    """The posterior of that name in the first database that has it with its Stan program."""
    for database in databases:
        if name in list_cases(database):
            case = load_case(name, database=database)
            if case.stan_code is not None:
                return CaseProblem(case)
    return None


def table(made: dict[str, Row]) -> str:
    """A line a run."""
    head = f"{'posterior':36} {'variant':18} {'steps':>6} seed"
    lines = [f"{head}  gradients  CPU s        ELBO     k̂  ESS/N   mean     sd"]
    for key, row in made.items():
        name, variant, budget, seed = key.rsplit(":", 3)
        head = f"{name[:36]:36} {variant:18} {budget:>6} {seed:>4}"
        if "error" in row:
            lines.append(f"{head} {row['error']}")
            continue
        lines.append(
            f"{head} {row['gradients']:10,} {row['cpu_s']:6.1f} "
            f"{row['elbo']:11.3f} {row['khat']:6.2f} {row['relative_ess']:6.3f} "
            f"{row.get('mean_error', np.nan):6.3f} {row.get('sd_error', np.nan):6.3f}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--databases", nargs="+", required=True, help="clones or their folders")
    parser.add_argument("--names", nargs="*", default=NAMES)
    parser.add_argument("--variants", nargs="*", default=VARIANTS)
    parser.add_argument("--budgets", nargs="*", default=BUDGETS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc_ext").setLevel(logging.ERROR)  # short budgets do not converge
    runs = Runs(options.results, "runs")
    for name in options.names:
        problem = found(name, options.databases)
        if problem is None:
            logging.warning("%s: no Stan program in %s", name, options.databases)
            continue
        for variant in options.variants:
            for budget in options.budgets:
                for seed in range(1, options.seeds + 1):
                    key = f"{name}:{variant}:{budget}:{seed}"
                    runs(key, fitted, problem, variant, budget, seed)
    print(table(runs.made))


if __name__ == "__main__":
    main()
