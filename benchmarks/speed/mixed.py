"""Mixed VI: time limits, growth with draws and dimension, and full-rank ADVI in the same run.

    python -m benchmarks.speed.mixed [--parts limits growth advi] [--iterations 40000]

Seconds are CPU seconds of one thread without compilation: each fit is run once, restarted, and run
again. ``limits``: the fits that have a stated limit. ``growth``: one gradient of the objective, and
whole fits, against the number of draws S and the dimension D, with the peak memory of a process of
its own. ``advi``: PyMC's full-rank ADVI runs in blocks, with its default optimiser and with Adam at
a rate of 0.01; after each block its ELBO is estimated from the same 10,000 normals as ours. "Best"
is its highest ELBO, and its time the first at which it comes within 0.05 nats of it. Our time to it
is that of the first training ELBO as high, the mode search included, and counts only where the
final ELBO on the same normals is as high too; ``seconds`` are those of the whole fit, with its own
evaluation on fresh draws. LaplaceVI has no training ELBO: its whole fit counts.
"""

from __future__ import annotations

import argparse
import logging
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.stats import linregress, multivariate_normal

import pymc_ext as px
from benchmarks import record
from benchmarks.processes import in_a_process
from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.elbo.normals import fixed_normals
from pymc_ext.variational.elbo.objective import DrawsObjective
from pymc_ext.variational.gaussian.modes import LaplaceSearch, ModeSearch

DRAWS, BLOCK, CLOSE = 10_000, 1000, 0.05
FULL = 20  # dimension up to which a full-rank fit is in the comparison
REPEATS = 5  # gradients timed, of which the fastest counts
Y, SIGMA = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
MODELS = ("eight_schools", "regression", "logistic")
PARTS = ("limits", "growth", "advi")


def eight_schools() -> pm.Model:
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        pm.Normal("y", mu + tau * pm.Normal("z", 0, 1, shape=8), SIGMA, observed=Y)
    return model


def regression() -> pm.Model:
    """Test scores on the mother's school and IQ: 434 children, raw units."""
    rng = np.random.default_rng(1)
    school, iq = rng.random(434) < 0.8, rng.normal(100, 15, 434)
    score = 25 + 6 * school + 0.56 * iq + 18 * rng.normal(size=434)
    with pm.Model() as model:
        beta, sigma = pm.Flat("beta", shape=3), pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", beta[0] + beta[1] * school + beta[2] * iq, sigma, observed=score)
    return model


def logistic() -> pm.Model:
    """1000 × 50; as a potential, because the gradient of pm.Bernoulli(logit_p=) is NaN at the large
    logits that ADVI's wide start draws, and stock ADVI then stops."""
    rng = np.random.default_rng(0)
    X, b = rng.normal(size=(1000, 50)), 0.5 * rng.normal(size=50)
    y = (rng.random(1000) < 1 / (1 + np.exp(-X @ b))).astype(int)
    with pm.Model() as model:
        logit = X @ pm.Normal("beta", 0, 1, shape=50)
        pm.Potential("y", (y * logit - pt.softplus(logit)).sum())
    return model


def process(dim: int = 1000) -> pm.Model:
    """Counts with a Gaussian process as log rate at ``dim`` points: D = dim, centred."""
    rng, x = np.random.default_rng(2), np.linspace(0, 10, dim)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-4 * np.eye(dim)
    L = np.linalg.cholesky(K)
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(dim), chol=L)
        pm.Poisson("y", pt.exp(f), observed=rng.poisson(np.exp(L @ rng.standard_normal(dim))))
    return model


def traced(inference: Any) -> tuple[float, Any, list[tuple[float, float]]]:
    """CPU seconds of a second fit, when all is compiled, the approximation, and the fit's path.

    The path is (CPU seconds, training ELBO) after each evaluation of the objective.
    """
    inference.fit(progressbar=False)
    inference.restart()
    path, objective = [], getattr(inference, "_objective", None)
    if objective is not None:
        evaluate = objective.value_and_gradient

        def timed(x: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = evaluate(x, z)
            path.append((time.process_time() - begin, -value))
            return value, gradient

        objective.value_and_gradient = timed
    begin = time.process_time()
    approx = inference.fit(progressbar=False)
    return time.process_time() - begin, approx, path


# ---- limits --------------------------------------------------------------------------------------


def limits() -> dict:
    """The fits with a stated limit, in seconds."""
    cases = {
        "eight schools": (eight_schools(), 1024, 1.0),
        "logistic regression 1000 x 50": (logistic(), 1000, 2.0),
        "Gaussian process, D = 1000": (process(), 1024, 60.0),
    }
    out = {}
    for name, (model, draws, limit) in cases.items():
        method = px.MixedVI("lr", fixed_draws=px.FixedDraws(draws), model=model, random_seed=1)
        seconds, approx, _ = traced(method)
        result = approx.result
        out[name] = {
            "seconds": seconds,
            "limit": limit,
            "elbo": result.elbo,
            "draws": result.train_draws,
            "gradient_evaluations": result.gradient_evaluations,
            "notes": result.notes,
        }
        logging.info("%s: %.2f s, limit %.0f s", name, seconds, limit)
    return out


# ---- growth --------------------------------------------------------------------------------------


def gradient_cost(model: str, size: tuple[int, ...], draws: int) -> dict:
    """Seconds of one gradient on ``draws`` draws, and MB this adds to the process at most."""
    inference = px.MixedVI("lr", model=globals()[model](*size), random_seed=1)
    density, start = CountedDensity(inference.approx.density), inference.approx.group.start
    with Monitor.silent() as monitor:
        family = inference.algorithm.prepare(density, start, 1, 500, monitor).family
    objective, dim = DrawsObjective(family, density), density.dimension
    z = fixed_normals(draws, dim, "sobol", np.random.default_rng(1))
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for _ in range(REPEATS):
        begin = time.process_time()
        objective.value_and_gradient(objective.x, z)
        seconds.append(time.process_time() - begin)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"D": dim, "S": draws, "seconds": min(seconds), "added_mb": (after - before) / 1024}


def laplace_cost(dim: int) -> dict:
    """Seconds of the mode search and factorisation, and its Newton iterations."""
    inference = px.LaplaceVI(model=process(dim), random_seed=1)
    density, start = CountedDensity(inference.approx.density), inference.approx.group.start
    density.log_density_gradient(start[None])  # compiles
    with Monitor.silent() as monitor:
        begin = time.process_time()
        fit = LaplaceSearch(density, start, ModeSearch(), random_seed=1).run(500, monitor)
        seconds = time.process_time() - begin
    return {"D": dim, "seconds": seconds, "iterations": fit.mode.iterations}


def growth() -> dict:
    """Tables against S and D, with the exponent of each: slope of log seconds on log size."""
    tables: dict[str, list[dict]] = {"draws": [], "dimension": [], "laplace": []}
    tasks = [("draws", gradient_cost, ("logistic", (), S)) for S in (1024, 4096, 16_384, 65_536)]
    tasks += [("dimension", gradient_cost, ("process", (D,), 1024)) for D in (250, 500, 1000)]
    tasks += [("laplace", laplace_cost, (D,)) for D in (250, 500, 1000)]
    for table, function, arguments in tasks:
        tables[table].append(in_a_process(function, *arguments))
        logging.info("%s %s", table, tables[table][-1])
    out: dict[str, Any] = {}
    for table, rows in tables.items():
        size = [row["S" if table == "draws" else "D"] for row in rows]
        slope = linregress(np.log(size), np.log([row["seconds"] for row in rows])).slope
        out[table] = {"rows": rows, "exponent": float(slope)}
        logging.info("%s: exponent %.2f", table, slope)
    return out


# ---- full-rank ADVI ------------------------------------------------------------------------------


def gaussian_elbo(log_p: Callable, mean: np.ndarray, cov: np.ndarray) -> float:
    """ELBO of N(mean, cov) from the same normals each time."""
    z = np.random.default_rng(7).standard_normal((DRAWS, len(mean)))
    theta = mean + z @ np.linalg.cholesky(cov).T
    return float(np.mean(log_p(theta) - multivariate_normal(mean, cov).logpdf(theta)))


def advi(model: pm.Model, log_p: Callable, iterations: int, **options: Any) -> dict:
    """(CPU seconds, ELBO) of full-rank ADVI after each block, its best and the time to it."""
    inference, seconds, path = pm.FullRankADVI(model=model, random_seed=1), 0.0, []
    inference.fit(2, progressbar=False, **options)  # compiles
    for _ in range(iterations // BLOCK):
        begin = time.process_time()
        inference.refine(BLOCK, progressbar=False)
        seconds += time.process_time() - begin
        q = inference.approx
        path.append((seconds, gaussian_elbo(log_p, q.mean.eval(), q.cov.eval())))
    best = max(elbo for _, elbo in path)
    time_to_best = next(seconds for seconds, elbo in path if elbo > best - CLOSE)
    logging.info("advi %s: best ELBO %.3f at %.2f s", list(options), best, time_to_best)
    return {"best_elbo": best, "seconds_to_best": time_to_best, "path": path}


def against(rival: dict, seconds: float, elbo: float, path: list[tuple[float, float]]) -> dict:
    """Our fit beside ADVI's path."""
    enough = rival["best_elbo"] - CLOSE
    ours = next((s for s, e in path if e > enough), seconds) if elbo > enough else None
    return {
        "elbo_at_equal_time": max((e for s, e in rival["path"] if s <= seconds), default=None),
        "our_seconds_to_its_best": ours,
        "speedup": None if ours is None else rival["seconds_to_best"] / ours,
    }


def compare(model: pm.Model, iterations: int) -> dict:
    """Every variant against full-rank ADVI on one model."""
    laplace = px.LaplaceVI(model=model, random_seed=1)
    log_p, dim = laplace.approx.log_p, laplace.approx.group.ddim
    rivals = {
        "advi": advi(model, log_p, iterations),
        "advi_adam": advi(model, log_p, iterations, obj_optimizer=pm.adam(learning_rate=0.01)),
    }
    out: dict[str, Any] = dict(rivals)
    methods = {
        "laplace": laplace,
        "mu": px.MixedVI("mu", model=model, random_seed=1),
        "eig": px.MixedVI("eig", model=model, random_seed=1),
        "lr": px.MixedVI("lr", model=model, random_seed=1),
    }
    if dim <= FULL:
        methods["lr-full"] = px.MixedVI("lr", rank=dim, model=model, random_seed=1)
    for name, inference in methods.items():
        seconds, approx, path = traced(inference)
        elbo = gaussian_elbo(log_p, approx.mean.eval(), approx.cov.eval())
        out[name] = {"seconds": seconds, "elbo": elbo} | {
            key: against(rival, seconds, elbo, path) for key, rival in rivals.items()
        }
        logging.info("%s %s", name, out[name])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--iterations", type=int, default=40_000)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("pymc").setLevel(logging.WARNING)
    if "limits" in options.parts:
        record.write(options.results / "mixed_limits.json", limits())
    if "growth" in options.parts:
        record.write(options.results / "mixed_growth.json", growth())
    for name in options.models if "advi" in options.parts else ():
        logging.info(name)
        out = compare(globals()[name](), options.iterations)
        record.write(options.results / f"mixed_advi_{name}.json", out)


if __name__ == "__main__":
    main()
