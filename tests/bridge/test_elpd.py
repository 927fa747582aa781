"""Leave-one-out predictions from what we hand back are those of NUTS's draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from benchmarks.speed.model_kinds_models import KINDS

ROWS, GROUPS = 100, 10
X = np.random.default_rng(5).normal(size=ROWS)


def robust() -> pm.Model:
    y = 1 + 2 * X + np.random.default_rng(1).standard_t(4, size=ROWS)
    with pm.Model() as model:
        a, b, scale = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5), pm.HalfNormal("scale", 2)
        pm.StudentT("y", nu=4, mu=a + b * X, sigma=scale, observed=y)
    return model


def counts() -> pm.Model:
    rng, group = np.random.default_rng(2), np.arange(ROWS) % GROUPS
    y = rng.poisson(np.exp(0.5 + 0.5 * X + 0.5 * rng.normal(size=GROUPS)[group]))
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        effect = pm.Normal("effect", 0, tau, shape=GROUPS)
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        pm.Poisson("y", pm.math.exp(a + b * X + effect[group]), observed=y)
    return model


def logistic() -> pm.Model:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(ROWS, 4))
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-Z @ [1, -0.5, 0.3, 0]))).astype(int)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=Z @ pm.Normal("b", 0, 1, shape=4), observed=y)
    return model


LAPLACE_IS_NEAR = [robust, counts, logistic]
MODELS = [
    *LAPLACE_IS_NEAR,
    *(
        KINDS[name]
        for name in (
            "negative-binomial",
            "zero-inflated",
            "categorical",
            "hierarchical-centred",
            "hsgp",
            "weibull",
            "censored",
        )
    ),
]


def elpd(idata: Any) -> tuple[float, float]:
    """By PSIS leave-one-out, and its standard error over rows, nats."""
    loo = az.loo(idata)
    return (loo.elpd, loo.se) if hasattr(loo, "elpd") else (loo["elpd_loo"], loo["se"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # a row of counts, NUTS's too
@pytest.mark.parametrize("make", MODELS)
def test_elpd_is_that_of_nuts(make: Callable[[], pm.Model]) -> None:
    """Two standard errors are 10 to 20 nats; of draws of the posterior only Monte Carlo noise is
    left: .13 nats at most, as between two runs of NUTS."""
    model = make()
    exact = pm.sample(
        2_000, tune=1_000, chains=4, cores=1, model=model, random_seed=1, progressbar=False
    )
    trusted = bridge.fit(model, random_seed=1).idata
    for idata in (exact, trusted):
        pm.stats.compute_log_likelihood(idata, model=model, progressbar=False)
    (truth, se), (ours, _) = elpd(exact), elpd(trusted)
    assert abs(ours - truth) < min(2 * se, 0.4)
    if make not in LAPLACE_IS_NEAR:
        return
    with model:
        laplace = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    rough, _ = elpd(laplace.sample(4_000, random_seed=1, log_likelihood=True))
    assert abs(rough - truth) < 2 * se
