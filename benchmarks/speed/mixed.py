"""Mixed VI against PyMC's full-rank ADVI in one run: time to ADVI's best ELBO, ELBO at equal time.

    python -m benchmarks.speed.mixed [--iterations 40000] [--results FOLDER]

CPU seconds without compilation, one thread. ADVI runs in blocks with PyMC's defaults; after each
its ELBO is estimated from the same 10,000 fresh normals as ours. "Best" is ADVI's highest ELBO, and
its time the first at which it comes within 0.05 nats of it.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.stats import multivariate_normal

import pymc_ext as px
from benchmarks import record

DRAWS, BLOCK, CLOSE = 10_000, 1000, 0.05
Y, SIGMA = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


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


def gaussian_elbo(log_p: Callable, mean: np.ndarray, cov: np.ndarray) -> float:
    """ELBO of N(mean, cov) from the same normals each time."""
    z = np.random.default_rng(7).standard_normal((DRAWS, len(mean)))
    theta = mean + z @ np.linalg.cholesky(cov).T
    return float(np.mean(log_p(theta) - multivariate_normal(mean, cov).logpdf(theta)))


def advi(model: pm.Model, log_p: Callable, iterations: int) -> list[tuple[float, float]]:
    """(CPU seconds, ELBO) of full-rank ADVI after each block."""
    inference, seconds, path = pm.FullRankADVI(model=model, random_seed=1), 0.0, []
    inference.fit(2, progressbar=False)  # compiles
    for _ in range(iterations // BLOCK):
        begin = time.process_time()
        inference.refine(BLOCK, progressbar=False)
        seconds += time.process_time() - begin
        path.append(
            (
                seconds,
                gaussian_elbo(log_p, inference.approx.mean.eval(), inference.approx.cov.eval()),
            )
        )
    return path


def ours(inference, log_p: Callable) -> tuple[float, float]:
    """(CPU seconds, ELBO) of a second fit, when everything is compiled."""
    inference.fit(progressbar=False)
    inference.restart()
    begin = time.process_time()
    approx = inference.fit(progressbar=False)
    seconds = time.process_time() - begin
    return seconds, gaussian_elbo(log_p, approx.mean.eval(), approx.cov.eval())


def compare(model: pm.Model, iterations: int) -> dict:
    laplace = px.LaplaceVI(model=model, random_seed=1)
    log_p, dim = laplace.approx.log_p, laplace.approx.group.ddim
    path = advi(model, log_p, iterations)
    best = max(elbo for _, elbo in path)
    time_to_best = next(seconds for seconds, elbo in path if elbo > best - CLOSE)
    out = {"advi": {"best_elbo": best, "seconds_to_best": time_to_best, "path": path}}
    logging.info("advi best ELBO %.3f first reached at %.2f s", best, time_to_best)
    methods = {
        "mu": px.MixedVI("mu", model=model, random_seed=1),
        "eig": px.MixedVI("eig", model=model, random_seed=1),
        "lr": px.MixedVI("lr", model=model, random_seed=1),
        "lr-full": px.MixedVI("lr", rank=dim, model=model, random_seed=1),
    }
    for name, inference in methods.items():
        seconds, elbo = ours(inference, log_p)
        at_equal_time = max((e for s, e in path if s <= seconds), default=None)
        reaches = elbo > best - CLOSE
        out[name] = {
            "seconds": seconds,
            "elbo": elbo,
            "advi_elbo_at_equal_time": at_equal_time,
            "reaches_advi_best": reaches,
            "speedup": time_to_best / seconds if reaches else None,
        }
        logging.info("%s %s", name, out[name])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=40_000)
    parser.add_argument("--models", nargs="*", default=["eight_schools", "regression", "logistic"])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("pymc").setLevel(logging.WARNING)
    results = {}
    for name in options.models:
        logging.info(name)
        results[name] = compare(globals()[name](), options.iterations)
    record.write(options.results / "mixed.json", results)


if __name__ == "__main__":
    main()
