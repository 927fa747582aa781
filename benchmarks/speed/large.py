"""Gaussians and hierarchical maps from scores alone, in a hundred to twenty thousand dimensions.

    python -m benchmarks.speed.large [--groups 100 1000 10000] [--models ...] [--methods ...]

Hierarchies of `large_models` by the number of groups: gradients, CPU seconds, peak memory, ELBO, k̂
and ESS/N of 10,000 fresh draws, and how far sds and means of the globals are from those of the
posterior with the groups integrated out (up to 1,000 groups, see `large_truth`). Each run has a
process of its own, whose memory it is; it is kept as it ends, and a later call makes only those
that are missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.processes import in_a_process, peak_mb
from benchmarks.record import Runs
from benchmarks.speed.large_models import MODELS
from benchmarks.speed.large_truth import Truth, true_globals
from pymc_ext.density import CountedDensity
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.algorithm import Algorithm, run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.hierarchical.algorithm import Hierarchical

RESULTS = Path(__file__).parent / "results" / "large.json"
DRAWS, TOGETHER, JUDGE = 10_000, 200, 7
MOST_GROUPS_OF_TRUTH = 1000  # the integrals over the groups take some minutes beyond
FEWEST_EFFECTIVE = 200  # draws behind a truth: fewer do not know an sd to 5 %, nothing is shown
ALGORITHMS: dict[str, Algorithm] = {"batch-match": BatchMatch(), "hierarchical": Hierarchical()}
Row = dict[str, float | int | str | None]


def fitted(model: str, groups: int, method: str, seed: int) -> Row:
    """One run, judged."""
    density = CountedDensity(MODELS[model](groups))
    begin, start = time.process_time(), np.zeros(density.dimension)
    with Monitor.silent() as monitor:
        fit = run_algorithm(ALGORITHMS[method], density, start, random_seed=seed, monitor=monitor)
    row: Row = {
        "dimension": density.dimension,
        "cpu_s": round(time.process_time() - begin, 2),
        "peak_mb": peak_mb(),
        "gradients": fit.result.gradient_evaluations,
        "values": fit.result.density_evaluations,
        "stop_reason": fit.result.stop_reason,
        "links": len(getattr(fit.result, "links", ())),
    }
    return row | judged(fit.q, model, groups)


def judged(q: Posterior, model: str, groups: int) -> Row:
    """What fresh draws say of q, and how far its globals are from the truth."""
    density = MODELS[model](groups)
    k, log_ratios, first = density.globals, [], []
    for theta, log_q in _drawn(q):
        with np.errstate(all="ignore"):
            log_ratios.append(density.log_density(theta) - log_q)
        first.append(theta[:, :k])
    ratios, globals_ = np.concatenate(log_ratios), np.concatenate(first)
    fresh = FreshDraws.from_log_ratios(ratios)
    row: Row = {
        "elbo": fresh.elbo,
        "elbo_se": fresh.elbo_se,
        "log_marginal_is": fresh.log_marginal_is,
        "khat": float(psislw(ratios[np.isfinite(ratios)])[1]),
        "relative_ess": fresh.ess / DRAWS,
    }
    if groups > MOST_GROUPS_OF_TRUTH:
        return row
    truth = true_globals(density, globals_)
    return row | _errors(globals_, truth)


def _drawn(q: Posterior) -> Iterator[tuple[Array, Array]]:
    rng = np.random.default_rng(JUDGE)
    for _ in range(DRAWS // TOGETHER):
        yield q.forward(rng.standard_normal((TOGETHER, q.latent_dimension)))


def _errors(draws: Array, truth: Truth) -> Row:
    return {
        "sd_error": float(np.abs(draws.std(axis=0) / truth.std - 1).max()),
        "mean_error": float(np.abs((draws.mean(axis=0) - truth.mean) / truth.std).max()),
        "truth_ess": truth.ess,
    }


def table(made: dict[str, Row]) -> str:
    """A line a run."""
    lines = [
        "model          groups      D  method        gradients  CPU s  peak MB         ELBO     k̂  "
        "ESS/N  sd error  mean error"
    ]
    for key, row in sorted(made.items(), key=_place):
        model, groups, method, _ = key.split("/")
        known = float(str(row.get("truth_ess", 0))) >= FEWEST_EFFECTIVE
        errors = "".join(
            f"  {float(str(row[name])):8.3f}" if known else "         –"
            for name in ("sd_error", "mean_error")
        )
        lines.append(
            f"{model:14} {int(groups):6} {row['dimension']:6}  {method:12} {row['gradients']:10,} "
            f"{row['cpu_s']:6.1f} {row['peak_mb']:8.0f} {row['elbo']:12.2f} {row['khat']:6.2f} "
            f"{row['relative_ess']:6.3f}{errors}"
        )
    return "\n".join(lines)


def _place(item: tuple[str, Row]) -> tuple[int, int, int]:
    model, groups, method, _ = item[0].split("/")
    return list(MODELS).index(model), int(groups), list(ALGORITHMS).index(method)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", nargs="*", type=int, default=[100, 1000, 10_000])
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--methods", nargs="*", choices=list(ALGORITHMS), default=list(ALGORITHMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for groups in options.groups:
        for model in options.models:
            for method in options.methods:
                key = f"{model}/{groups}/{method}/{options.seed}"
                runs(key, in_a_process, fitted, model, groups, method, options.seed)
    print(table(runs.made))


if __name__ == "__main__":
    main()
