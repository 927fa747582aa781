"""Table II: robust regression, Cauchy likelihood on data with uniform noise.

    python -m benchmarks.papers.mvi_cauchy_regression [--data-sets 100] [--results FOLDER]

Gianniotis, section V-B. The paper does not state M, r, α and γ. Ours: M = 20 centres evenly spaced
on [−10, 10]; r, α and γ start at 1.5, 1 and 0.3 and are set by empirical Bayes, for Laplace by its
evidence, for the others jointly with q by the ELBO on 1024 draws (the paper: 1000). LPD is per test
point.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pymc as pm
from scipy import stats

from benchmarks import record
from benchmarks.papers import mvi_common as common

PAPER = {
    "lpd": {"laplace": -0.818, "mu": -0.771, "eig": -0.722, "lr": -0.726, "diag": -0.736},
    "mse": {"laplace": 0.155, "mu": 0.142, "eig": 0.129, "lr": 0.127, "diag": 0.134},
}
M, N, N_TEST = 20, 50, 1000
WRITE_EVERY = 10  # data sets between two writes of the results
CENTRES = np.linspace(-10, 10, M)[:, None]
START = {"r": 1.5, "alpha": 1.0, "gamma": 0.3}


def simulate(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, 1) and targets (n,) of eq. 15."""
    x = rng.uniform(-10, 10, n)
    y = 0.3 * x * np.sin(0.7 * x) - 0.03 * x**2 + rng.uniform(-0.5, 0.5, n)
    return x[:, None], y


def build() -> pm.Model:
    """Eq. 16 with r, α, γ as variables with flat priors."""
    with pm.Model() as model:
        X, y = pm.Data("X", np.zeros((N, 1))), pm.Data("y_data", np.zeros(N))
        r, alpha, gamma = (pm.HalfFlat(name) for name in START)
        phi = common.features_graph(X, CENTRES, r)
        w = pm.Normal("w", 0, 1 / pm.math.sqrt(alpha), shape=M + 1)
        pm.Cauchy("y", phi @ w, gamma, observed=y)
    return model


def run(data_sets: int) -> Iterator[list[dict]]:
    """Scores of all methods on simulated data sets, all so far after each."""
    study, runs = common.Study(build(), tuple(START), START), []
    for seed in range(data_sets):
        rng = np.random.default_rng(seed)
        X, y = simulate(rng, N)
        X_test, y_test = simulate(rng, N_TEST)

        def score(approx, X_test=X_test, y_test=y_test):
            h = approx.hyperparameters
            f = common.weights(approx) @ common.rbf(X_test, CENTRES, h["r"]).T
            lpd = common.log_predictive(stats.cauchy.logpdf(y_test, f, h["gamma"]))
            return {"lpd": lpd.mean(), "mse": np.mean((f.mean(0) - y_test) ** 2)}

        runs.append(study.run({"X": X, "y_data": y}, score))
        logging.info("data set %d: %s", seed, common.summary(runs, "lpd"))
        yield runs


def report(runs: list[dict]) -> dict:
    """Medians beside the paper's, with tests."""
    out: dict = {
        "settings": {"M": M, "N": N, "start": START, "draws": 1024, "data_sets": len(runs)},
        "failures": [r for r in runs if common.failed(r)],
    }
    for measure, higher in (("lpd", True), ("mse", False), ("elbo", True)):
        out[measure] = {
            "ours": common.median_table(runs, measure),
            "paper": PAPER.get(measure),
            "test": common.significance(runs, measure, higher),
        }
        logging.info("%s: ours %s", measure, out[measure]["ours"])
        logging.info("%s: paper %s", measure, PAPER.get(measure))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-sets", type=int, default=100)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for runs in run(options.data_sets):
        if len(runs) % WRITE_EVERY == 0 or len(runs) == options.data_sets:
            record.write(options.results / "mvi_cauchy_regression.json", report(runs))


if __name__ == "__main__":
    main()
