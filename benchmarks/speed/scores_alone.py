"""Gaussians and hierarchical maps from scores alone, on every posterior of a database.

    python -m benchmarks.speed.scores_alone --database PATH [--names ...] [--seeds 5]

For each posterior whose Stan program compiles and has at most 300 parameters: gradients, CPU
seconds, ELBO, k̂ and ESS/N of 20,000 fresh draws, of `BatchMatch` and of `Hierarchical`. Each run is
kept as it ends; a later call makes only those that are missing. The summary counts runs that
diverged (no finite ELBO), those below the Gaussian by more than their error, and the posteriors
that weights serve by the median of their seeds (ESS/N at least .5, .99; k̂ below .7 or ESS/N at
least .98, for k̂ is scale-free).
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import Runs
from posteriordb_cases import list_cases, load_case
from pymc_ext.density import CountedDensity
from pymc_ext.maths.psis import psislw
from pymc_ext.variational.core.algorithm import Algorithm, run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from stan_models import StanError, StanProgram

RESULTS = Path(__file__).parent / "results" / "scores_alone.json"
MOST_PARAMETERS, DRAWS, JUDGE = 300, 20_000, 7
ALGORITHMS: dict[str, Algorithm] = {"batch-match": BatchMatch(), "hierarchical": Hierarchical()}
Row = dict[str, object]


def judged(q: Posterior, density: CountedDensity) -> Row:
    """What 20,000 fresh draws say of q."""
    z = np.random.default_rng(JUDGE).standard_normal((DRAWS, q.latent_dimension))
    theta, log_q = q.forward(z)
    with np.errstate(all="ignore"):
        log_ratios = density.log_density(theta) - log_q
    fresh = FreshDraws.from_log_ratios(log_ratios)
    inside = log_ratios[np.isfinite(log_ratios)]
    return {
        "elbo": fresh.elbo,
        "elbo_se": fresh.elbo_se,
        "log_marginal_is": fresh.log_marginal_is,
        "khat": float(psislw(inside)[1]) if len(inside) > 100 else np.inf,
        "relative_ess": fresh.ess / DRAWS,
    }


def fitted(algorithm: Algorithm, program: StanProgram, data: object, seed: int) -> Row:
    """One run."""
    density = CountedDensity(program.density(data))
    begin, start = time.process_time(), np.zeros(density.dimension)
    try:
        with Monitor.silent() as monitor:
            fit = run_algorithm(algorithm, density, start, random_seed=seed, monitor=monitor)
    except (ValueError, ArithmeticError) as error:
        return {"dimension": density.dimension, "error": f"{type(error).__name__}: {error}"}
    row: Row = {
        "dimension": density.dimension,
        "cpu_s": round(time.process_time() - begin, 2),
        "gradients": fit.result.gradient_evaluations,
        "values": fit.result.density_evaluations,
        "stop_reason": fit.result.stop_reason,
        "links": len(getattr(fit.result, "links", ())),
    }
    return row | judged(fit.q, density)


def table(made: dict[str, Row]) -> str:
    """A line a run, and what they come to."""
    lines = [f"{'posterior':44} {'method':13} seed   D  gradients  CPU s        ELBO     k̂  ESS/N"]
    for key, row in made.items():
        name, method, seed = key.rsplit("/", 2)
        head = f"{name[:44]:44} {method:13} {seed:>4}"
        if "error" in row:
            lines.append(f"{head} {row['dimension']:3} {row['error']}")
            continue
        lines.append(
            f"{head} {row['dimension']:3} {row['gradients']:10,} {row['cpu_s']:6.1f} "
            f"{row['elbo']:11.3f} {row['khat']:6.2f} {row['relative_ess']:6.3f}"
        )
    return "\n".join([*lines, *summary(made)])


def summary(made: dict[str, Row]) -> list[str]:
    """Medians, shares and failures by method."""
    lines = []
    for method in ALGORITHMS:
        rows = [row for key, row in made.items() if key.split("/")[-2] == method]
        done = [row for row in rows if "error" not in row]
        if not done:
            continue
        diverged = sum(not np.isfinite(float(str(row["elbo"]))) for row in done)
        ess, khat = (medians(made, method, name) for name in ("relative_ess", "khat"))
        lines.append(
            f"{method}: {len(rows)} runs, {len(rows) - len(done)} refused, {diverged} with a draw "
            f"outside; median of {np.median([row['gradients'] for row in done]):,.0f} gradients; "
            f"of {len(ess)} posteriors ESS/N >= .5 on {np.sum(ess >= 0.5)}, >= .99 on "
            f"{np.sum(ess >= 0.99)}; k̂ < .7 or ESS/N >= .98 on "
            f"{np.sum((khat < 0.7) | (ess >= 0.98))}"
        )
    return [*lines, f"hierarchical below batch-match beyond error: {below(made)}"]


def medians(made: dict[str, Row], method: str, name: str) -> NDArray[np.floating]:
    """Of one figure over the seeds, by posterior."""
    by_posterior: dict[str, list[float]] = {}
    for key, row in made.items():
        posterior, of, _ = key.rsplit("/", 2)
        if of == method and "error" not in row:
            by_posterior.setdefault(posterior, []).append(float(str(row[name])))
    return np.array([np.median(values) for values in by_posterior.values()])


def below(made: dict[str, Row]) -> list[str]:
    """Runs whose map has a lower ELBO than its Gaussian, by more than four standard errors."""
    found = []
    for key, row in made.items():
        other = made.get(key.replace("/hierarchical/", "/batch-match/"))
        if "/hierarchical/" not in key or other is None or {"error"} & {*row, *other}:
            continue
        gain = float(str(row["elbo"])) - float(str(other["elbo"]))
        error = np.hypot(float(str(row["elbo_se"])), float(str(other["elbo_se"])))
        if gain < -4 * error:
            found.append(key)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", required=True, help="a posteriordb clone or its folder")
    parser.add_argument("--names", nargs="*", help="posteriors; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for name in options.names or list_cases(options.database):
        case = load_case(name, database=options.database)
        if case.stan_code is None:
            continue
        try:
            program = StanProgram(case.stan_code, name=case.model_name)
            if program.density(case.data).dimension > MOST_PARAMETERS:
                continue
        except (StanError, ValueError) as error:
            logging.warning("%s: %s", name, error)
            continue
        for seed in range(1, options.seeds + 1):
            for method, algorithm in ALGORITHMS.items():
                runs(f"{name}/{method}/{seed}", fitted, algorithm, program, case.data, seed)
    print(table(runs.made))


if __name__ == "__main__":
    main()
