"""Every family on PyMC 5 (C) against PyMC 6 (numba), compiled, in one table.

    .venv/bin/python -m benchmarks.speed.backends
    .venv313/bin/python -m benchmarks.speed.backends [NAME ...]

Each call measures under the interpreter that runs it, adds its column to results/backends.json and
prints the table (of the families named alone, the others keep their numbers): CPU milliseconds of
a fit whose functions are compiled (the same inference, restarted; of stochastic families,
``refine`` by 300 steps; of Gaussian processes, evidence and gradient at new hyperparameters), the
median of three, and the ratio. Eight schools, non-centred (D = 10), and a logistic regression of
200 x 5. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_ext as px
from benchmarks import record
from benchmarks.papers.bfvi_cases import eight_schools_ncp

RESULTS = Path(__file__).parent / "results" / "backends.json"
STEPS = 300


def logistic() -> pm.Model:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 5))
    y = rng.binomial(1, 1 / (1 + np.exp(-X @ rng.normal(size=5))))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=5)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


def families() -> dict[str, tuple[Callable[[], pm.Model], Callable[[], Any]]]:
    """Name to model and inference, both made when called."""
    return {
        "laplace": (eight_schools_ncp, lambda: px.LaplaceVI(random_seed=1)),
        "mixed-mu": (eight_schools_ncp, lambda: px.MixedVI("mu", random_seed=1)),
        "mixed-eig": (eight_schools_ncp, lambda: px.MixedVI("eig", random_seed=1)),
        "mixed-lr": (eight_schools_ncp, lambda: px.MixedVI("lr", random_seed=1)),
        "mixture": (eight_schools_ncp, lambda: px.MixtureVI(random_seed=1)),
        "diagonal": (eight_schools_ncp, lambda: px.DiagonalVI(random_seed=1)),
        "bernstein": (
            eight_schools_ncp,
            lambda: px.BernsteinVI(px.FlowShape(10), base="identity", random_seed=1),
        ),
        "viper-full": (logistic, lambda: px.ViperVI(random_seed=1)),
        "jaakkola": (logistic, lambda: px.JaakkolaVI(random_seed=1)),
        "monte-carlo": (logistic, lambda: px.MonteCarloVI(random_seed=1)),
        "matching": (logistic, lambda: px.MatchingVI(random_seed=1)),
    }


def cpu_milliseconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """Median CPU time of a call that ran once before."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return 1e3 * float(np.median(times))


def fit_again(model: pm.Model, make: Callable[[], Any]) -> Callable[[], Any]:
    with model:
        inference = make()
    if not hasattr(inference, "restart"):
        inference.fit(STEPS, progressbar=False)
        return lambda: inference.refine(STEPS, progressbar=False)

    def again() -> None:
        inference.restart()
        inference.fit(progressbar=False)

    return again


def evidence(rule: Any) -> Callable[[], Any]:
    """Evidence and gradient of a classifier at ever new length scales."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(float)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        cov = pm.gp.cov.ExpQuad(2, ls=scale)
        gp = px.gp.Approximate(cov_func=cov, likelihood=px.gp.BernoulliProbit(), rule=rule)
        gp.marginal_likelihood("y", X=X, y=y)
    f = model.logp_dlogp_function(ravel_inputs=True)
    f.set_extra_values({})
    points = iter(np.linspace(-1.0, 1.0, 100))
    return lambda: [f(np.array([next(points)])) for _ in range(10)]


def cases() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Name to what makes the call that is timed."""
    fits = {name: partial(prepared, *pair) for name, pair in families().items()}
    rules = (px.gp.Laplace(), px.gp.EP(), px.gp.CVI())
    return fits | {f"gp {type(r).__name__} x 10": partial(evidence, r) for r in rules}


def prepared(model: Callable[[], pm.Model], make: Callable[[], Any]) -> Callable[[], Any]:
    return fit_again(model(), make)


def stored() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def main(names: list[str]) -> None:
    if os.environ.get("OMP_NUM_THREADS") != "1":  # waiting BLAS threads count as CPU time
        raise SystemExit("expected OMP_NUM_THREADS=1 in the environment")
    logging.disable(logging.WARNING)  # 300 steps do not converge, and need not
    backend = f"PyMC {pm.__version__[0]}"
    known = stored().get(backend, {}).get("milliseconds", {})
    column = {"environment": record.environment("numba"), "milliseconds": dict(known)}
    chosen = cases()
    for name in names or chosen:
        column["milliseconds"][name] = cpu_milliseconds(chosen[name]())
        text = json.dumps({**stored(), backend: column}, indent=1, sort_keys=True)
        RESULTS.write_text(text + "\n", encoding="utf-8")
    columns = stored()
    old, new = (columns.get(f"PyMC {v}", {}).get("milliseconds", {}) for v in "56")
    print(f"{'CPU ms':18}{'PyMC 5, C':>12}{'PyMC 6, numba':>15}{'ratio':>8}")
    for name in {**old, **new}:
        a, b = old.get(name, np.nan), new.get(name, np.nan)
        print(f"{name:18}{a:12.1f}{b:15.1f}{b / a:8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
