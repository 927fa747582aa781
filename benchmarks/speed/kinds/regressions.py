"""Regressions, of every usual likelihood."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks.speed.kinds.simulated import ROWS, generator, x_and_group


def linear() -> pm.Model:
    """linear regression"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5), pm.HalfNormal("s", 2)
        pm.Normal("y", a + b * x, s, observed=1 + 2 * x + rng.normal(0, 1, ROWS))
    return model


def student_t() -> pm.Model:
    """robust regression, Student's t"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5), pm.HalfNormal("s", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=a + b * x, sigma=s, observed=1 + 2 * x + rng.standard_t(3, ROWS))
    return model


def logistic() -> pm.Model:
    """logistic regression"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        y = rng.random(ROWS) < 1 / (1 + np.exp(-0.5 - x))
        pm.Bernoulli("y", logit_p=a + b * x, observed=y.astype(int))
    return model


def poisson() -> pm.Model:
    """Poisson regression"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        pm.Poisson("y", pm.math.exp(a + b * x), observed=rng.poisson(np.exp(1 + 0.4 * x)))
    return model


def negative_binomial() -> pm.Model:
    """negative binomial regression"""
    x, _, rng = x_and_group()
    mu = np.exp(1 + 0.4 * x)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        alpha = pm.Exponential("alpha", 0.5)
        y = rng.negative_binomial(2, 2 / (2 + mu))
        pm.NegativeBinomial("y", mu=pm.math.exp(a + b * x), alpha=alpha, observed=y)
    return model


def zero_inflated() -> pm.Model:
    """zero-inflated Poisson"""
    _, _, rng = x_and_group()
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 0.5)
        y = rng.poisson(3, ROWS) * (rng.random(ROWS) < 0.7)
        pm.ZeroInflatedPoisson("y", psi, mu, observed=y)
    return model


def ordered_logistic() -> pm.Model:
    """ordered logistic, cutpoints with the ordered transform"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2)
        ordered = pm.distributions.transforms.ordered
        cut = pm.Normal("cut", 0, 3, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        y = np.digitize(x + rng.logistic(size=ROWS), [-1, 0.5, 2])
        pm.OrderedLogistic("y", eta=b * x, cutpoints=cut, observed=y)
    return model


def categorical() -> pm.Model:
    """categorical, softmax of three classes"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=(2, 2))
        eta = pt.concatenate([pt.zeros((ROWS, 1)), b[0] + x[:, None] * b[1]], axis=1)
        utility = np.stack([0 * x, 0.5 + x, -x], axis=1) + rng.gumbel(size=(ROWS, 3))
        pm.Categorical("y", p=pm.math.softmax(eta, axis=1), observed=utility.argmax(1))
    return model


def dirichlet_multinomial() -> pm.Model:
    """Dirichlet-multinomial"""
    _, _, rng = x_and_group()
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(4))
        concentration = pm.LogNormal("concentration", 1, 1)
        p = rng.dirichlet([2, 4, 1, 3], 20)
        y = np.array([rng.multinomial(30, row) for row in p])
        pm.DirichletMultinomial("y", n=30, a=share * concentration, observed=y)
    return model


def horseshoe() -> pm.Model:
    """horseshoe"""
    rng = generator()
    X = rng.normal(size=(ROWS, 6))
    with pm.Model() as model:
        tau, lam = pm.HalfCauchy("tau", 1), pm.HalfCauchy("lam", 1, shape=6)
        z = pm.Normal("z", 0, 1, shape=6)
        s = pm.HalfNormal("s", 2)
        y = X @ [2.0, 0, 0, -1, 0, 0] + rng.normal(0, 1, ROWS)
        pm.Normal("y", X @ (z * lam * tau), s, observed=y)
    return model
