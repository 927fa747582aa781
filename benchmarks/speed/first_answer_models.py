"""The models of `benchmarks.speed.first_answer`: for PyMC, and as Stan programs with data.

Imports NumPy alone: a process pays for PyMC when it makes a model, as a user's does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SCHOOLS = {
    "J": 8,
    "y": [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0],
    "sigma": [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0],
}
LOGISTIC_STAN = """
data { int N; int K; matrix[N, K] X; array[N] int<lower=0, upper=1> y; }
parameters { vector[K] beta; }
model { beta ~ normal(0, 2); y ~ bernoulli_logit(X * beta); }
"""
GROUPS, PER_GROUP = 50, 4


def logistic_data() -> dict[str, Any]:
    """200 rows of five predictors and their outcomes, 0 or 1."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 5))
    y = rng.binomial(1, 1 / (1 + np.exp(-X @ rng.normal(size=5))))
    return {"N": 200, "K": 5, "X": X.tolist(), "y": y.tolist()}


def poisson_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts (200,), a predictor (200,) and the group of each row (200,), 4 rows a group."""
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(GROUPS), PER_GROUP)
    x = rng.normal(size=group.size)
    rate = np.exp(0.5 + 0.3 * x + 0.6 * rng.normal(size=GROUPS)[group])
    return rng.poisson(rate), x, group


def eight_schools() -> Any:
    """Eight schools, non-centred: D = 10."""
    import pymc as pm

    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        z = pm.Normal("theta_trans", 0, 1, shape=SCHOOLS["J"])
        pm.Normal("y", mu + tau * z, np.array(SCHOOLS["sigma"]), observed=np.array(SCHOOLS["y"]))
    return model


def logistic() -> Any:
    """Logistic regression, 200 rows: D = 5."""
    import pymc as pm

    data = logistic_data()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=data["K"])
        pm.Bernoulli("y", logit_p=np.array(data["X"]) @ beta, observed=np.array(data["y"]))
    return model


def poisson() -> Any:
    """Counts in 50 groups with intercepts of their own, non-centred: D = 53."""
    import pymc as pm

    y, x, group = poisson_data()
    with pm.Model() as model:
        mu, slope = pm.Normal("mu", 0, 2), pm.Normal("slope", 0, 1)
        tau, z = pm.HalfNormal("tau", 1), pm.Normal("z", 0, 1, shape=GROUPS)
        pm.Poisson("y", pm.math.exp(mu + slope * x + tau * z[group]), observed=y)
    return model


def regression() -> Any:
    """A regression with groups, D = 11: the model that was there before the one measured."""
    import pymc as pm

    y, x, group = poisson_data()
    X, group = np.column_stack([x, x**2, np.sin(x)]), group % 6
    with pm.Model() as model:
        beta, tau = pm.Normal("beta", 0, 1, shape=3), pm.HalfNormal("tau", 1)
        z, sigma = pm.Normal("z", 0, 1, shape=6), pm.HalfNormal("sigma", 2)
        pm.Normal("y", X @ beta + tau * z[group], sigma, observed=y.astype(float))
    return model


MODELS = {
    "eight-schools": eight_schools,
    "logistic": logistic,
    "poisson": poisson,
    "regression": regression,
}


def stan_files(model: str, folder: Path) -> tuple[Path, Path]:
    """Write the Stan program and its data to ``folder``; their paths."""
    if model == "eight-schools":
        from posteriordb_cases import load_case

        source = load_case("eight_schools-eight_schools_noncentered").stan_code or ""
        data: dict[str, Any] = SCHOOLS
    else:
        source, data = LOGISTIC_STAN, logistic_data()
    name = model.replace("-", "_")
    program, values = folder / f"{name}.stan", folder / f"{name}.json"
    program.write_text(source, encoding="utf-8")
    values.write_text(json.dumps(data), encoding="utf-8")
    return program, values
