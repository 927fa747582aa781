"""What a better marginal map of each coordinate could still gain over the sinh-arcsinh of ours.

    python -m benchmarks.speed.marginals --database PATH [PATH ...] [--out FILE]

A hierarchical map is fitted to each posterior with reference draws. Its latents v would be
independent standard normals if it were the posterior; under importance weights each v_j has the
marginal that the best map of it, Bernstein or any other, would have to make, and

.. math:: J_j \\approx m^2/2 + (s^2 - 1)^2/4 + \\gamma^2/12 + \\kappa^2/48

nats is what it would gain, by mean, variance, skewness and excess kurtosis to second order
(Edgeworth; Comon 1994, doi:10.1016/0165-1684(94)90029-9). What is between that and the gap from the
ELBO to log Z lies in how coordinates depend on one another, which no marginal map can mend.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.record import Runs
from bridge.comparison.problem import CaseProblem
from bridge.comparison.sweep import cases_with_reference
from posteriordb_cases import load_case
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.algorithm import Hierarchical

RESULTS = Path(__file__).parent / "results" / "marginals.json"
DRAWS = 20_000  # J of a normal is then about 1e-4


def gains(v: Array, weights: Array) -> Array:
    """J of each column of latents (N, D) with weights that sum to 1, (D,).

    >>> v = np.random.default_rng(1).exponential(size=(200_000, 1)) - 1
    >>> gains(v, np.full(200_000, 5e-6)).round()  # 4/12 + 36/48 = 1.08
    array([1.])
    """
    mean = weights @ v
    apart = v - mean
    variance = weights @ apart**2
    skew = (weights @ apart**3) / variance**1.5
    excess = (weights @ apart**4) / variance**2 - 3
    return mean**2 / 2 + (variance - 1) ** 2 / 4 + skew**2 / 12 + excess**2 / 48


def one(problem: CaseProblem) -> dict[str, float | int | str]:
    """A fit, k̂ of its weights, its gap to log Z, and what marginals would gain."""
    density = problem.stan_target.density
    fitted = Hierarchical().fit(density, random_seed=1)
    z = np.random.default_rng(2).standard_normal((DRAWS, fitted.q.latent_dimension))
    theta, log_q = fitted.q.forward(z)
    log_p = density.log_density(theta)
    log_weights, khat = psislw(np.where(np.isfinite(log_p), log_p - log_q, -np.inf))
    weights = np.exp(log_weights)
    found = gains(z[:, : fitted.q.dimension], weights)
    result = fitted.result
    assert result.log_marginal_is is not None and result.elbo is not None  # of fresh draws
    return {
        "dimension": fitted.q.dimension,
        "form": type(fitted.q).__name__,
        "khat": float(khat),
        "relative_ess": float(1 / (weights @ weights) / DRAWS),
        "gap": result.log_marginal_is - result.elbo,
        "largest": float(found.max()),
        "all": float(found.sum()),
    }


def main() -> None:
    """Make what is missing, then print a line a posterior."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    runs = Runs(arguments.out, "runs")
    for database in arguments.database:
        for name in cases_with_reference(database):
            case = load_case(name, database=database)
            if case.stan_code is not None:
                runs(name, one, CaseProblem(case))
    print(f"{'posterior':46}{'D':>4}{'k̂':>6}{'ESS/N':>7}{'gap':>7}{'largest':>9}{'all':>7}")
    for name, row in runs.made.items():
        print(f"{name:46}{row['dimension']:4}{row['khat']:6.2f}{row['relative_ess']:7.2f}"
              f"{row['gap']:7.3f}{row['largest']:9.4f}{row['all']:7.3f}")  # fmt: skip
    largest = sorted(row["largest"] for row in runs.made.values())
    print(f"{len(largest)} posteriors: at most {largest[len(largest) // 2]:.4f} nats on half of "
          f"them, at most {largest[int(0.95 * (len(largest) - 1))]:.3f} on 95 %")  # fmt: skip


if __name__ == "__main__":
    main()
