"""Speed and memory of Gaussian-process classification beside scikit-learn's.

    python -m benchmarks.speed.gp [--results FOLDER]

(1) One hyperparameter step: evidence and gradient of a logistic Laplace GP with an RBF kernel
(variance and lengthscale free), ours cold (no start), ours as met in learning (started at the last
solution, hyperparameters 2 % away) and scikit-learn's `log_marginal_likelihood(eval_gradient=True)`
at the same θ, in turns; both evidences are compared (limit: in learning 2× faster at n = 350 and
1000). (2) Peak memory of learning at n = 2000, in a fresh process (limit 4 GiB). (3) A fitted
sparse model, n = 5000, m = 100, from the same start: `Matching` against variational inference as
the paper and its peers run it (`vi`: E-steps of natural gradients, M-steps of Adam; limit: 10×) and
against our own joint L-BFGS (`vi-joint`). Wall seconds, medians.
With --large only: seconds and peak memory of one evidence and gradient at n = 100,000, m = 500,
by `Matching`, by `CVI`, and of one pass of minibatches, into gp_large.json (limit: 24 GiB).
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import pymc_ext as px
from benchmarks import record
from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.loops import Adam, natural_step
from pymc_ext.gp.sparse import SparsePrior

DIMS = 4
LIMITS = {"step_ratio": 2.0, "memory_gib": 4.0, "matching_ratio": 10.0, "large_gib": 24.0}


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of a smooth function with logistic noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, DIMS))
    f = 2 * np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, (f + rng.logistic(size=n) > 0).astype(int)


def model(X: np.ndarray, y: np.ndarray, rule: Any, learning: str | None = None, m: int = 0):
    with pm.Model() as it:
        variance, ls = pm.HalfFlat("variance", initval=1.5), pm.HalfFlat("ls", initval=1.2)
        gp = px.gp.Approximate(
            cov_func=variance * pm.gp.cov.ExpQuad(DIMS, ls=ls),
            likelihood=px.gp.BernoulliLogit(), rule=rule, learning=learning,
        )  # fmt: skip
        gp.marginal_likelihood("y", X=X, y=y, Xu=X[:m] if m else None)
    return it, gp


def medians(functions: list[Any], repeats: int) -> list[float]:
    """Seconds of each function, taken in turns."""
    times = np.empty((repeats, len(functions)))
    for i, k in np.ndindex(times.shape):
        begin = time.perf_counter()
        functions[k](i)
        times[i, k] = time.perf_counter() - begin
    return [float(t) for t in np.median(times, axis=0)]


def step(n: int, repeats: int) -> dict[str, float]:
    """Seconds of one evidence and gradient."""
    X, y = data(n)
    it, gp = model(X, y, px.gp.Laplace())
    graph = gp.graph(it)
    theta = np.log([1.5, 1.2])

    def ours(i: int, keep: bool) -> None:
        if not keep:
            gp.solver._last = None
        at = theta + (0.02 if keep else 0.0)
        (phi, *prior), _ = graph.forward(at)
        bars = gp.solver.gradient(graph.y, phi, tuple(prior))
        ours.value = gp.solver.solve(graph.y, phi, tuple(prior)).value, graph.backward(at, bars)

    peer = GaussianProcessClassifier(ConstantKernel(1.5) * RBF(1.2), optimizer=None).fit(X, y)

    def theirs(_: int) -> None:
        theirs.value = peer.log_marginal_likelihood(theta, eval_gradient=True)

    ours(0, False), theirs(0)
    gap = abs(ours.value[0] - theirs.value[0])
    slope_gap = float(np.max(np.abs(ours.value[1] - theirs.value[1])))
    turns = [lambda i: ours(i, False), lambda i: ours(i, True), theirs]
    cold, warm, peer_seconds = medians(turns, repeats)
    return {
        "n": n, "ours_cold": cold, "ours_in_learning": warm, "scikit-learn": peer_seconds,
        "ratio_cold": peer_seconds / cold, "ratio_in_learning": peer_seconds / warm,
        "evidence_difference": gap, "gradient_difference": slope_gap,
    }  # fmt: skip


def memory(n: int = 2000) -> None:
    """In a process of its own: learning by Laplace and by the hybrid, then its peak memory."""
    X, y = data(n)
    for rule, learning in ((px.gp.Laplace(), None), (px.gp.CVI(), "ep")):
        it, gp = model(X, y, rule, learning)
        with it:
            px.gp.fit_hyperparameters(gp, max_iterations=1, progressbar=False)
    print(peak_gib())


def large(n: int = 100_000, m: int = 500) -> dict[str, Any]:
    """One evidence and gradient of each rule, and one pass of minibatches."""
    X, y = data(n)
    out: dict[str, Any] = {"n": n, "m": m}
    for name, rule in (("matching", px.gp.Matching()), ("vi", px.gp.CVI(tolerance=1e-5))):
        it, gp = model(X, y, rule, m=m)
        graph, theta = gp.graph(it), np.log([1.5, 1.2])
        begin = time.perf_counter()
        (phi, *prior), _ = graph.forward(theta)
        bars = gp.solver.gradient(graph.y, phi, tuple(prior))
        slope = graph.backward(theta, bars)
        solution = gp.solver.solve(graph.y, phi, tuple(prior))
        out[name] = {
            "seconds": time.perf_counter() - begin,
            "updates": solution.fixed_point.iterations,
            "evidence": solution.value,
            "gradient_norm": float(np.linalg.norm(slope)),
            "peak_gib": peak_gib(),
        }
        logging.info("%s %s", name, out[name])
    it, gp = model(X, y, px.gp.CVI(rho=0.3, tolerance=1e-5), m=m)
    batches = HyperparameterGraph(gp, it, batch=True)
    theta, adam, q = np.log([1.5, 1.2]), Adam(0.01, np.array([[-12.0], [12.0]])), None
    begin = time.perf_counter()
    for rows in np.array_split(np.random.default_rng(0).permutation(n), n // 2000):
        (phi, *inputs), _ = batches.forward(theta, X[rows])
        q, terms = natural_step(q, SparsePrior(*inputs), gp.solver, y[rows].astype(float), phi, n)
        theta = adam.step(theta, batches.backward(theta, terms.bars, X[rows]))
    out["minibatch_pass"] = {"seconds": time.perf_counter() - begin, "steps": n // 2000}
    out["peak_gib"] = peak_gib()
    return out


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def matching(n: int = 5000, m: int = 100) -> dict[str, Any]:
    X, y = data(n)
    fresh = data(2000, 1)
    table: dict[str, Any] = {"n": n, "m": m}
    runs = {
        "matching": (px.gp.Matching("laplace"), "l-bfgs"),
        "vi": (px.gp.CVI(), "alternating"),
        "vi-joint": (px.gp.CVI(), "l-bfgs"),
    }
    for name, (rule, method) in runs.items():
        it, gp = model(X, y, rule, m=m)
        gp.graph(it)
        with it:
            fit = px.gp.fit_hyperparameters(gp, method, max_iterations=60, progressbar=False)
            p = gp.log_predictive(*fresh, point=fit.point)
        table[name] = {
            "seconds": fit.seconds,
            "steps": fit.steps,
            "stop": fit.stop_reason,
            "evidence": fit.evidence,
            "test_log_likelihood": float(p.mean()),
        }
    table["ratio"] = table["vi"]["seconds"] / table["matching"]["seconds"]
    return table


def main() -> None:
    """Measure, print, write JSON; exit with an error if a limit of the issue is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--large", action="store_true", help="n = 100,000 only")
    arguments = parser.parse_args()
    if arguments.memory:
        memory()
        return
    warnings.filterwarnings("ignore", message="PyTensor could not link", category=UserWarning)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("pymc_ext").setLevel(logging.ERROR)
    if arguments.large:
        results = large()
        record.write(arguments.results / "gp_large.json", results)
        logging.info("%s", json.dumps(results, indent=1))
        if results["peak_gib"] > LIMITS["large_gib"]:
            raise SystemExit("a limit was missed")
        return
    steps = [step(350, 31), step(1000, 15)]
    command = [sys.executable, "-m", "benchmarks.speed.gp", "--memory"]
    peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    results = {"step": steps, "memory_gib_n2000": peak, "matching": matching(), "limits": LIMITS}
    logging.info("%s", json.dumps(results, indent=1))
    record.write(arguments.results / "gp.json", results)
    missed = any(s["ratio_in_learning"] < LIMITS["step_ratio"] for s in steps)
    missed |= peak > LIMITS["memory_gib"]
    missed |= results["matching"]["ratio"] < LIMITS["matching_ratio"]
    if missed:
        raise SystemExit("a limit was missed")


if __name__ == "__main__":
    main()
