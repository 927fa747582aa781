"""PyMC models that say how their data come about, with proper priors: what is calibrated.

Covariates are fixed by a seed; observed values are placeholders of the right shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_ext.maths.types import Array

__all__ = ["MODELS"]

SCHOOLS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])  # standard errors, Rubin (1981)
RNG_OF_COVARIATES = 20261125


def rng() -> np.random.Generator:
    return np.random.default_rng(RNG_OF_COVARIATES)


def eight_schools_cp() -> pm.Model:
    """Centred: a neck towards tau = 0."""
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, SCHOOLS, observed=np.zeros(8))
    return model


def eight_schools_ncp() -> pm.Model:
    """Non-centred."""
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, shape=8)
        pm.Normal("y", mu + tau * z, SCHOOLS, observed=np.zeros(8))
    return model


def logistic() -> pm.Model:
    """60 rows, four correlated covariates."""
    X = rng().normal(size=(60, 4)) @ (np.eye(4) + 0.5)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=4)
        pm.Bernoulli("y", logit_p=X @ beta, observed=np.zeros(60, dtype=int))
    return model


def poisson_glmm() -> pm.Model:
    """15 groups of five counts."""
    x, group = rng().normal(size=75), np.repeat(np.arange(15), 5)
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 1), pm.Normal("b", 0, 0.5), pm.HalfNormal("s", 1)
        u = pm.Normal("u", 0, s, shape=15)
        pm.Poisson("y", pm.math.exp(a + b * x + u[group]), observed=np.zeros(75, dtype=int))
    return model


def mixture() -> pm.Model:
    """Two normal components without an order: every posterior has two modes."""
    with pm.Model() as model:
        w = pm.Beta("w", 5, 5)
        mu, s = pm.Normal("mu", 0, 3, shape=2), pm.LogNormal("s", 0, 0.3)
        pm.NormalMixture("y", pt.stack([w, 1 - w]), mu, s, observed=np.zeros(50))
    return model


def ar() -> pm.Model:
    """AR(2), 60 values, which need not be stationary."""
    with pm.Model() as model:
        rho, s = pm.Normal("rho", 0, 0.4, shape=2), pm.LogNormal("s", 0, 0.5)
        first = pm.Normal.dist(0, 2, shape=2)
        pm.AR("y", rho, sigma=s, init_dist=first, steps=58, observed=np.zeros(60))
    return model


def _garch_logp(
    y: pt.TensorVariable,
    time: pt.TensorVariable,
    w: pt.TensorVariable,
    a: pt.TensorVariable,
    b: pt.TensorVariable,
) -> pt.TensorVariable:
    """The recursion of the variance solved: v_t = b^t v_0 + Σ_{s<t} b^(t−s−1) (w + a y_s²)."""
    lags = np.arange(GARCH_STEPS)[:, None] - np.arange(GARCH_STEPS) - 1
    powers = pt.switch(lags >= 0, b ** np.maximum(lags, 0), 0.0)
    variance = b**time * w / (1 - a - b) + powers @ (w + a * y**2)
    return -0.5 * (y**2 / variance + pt.log(2 * np.pi * variance)).sum()


def _garch_draw(_: Array, w: Array, a: Array, b: Array, rng: np.random.Generator,
                size: object = None) -> Array:  # fmt: skip
    variance, y = w / (1 - a - b), np.empty(GARCH_STEPS)
    for t in range(GARCH_STEPS):
        y[t] = rng.normal(0, np.sqrt(variance))
        variance = w + a * y[t] ** 2 + b * variance
    return y


GARCH_STEPS = 60


def garch() -> pm.Model:
    """GARCH(1, 1) around zero, started at its stationary variance; a + b < 1 by a Dirichlet."""
    with pm.Model() as model:
        w, shares = pm.LogNormal("w", -1, 0.5), pm.Dirichlet("shares", [2.0, 4.0, 2.0])
        pm.CustomDist(
            "y", np.arange(GARCH_STEPS), w, shares[0], shares[1], logp=_garch_logp,
            random=_garch_draw, signature="(t),(),(),()->(t)", observed=np.zeros(GARCH_STEPS),
        )  # fmt: skip
    return model


def pharmacokinetics() -> pm.Model:
    """One compartment with first-order absorption, eight times: ka and ke may change places."""
    t = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])
    with pm.Model() as model:
        ka, ke = pm.LogNormal("ka", 0.4, 0.5), pm.LogNormal("ke", -2, 0.4)
        volume, s = pm.LogNormal("volume", 2, 0.3), pm.LogNormal("s", -1.5, 0.3)
        peak = 100 * ka / (volume * (ka - ke))
        mean = peak * (pm.math.exp(-ke * t) - pm.math.exp(-ka * t))
        pm.LogNormal("y", pm.math.log(mean), s, observed=np.ones(8))
    return model


def gp_poisson() -> pm.Model:
    """Counts at 15 places, the log rate a Gaussian process, non-centred."""
    x = np.linspace(0, 1, 15)
    squares = (x[:, None] - x) ** 2
    with pm.Model() as model:
        length, height = pm.InverseGamma("length", 5, 1), pm.HalfNormal("height", 1)
        z, level = pm.Normal("z", 0, 1, shape=15), pm.Normal("level", 1, 0.5)
        K = height**2 * pm.math.exp(-squares / (2 * length**2)) + 1e-6 * np.eye(15)
        f = level + pt.linalg.cholesky(K) @ z
        pm.Poisson("y", pm.math.exp(f), observed=np.zeros(15, dtype=int))
    return model


def horseshoe() -> pm.Model:
    """Regression of 40 rows on eight covariates, local scales non-centred."""
    X = rng().normal(size=(40, 8))
    with pm.Model() as model:
        tau, lam = pm.HalfCauchy("tau", 0.3), pm.HalfCauchy("lam", 1, shape=8)
        z, s = pm.Normal("z", 0, 1, shape=8), pm.HalfNormal("s", 1)
        pm.Normal("y", X @ (tau * lam * z), s, observed=np.zeros(40))
    return model


def irt_2pl() -> pm.Model:
    """20 persons, ten items; discriminations are positive, which settles the sign."""
    with pm.Model() as model:
        ability, a = pm.Normal("ability", 0, 1, shape=20), pm.LogNormal("a", 0, 0.4, shape=10)
        b = pm.Normal("b", 0, 1, shape=10)
        pm.Bernoulli(
            "y", logit_p=a * (ability[:, None] - b), observed=np.zeros((20, 10), dtype=int)
        )
    return model


HMM_STEPS = 50


def _hmm_logp(
    y: pt.TensorVariable,
    _: pt.TensorVariable,
    stay: pt.TensorVariable,
    mu: pt.TensorVariable,
) -> pt.TensorVariable:
    """Products of the steps' 2 × 2 matrices, two by two; unit noise, both states first alike."""
    emitted = -0.5 * (y[:, None] - mu) ** 2 - 0.5 * np.log(2 * np.pi)
    moves = pt.stack([
        pt.stack([pt.log(stay[0]), pt.log1p(-stay[0])]),
        pt.stack([pt.log1p(-stay[1]), pt.log(stay[1])]),
    ])  # fmt: skip
    product = moves + emitted[1:, None, :]  # (steps, from, to)
    left = HMM_STEPS - 1
    while left > 1:
        odd = product[left - 1 :] if left % 2 else None
        pairs = product[: left - left % 2 : 2, :, :, None] + product[1:left:2, None, :, :]
        product = pt.logaddexp(pairs[:, :, 0], pairs[:, :, 1])
        product = product if odd is None else pt.concatenate([product, odd])
        left = (left + 1) // 2
    ends = emitted[0][:, None] + product[0] - np.log(2)
    return pt.logsumexp(ends)


def _hmm_draw(_: Array, stay: Array, mu: Array, rng: np.random.Generator,
              size: object = None) -> Array:  # fmt: skip
    y, state = np.empty(HMM_STEPS), int(rng.integers(2))
    for t in range(HMM_STEPS):
        y[t] = rng.normal(mu[state], 1)
        state = state if rng.random() < stay[state] else 1 - state
    return y


def hmm() -> pm.Model:
    """Two hidden states, the second with the higher mean."""
    with pm.Model() as model:
        stay = pm.Beta("stay", 8, 2, shape=2)
        low, gap = pm.Normal("low", -1, 1), pm.Gamma("gap", 4, 2)
        pm.CustomDist(
            "y", np.arange(HMM_STEPS), stay, pt.stack([low, low + gap]), logp=_hmm_logp,
            random=_hmm_draw, signature="(t),(k),(k)->(t)", observed=np.zeros(HMM_STEPS),
        )  # fmt: skip
    return model


MODELS: Mapping[str, Callable[[], pm.Model]] = {
    make.__name__: make
    for make in (
        eight_schools_ncp, logistic, mixture, eight_schools_cp, poisson_glmm, garch, ar,
        pharmacokinetics, gp_poisson, horseshoe, irt_2pl, hmm,
    )
}  # fmt: skip
