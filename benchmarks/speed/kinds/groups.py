"""Models of groups, and of several variables at once."""

from __future__ import annotations

import numpy as np
import pymc as pm

from benchmarks.speed.kinds.simulated import GROUPS, ROWS, generator, x_and_group


def _grouped() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictor, group and outcome of each row."""
    x, group, rng = x_and_group()
    return x, group, 1 + rng.normal(0, 0.8, GROUPS)[group] + 0.5 * x + rng.normal(0, 1, ROWS)


def hierarchical_centred() -> pm.Model:
    """hierarchical, centred"""
    x, group, y = _grouped()
    with pm.Model() as model:
        mu, tau, b = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), pm.Normal("b", 0, 2)
        level = pm.Normal("level", mu, tau, shape=GROUPS)
        pm.Normal("y", level[group] + b * x, 1, observed=y)
    return model


def hierarchical_non_centred() -> pm.Model:
    """hierarchical, not centred, with a Deterministic"""
    x, group, y = _grouped()
    with pm.Model() as model:
        mu, tau, b = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), pm.Normal("b", 0, 2)
        z = pm.Normal("z", 0, 1, shape=GROUPS)
        level = pm.Deterministic("level", mu + tau * z)
        pm.Normal("y", level[group] + b * x, 1, observed=y)
    return model


def correlated_slopes() -> pm.Model:
    """correlated slopes, LKJ"""
    x, group, y = _grouped()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2)
        L, _, _ = pm.LKJCholeskyCov("L", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1, shape=2))
        z = pm.Normal("z", 0, 1, shape=(GROUPS, 2))
        effect = mu + z @ L.T
        pm.Normal("y", effect[group, 0] + effect[group, 1] * x, 1, observed=y)
    return model


def zero_sum() -> pm.Model:
    """ZeroSumNormal effects"""
    _, group, y = _grouped()
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        effect = pm.ZeroSumNormal("effect", tau, shape=GROUPS)
        pm.Normal("y", mu + effect[group], 1, observed=y)
    return model


def multivariate() -> pm.Model:
    """multivariate normal, LKJCholeskyCov"""
    rng = generator()
    y = rng.multivariate_normal([0, 1, 2], [[1, 0.5, 0], [0.5, 2, 0.3], [0, 0.3, 1]], 40)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=3)
        L, _, _ = pm.LKJCholeskyCov("L", n=3, eta=2, sd_dist=pm.HalfNormal.dist(2, shape=3))
        pm.MvNormal("y", mu, chol=L, observed=y)
    return model
