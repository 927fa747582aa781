"""The same posteriors on two versions of Stan: densities, gradients and NUTS moments.

    python3.11 -m benchmarks.stan_versions
    STAN_MODELS_CACHE=/tmp/newer-stan python3.13 -m benchmarks.stan_versions

Each call measures with the Stan of its interpreter and cache (httpstan's newest wheel is Stan 2.35
on Python 3.11, 2.39 on 3.12 and later; a cache keeps the wheel it was first filled with, so two
versions need two caches), adds it to results/stan_versions.json and prints how far every recorded
version is from the first: largest relative differences of log density and gradient at 10 points of
every embedded case, and of NUTS's means, sds and quantiles on eight schools in their joint Monte
Carlo standard errors.

``--database`` takes the cases of another database, without NUTS. A program with a simplex differs
there between 2.35 and 2.39, as the newer one has another transform (isometric log ratio in place
of stick-breaking), and with it the unconstrained space and its Jacobian; the density of the
constrained parameters is the same.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record
from bridge.comparison.problem import CaseProblem
from bridge.measures.moments import STATISTICS, reference_moments
from posteriordb_cases import EMBEDDED, list_cases, load_case
from stan_models import nuts

RESULTS = Path(__file__).parent / "results" / "stan_versions.json"
SCHOOLS = "eight_schools-eight_schools_"
SEEDS = (1, 2)
Run = dict[str, Any]


def densities(problem: CaseProblem) -> Run:
    """Log density and gradient at 10 points, uniform on (-2, 2) as Stan's initial values."""
    density = problem.program.density(problem.case.data)
    theta = np.random.default_rng(1).uniform(-2, 2, (10, density.dimension))
    lp, gradient = density.log_density_gradient(theta)
    return {"theta": theta.tolist(), "lp": lp.tolist(), "gradient": gradient.tolist()}


def sampled(problem: CaseProblem, seed: int) -> Run:
    """Moments of 4 chains of 2,500 draws, with standard errors, by parameter."""
    idata = nuts(
        problem.program, problem.case.data, draws=2500, adapt_delta=0.99, random_seed=seed,
        parallel_chains=1,
    )  # fmt: skip
    return reference_moments(idata).drop(columns="constant").to_dict("index")


def measured(database: str | Path) -> Run:
    run: Run = {"densities": {}, "nuts": {}}
    for name in list_cases(database):
        problem = CaseProblem(load_case(name, database))
        if problem.case.stan_code is None:
            continue
        run["densities"][name] = densities(problem)
        run["engine"] = problem.program.toolchain.engine
        run["stan_version"] = problem.program.toolchain.stan_version
        if database == EMBEDDED and name.startswith(SCHOOLS):
            run["nuts"][name] = {str(seed): sampled(problem, seed) for seed in SEEDS}
    return run


def relative(a: list, b: list) -> float:
    """Largest difference of (N,) or (N, D), relative to the norm of ``a``'s row."""
    x, y = (np.asarray(values, dtype=float).reshape(len(values), -1) for values in (a, b))
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return np.inf
    x, y = np.nan_to_num(x), np.nan_to_num(y)
    norm = np.linalg.norm(x, axis=1)
    return float((np.abs(x - y).max(axis=1) / np.where(norm > 0, norm, 1)).max())


def density_gaps(a: Run, b: Run) -> dict[str, tuple[float, float]]:
    """Largest relative difference of log density and of gradient, by case."""
    gaps = {}
    for name in a["densities"].keys() & b["densities"].keys():
        one, other = a["densities"][name], b["densities"][name]
        if one["theta"] != other["theta"]:
            raise ValueError(f"{name}: the two versions were measured at different points")
        gaps[name] = tuple(relative(one[key], other[key]) for key in ("lp", "gradient"))
    return dict(sorted(gaps.items()))


def moment_gaps(a: Run, b: Run) -> dict[str, np.ndarray]:
    """Differences of all parameters' moments in joint standard errors, by case and seed."""
    gaps = {}
    for name, runs in a["nuts"].items():
        for seed, table in runs.items():
            other = b["nuts"][name][seed]
            pairs = [(row, other[label], s) for label, row in table.items() for s in STATISTICS]
            gaps[f"{name}, seed {seed}"] = np.array(
                [(x[s] - y[s]) / np.hypot(x[f"{s}_mcse"], y[f"{s}_mcse"]) for x, y, s in pairs]
            )
    return gaps


def told(runs: dict[str, Run]) -> str:
    first, *others = sorted(runs)
    lines = [f"Stan {first} ({runs[first]['engine']}) against"]
    for version in others:
        lines.append(f"Stan {version} ({runs[version]['engine']}): relative differences")
        for name, (lp, gradient) in density_gaps(runs[first], runs[version]).items():
            lines.append(f"  {name:45} log density {lp:.1e}  gradient {gradient:.1e}")
        for name, z in moment_gaps(runs[first], runs[version]).items():
            lines.append(
                f"  NUTS, {name}: {len(z)} moments, largest gap {np.abs(z).max():.2f} standard "
                f"errors, root mean square {np.sqrt(np.mean(z**2)):.2f}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", default=EMBEDDED, help="posteriordb folder (embedded cases)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON that is added to")
    parser.add_argument("--show", action="store_true", help="print what is recorded, run nothing")
    options = parser.parse_args()
    runs: dict[str, Run] = {}
    if options.out.is_file():
        runs = json.loads(options.out.read_text(encoding="utf-8"))["results"]
    if not options.show:
        run = measured(options.database)
        runs[run["stan_version"]] = run
        record.write(options.out, runs, "cmdstanpy", "bridgestan")
    print(told(runs))


if __name__ == "__main__":
    main()
