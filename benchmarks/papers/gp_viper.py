"""Tables 3 and 4 of Komodromos et al. (2024): sparse logistic GP classification, PER / PG / MC.

    python -m benchmarks.papers.gp_viper [--sets heart fourclass] [--seeds 3]

m = 50 learned inducing inputs, linear mean, ARD RBF kernel with lengthscales from 0.5, a random
10 % held out (the published code's split), inputs scaled to [-1, 1]. PER: exact expectations by
the expected-softplus Op; PG: the Jaakkola bound; MC: 1000 fixed draws. All by L-BFGS on the ELBO
with the inducing posterior at its optimum for every θ. The ELBO reported is the exact one of each
fitted posterior. `toy` is the illustrative example of table 3 (n = 50, 1-D, grid metrics).
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import expit, log_expit
from sklearn.metrics import roc_auc_score

import pymc_ext as px
from benchmarks import record
from pymc_ext.gp.evidence import elbo
from pymc_ext.gp.likelihoods import Expectations

DATA = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "vi_per" / "data"
PAPER = {  # ELBO, width of the 95 % CI on the test inputs, AUC
    "toy": {"PER": (-24.1, 4.31, 0.928), "MC": (-24.5, 4.22, 0.921), "PG": (-24.5, 3.13, 0.923)},
    "breast-cancer": {"PER": (-41.83, 5.92, 0.995), "MC": (-41.87, 6.16, 0.995),
                      "PG": (-47.09, 0.44, 0.997)},
    "svmguide1": {"PER": (-267.1, 5.11, 0.996), "MC": (-266.5, 5.18, 0.996),
                  "PG": (-285.8, 1.51, 0.996)},
    "australian": {"PER": (-191.2, 1.56, 0.953), "MC": (-192.2, 1.49, 0.951),
                   "PG": (-193.9, 0.627, 0.95)},
    "fourclass": {"PER": (-52.04, 8.6, 1.0), "MC": (-55.54, 7.74, 1.0), "PG": (-71.0, 2.95, 1.0)},
    "heart": {"PER": (-77.74, 2.19, 0.894), "MC": (-77.51, 2.71, 0.894),
              "PG": (-78.93, 0.713, 0.894)},
}  # fmt: skip
FILES = {"breast-cancer": "breast-cancer_683x10.csv", "australian": "australian_690x14.csv",
         "fourclass": "fourclass_862x2.csv", "heart": "heart_270x13.csv"}  # fmt: skip


class MonteCarloLogit(px.gp.BernoulliLogit):
    """The same likelihood with expectations over 1000 fixed draws."""

    z = np.random.default_rng(0).standard_normal((1000, 1))

    def expectations(self, mean, variance, y, phi, order=2):
        sd = np.sqrt(variance)
        f = mean + sd * self.z
        sign = 2 * y - 1
        value, slope = log_expit(sign * f), sign * expit(-sign * f)
        d = np.zeros((4, len(y)))
        d[0], d[1] = slope.mean(axis=0), (slope * self.z).mean(axis=0) / sd
        return Expectations(value.mean(axis=0), d, np.empty((0, 3, len(y))))


METHODS = {
    "PER": (px.gp.BernoulliLogit, px.gp.CVI(tolerance=1e-7)),
    "PG": (px.gp.BernoulliLogit, px.gp.JaakkolaBound(tolerance=1e-7)),
    "MC": (MonteCarloLogit, px.gp.CVI(tolerance=1e-6)),
}


def toy(seed: int) -> tuple[np.ndarray, ...]:
    """Training rows outside [2.5, 3.5], test rows on all of [0, 5]; last the true f there."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(0, 5, 64)
    train = grid[(grid < 2.5) | (grid > 3.5)][:50]
    test = np.linspace(0, 5, 50)
    f = [-4.5 * np.sin(np.pi / 2 * x) for x in (train, test)]
    y = [(rng.random(len(v)) < expit(v + rng.standard_normal(len(v)))).astype(int) for v in f]
    return train[:, None], y[0], test[:, None], y[1], f[1]


def load(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """A random 10 % of the rows is held out; svmguide1 has a test set of its own."""
    if name == "toy":
        return toy(seed)
    if name == "svmguide1":
        parts = [pd.read_csv(DATA / f"svmguide1_{part}.csv.gz") for part in ("train", "test")]
        frame, n = pd.concat(parts), len(parts[0])
        table = frame[[*frame.columns.drop("y"), "y"]].to_numpy(dtype=float)
        order = np.arange(len(table))
    else:
        frame = pd.read_csv(DATA / FILES[name])
        if name == "fourclass":
            frame = frame[["x1", "x2", "y"]]  # label last, as in the other files
        if name == "breast-cancer":
            frame["Class"] = (frame["Class"] == "malignant").astype(int)
        table = frame.to_numpy(dtype=float)
        order = np.random.default_rng(seed).permutation(len(table))
        n = len(table) - len(table) // 10
    X, label = table[:, :-1], table[:, -1]
    low, high = X.min(axis=0), X.max(axis=0)
    X = 2 * (X - low) / np.where(high > low, high - low, 1) - 1
    y = (label == label.max()).astype(int)
    return X[order[:n]], y[order[:n]], X[order[n:]], y[order[n:]]


def fit(method: str, data: tuple[np.ndarray, ...], seed: int, m: int = 50) -> dict[str, Any]:
    """Learn everything, then judge the posterior."""
    X, y, X_test, y_test = data[:4]
    likelihood, rule = METHODS[method]
    p = X.shape[1]
    Z = X[np.random.default_rng(seed).permutation(len(X))[: min(m, len(X))]]
    Z = Z + 1e-3 * np.random.default_rng(seed).standard_normal(Z.shape)
    with pm.Model():
        ls = pm.HalfFlat("ls", shape=p, initval=np.full(p, 0.5))
        variance = pm.HalfFlat("variance", initval=0.7)
        slope, bias = pm.Flat("slope", shape=p, initval=np.zeros(p)), pm.Flat("bias", initval=0.0)
        Xu = pm.Flat("Xu", shape=Z.shape, initval=Z)
        gp = px.gp.Approximate(
            mean_func=pm.gp.mean.Linear(coeffs=slope, intercept=bias),
            cov_func=variance * pm.gp.cov.ExpQuad(p, ls=ls), likelihood=likelihood(), rule=rule,
        )  # fmt: skip
        gp.marginal_likelihood("y", X=X, y=y, Xu=Xu)
        bounds = {"variance": (1e-4, 1e4)}
        found = px.gp.fit_hyperparameters(gp, bounds=bounds, max_iterations=300, progressbar=False)
        mean, var = gp.predict(X_test, point=found.point, diag=True)
        last = gp.solver._last[1].fixed_point
    exact = last.posterior.centred_log_normaliser
    exact += elbo(
        last.posterior, last.sites, px.gp.BernoulliLogit(), y.astype(float), np.empty(0)
    ).value
    out = {
        "elbo": exact, "objective": found.objective, "auc": roc_auc_score(y_test, mean),
        "ci_width": float(np.mean(2 * 1.96 * np.sqrt(var))), "seconds": found.seconds,
        "steps": found.steps, "stop": found.stop_reason[:40],
    }  # fmt: skip
    if len(data) == 5:
        truth = data[4]
        out["mse"] = float(np.mean((mean - truth) ** 2))
        out["coverage"] = float(np.mean(np.abs(mean - truth) < 1.96 * np.sqrt(var)))
    return out


def run(name: str, method: str, seed: int) -> dict[str, Any]:
    """One fit with its wall time."""
    data = load(name, seed)
    begin = time.perf_counter()
    found = fit(method, data, seed)
    return found | {"wall_seconds": time.perf_counter() - begin}


def main() -> None:
    """Run what is missing, print medians beside the paper's, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["toy", "heart"], choices=list(PAPER))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    logger = logging.getLogger("gp_viper")
    logger.setLevel(logging.INFO)
    if not DATA.is_dir():
        logger.info("the paper's data (%s) are not here: the toy example only", DATA)
        arguments.sets = ["toy"]
    runs = record.Runs(arguments.results / "gp_viper.json", "runs", paper=PAPER)
    for name in arguments.sets:
        for method in arguments.methods:
            seeds = range(arguments.seeds)
            rows = [runs(f"{name}/{method}/{seed}", run, name, method, seed) for seed in seeds]
            columns = ("elbo", "ci_width", "auc", "seconds", "mse", "coverage")
            medians = {
                c: round(float(np.median([r[c] for r in rows])), 3) for c in columns if c in rows[0]
            }
            logger.info("%-13s %-3s %s; paper %s", name, method, medians, PAPER[name][method])


if __name__ == "__main__":
    main()
