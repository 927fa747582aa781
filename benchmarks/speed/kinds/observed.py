"""Models that differ in what is seen of the data."""

from __future__ import annotations

import numpy as np
import pymc as pm

from benchmarks.speed.kinds.simulated import ROWS, generator


def mixture() -> pm.Model:
    """mixture of normals, pm.NormalMixture"""
    rng = generator()
    y = np.where(rng.random(ROWS) < 0.3, rng.normal(-2, 1, ROWS), rng.normal(2, 1, ROWS))
    with pm.Model() as model:
        w = pm.Dirichlet("w", [2.0, 2.0])
        ordered = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 3, shape=2, transform=ordered, initval=[-1.0, 1.0])
        pm.NormalMixture("y", w=w, mu=mu, sigma=1.0, observed=y)
    return model


def censored() -> pm.Model:
    """censored, pm.Censored"""
    rng = generator()
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        y = np.minimum(rng.normal(1, 1, ROWS), 2)
        pm.Censored("y", pm.Normal.dist(mu, s), lower=None, upper=2.0, observed=y)
    return model


def weibull() -> pm.Model:
    """survival, Weibull with censoring"""
    rng = generator()
    x = rng.normal(size=ROWS)
    times = rng.weibull(1.5, ROWS) * np.exp(1 + 0.5 * x)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        shape = pm.Gamma("shape", 2, 1)
        latent = pm.Weibull.dist(alpha=shape, beta=pm.math.exp(a + b * x))
        y = np.minimum(times, 4.0)
        pm.Censored("y", latent, lower=None, upper=4.0, observed=y)
    return model


def truncated() -> pm.Model:
    """truncated normal likelihood"""
    rng = generator()
    y = rng.normal(1, 1, 4 * ROWS)
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.TruncatedNormal("y", mu, s, lower=0.0, observed=y[y > 0][:ROWS])
    return model


def truncated_gamma() -> pm.Model:
    """truncated Gamma, pm.Truncated"""
    rng = generator()
    y = rng.gamma(3, 1, 4 * ROWS)
    with pm.Model() as model:
        alpha, beta = pm.Gamma("alpha", 2, 0.5), pm.Gamma("beta", 2, 1)
        pm.Truncated("y", pm.Gamma.dist(alpha, beta), lower=1.0, observed=y[y > 1][:ROWS])
    return model


def missing() -> pm.Model:
    """missing outcomes, imputed"""
    rng = generator()
    y = rng.normal(1, 1, ROWS)
    y[[3, 11, 40]] = np.nan
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.Normal("y", mu, s, observed=y)
    return model


def minibatch() -> pm.Model:
    """pm.Minibatch"""
    rng = generator()
    x = rng.normal(size=400)
    y = 1 + 2 * x + rng.normal(0, 1, 400)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5)
        x_batch, y_batch = pm.Minibatch(x, y, batch_size=50)
        pm.Normal("y", a + b * x_batch, 1, observed=y_batch, total_size=400)
    return model
