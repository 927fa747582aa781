"""Speed of full-covariance Gaussian VI for logistic regression with 25 predictors, one thread.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.logistic_fit [--largest 1000000] [--no-peers]

In one run, CPU seconds: ViperVI at growing n (fit once compiled, and the whole ``pm.fit`` call), a
cold compilation cache at n = 1000, 64-point Gauss–Hermite with L-BFGS, and PyMC's ``advi`` and
``fullrank_advi`` until their ELBO, in closed form, is within ``--gap`` nats of the best of their
family, or until ``--patience`` seconds have gone. Limits are those of issue 3.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
from numpy.polynomial.hermite_e import hermegauss
from scipy.linalg import cholesky
from scipy.optimize import minimize
from scipy.special import expit

import pymc_ext as px
from benchmarks.papers.viper_simulator import simulate
from benchmarks.record import write
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.logistic.newton import expand
from pymc_ext.variational.logistic.numbers import GaussianPrior, LogisticData
from pymc_ext.variational.logistic.viper import Viper

LIMITS = {"1000": 0.05, "10000": 0.5, "1000000": 60.0, "cold": 10.0, "memory_GiB": 4.0}
P = 25


def model(X: np.ndarray, y: np.ndarray) -> pm.Model:
    """y ~ Bernoulli(σ(Xβ)), β ~ N(0, I)."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


def viper(X, y, covariance="full", repeats=3) -> dict[str, float]:
    """One ``pm.fit`` with a warm cache, then the best of ``repeats`` fits once compiled."""
    cpu = time.process_time()
    with model(X, y):
        method = px.ViperVI(covariance)
        approx = pm.fit(method=method, progressbar=False)
    row = {"call_cpu_seconds": time.process_time() - cpu, "elbo": approx.result.train_elbo}
    times = []
    for _ in range(repeats):
        method.restart()
        cpu = time.process_time()
        method.fit(1000, progressbar=False)
        times.append(time.process_time() - cpu)
    exact = px.ViperVI(covariance, model=approx.model, tolerance=1e-13)
    best = exact.fit(1000, progressbar=False).result.train_elbo
    return {
        **row,
        "fit_cpu_seconds": min(times),
        "iterations": approx.result.iterations,
        "nats_below_optimum": best - approx.result.train_elbo,
    }


def gauss_hermite(X, y, points=64) -> dict[str, float]:
    """Quadrature and L-BFGS in (μ, L)."""
    nodes, weights = hermegauss(points)
    weights = weights / weights.sum()
    p, lower = X.shape[1], np.tril_indices(X.shape[1], -1)

    def loss(x):
        mu, L = x[:p], np.diag(np.exp(x[p : 2 * p]))
        L[lower] = x[2 * p :]
        XL = X @ L
        f = (X @ mu)[:, None] + np.sqrt((XL**2).sum(1))[:, None] * nodes
        s = expit(f)
        value = y @ X @ mu - (np.logaddexp(0, f) @ weights).sum()
        g_mu = X.T @ (y - s @ weights) - mu
        g_L = -(X * ((s * (1 - s)) @ weights)[:, None]).T @ XL - L
        kl = 0.5 * ((L**2).sum() + mu @ mu - p) - x[p : 2 * p].sum()
        return kl - value, -np.concatenate([g_mu, np.diag(g_L) * np.diag(L) + 1, g_L[lower]])

    start = np.concatenate([np.zeros(p), np.full(p, -1.5), np.zeros(len(lower[0]))])
    cpu = time.process_time()
    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-6}
    out = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return {"fit_cpu_seconds": time.process_time() - cpu, "elbo": -float(out.fun)}


def closed_form_elbo(approx, X, y) -> float:
    """ELBO of PyMC's Gaussian, without Monte Carlo noise."""
    method = closed_form_elbo.softplus
    n, p = X.shape
    data = LogisticData(X, np.zeros(n), y.astype(float), np.ones(n), np.ones(n))
    prior = GaussianPrior(-0.5 * p * np.log(2 * np.pi), np.zeros(p), np.eye(p))
    q = Gaussian(approx.mean.eval(), cholesky(approx.cov.eval(), lower=True))
    return expand(q, data, prior, method).elbo


def stock(X, y, method: str, best: float, gap: float, patience: float) -> dict[str, float]:
    """PyMC's ADVI until within ``gap`` nats of ``best``; checks are not counted.

    Adam's rate is halved whenever 5,000 steps have brought no better ELBO: with a constant rate the
    noise of one draw a step keeps ADVI half a nat and more from its optimum.
    """
    spent, elbos = 0.0, [-np.inf]
    rate = pytensor.shared(np.asarray(0.02), "rate")
    with model(X, y):
        inference = {"advi": pm.ADVI, "fullrank_advi": pm.FullRankADVI}[method](random_seed=1)
        inference.fit(1, progressbar=False, obj_optimizer=pm.adam(learning_rate=rate))
        while spent < patience and max(elbos) < best - gap:
            cpu = time.process_time()
            inference.refine(1000, progressbar=False)
            spent += time.process_time() - cpu
            elbos.append(closed_form_elbo(inference.approx, X, y))
            if len(elbos) > 6 and max(elbos[-5:]) <= max(elbos[:-5]):
                rate.set_value(rate.get_value() / 2)
    return {
        "fit_cpu_seconds": spent,
        "elbo": max(elbos),
        "steps": 1000 * (len(elbos) - 1),
        "reached": max(elbos) >= best - gap,
    }


def cold(n: int) -> dict[str, float]:
    """First ``pm.fit`` of a fresh process with an empty compilation cache: wall and CPU seconds.

    CPU seconds count the compiler's processes; imports are not counted.
    """
    code = (
        "import os, time, pymc as pm, pymc_ext as px\n"
        "from benchmarks.speed.logistic_fit import model, simulate\n"
        f"X, y, _ = simulate({n}, 25, random_seed=1)\n"
        "with model(X, y):\n"
        "    begin, cpu = time.perf_counter(), sum(os.times()[:4])\n"
        "    pm.fit(method=px.ViperVI(), progressbar=False)\n"
        "print(time.perf_counter() - begin, sum(os.times()[:4]) - cpu)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={folder}"}
        out = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], env=env, check=True, capture_output=True
        )
    wall, cpu = (float(x) for x in out.stdout.split()[-2:])
    return {"wall_seconds": wall, "cpu_seconds": cpu}


def main() -> None:
    """Measure, print, and keep the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--gap", type=float, default=0.1)
    parser.add_argument("--patience", type=float, default=60.0)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    results: dict = {"limits": LIMITS, "viper-full": {}}
    for n in (n for n in (1000, 10_000, 100_000, 1_000_000) if n <= options.largest):
        X, y, _ = simulate(n, P, random_seed=1)
        row = viper(X, y, repeats=5 if n <= 10_000 else 1)
        row["peak_memory_GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        results["viper-full"][str(n)] = row
        print(n, row, flush=True)
    results["cold_cache"] = cold(1000)
    print("cold cache, n = 1000:", results["cold_cache"], flush=True)
    if not options.no_peers:
        for n in (1000, 10_000):
            X, y, _ = simulate(n, P, random_seed=1)
            with model(X, y):
                closed_form_elbo.softplus = Viper().softplus(px.ViperVI().approx.density)
            best = {c: viper(X, y, c, 1)["elbo"] for c in ("full", "diagonal")}
            peers = {"gauss-hermite-64 + L-BFGS": gauss_hermite(X, y)}
            peers["pymc-advi"] = stock(
                X, y, "advi", best["diagonal"], options.gap, options.patience
            )
            peers["pymc-advi-full"] = stock(
                X, y, "fullrank_advi", best["full"], options.gap, options.patience
            )
            results[f"peers_{n}"] = {"best": best, **peers}
            print(n, best, peers, flush=True)
    write(options.results / "logistic_fit.json", results)


if __name__ == "__main__":
    main()
