"""Latent scores, classes and predictors: judges, tests, factors, skills, mixtures, many slopes."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered
from scipy.stats import skewnorm


def ordinal_judges() -> pm.Model:
    """Scores of wines in 5 classes, 10 judges and 15 wines crossed."""
    rng, judges, wines, N = np.random.default_rng(18), 10, 15, 200
    judge, wine = rng.integers(0, judges, N), rng.integers(0, wines, N)
    eta = rng.normal(0, 0.8, judges)[judge] + rng.normal(0, 1.0, wines)[wine]
    above = (eta + rng.logistic(size=N))[:, None] > np.array([-2, -0.7, 0.6, 2])
    with pm.Model() as model:
        s_judge, s_wine = pm.HalfNormal("s_judge", 1), pm.HalfNormal("s_wine", 1)
        of_judge = pm.Normal("judge", 0, s_judge, shape=judges)
        of_wine = pm.Normal("wine", 0, s_wine, shape=wines)
        start = np.array([-2.0, -1, 1, 2])
        cut = pm.Normal("cut", 0, 3, shape=4, transform=ordered, initval=start)
        score = of_judge[judge] + of_wine[wine]
        pm.OrderedLogistic("y", eta=score, cutpoints=cut, observed=above.sum(1))
    return model


def graded_response() -> pm.Model:
    """Samejima's model: 50 persons, 6 items of 4 classes, with discriminations."""
    rng, persons, items = np.random.default_rng(32), 50, 6
    true_theta, true_disc = rng.normal(size=persons), rng.lognormal(0.3, 0.3, items)
    true_cuts = np.sort(rng.normal(0, 1.2, (items, 3)), axis=1)
    score = true_disc * true_theta[:, None] + rng.logistic(size=(persons, items))
    above = score[:, :, None] > true_cuts * true_disc[:, None]
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1, shape=persons)
        disc = pm.LogNormal("disc", 0.3, 0.5, shape=items)
        start = np.tile([-1.0, 0, 1], (items, 1))
        cuts = pm.Normal("cuts", 0, 2, shape=(items, 3), transform=ordered, initval=start)
        eta = disc * theta[:, None]
        pm.OrderedLogistic("y", eta=eta, cutpoints=cuts[None], observed=above.sum(2))
    return model


def one_factor() -> pm.Model:
    """A factor of 6 variables with positive loadings, whose 45 scores are parameters."""
    rng, N, variables = np.random.default_rng(41), 45, 6
    true_f = rng.normal(size=N)
    true_loading, true_sd = [1, 0.8, 0.7, 0.5, 0.9, 0.3], [0.5, 0.6, 0.7, 0.9, 0.5, 1]
    y = true_f[:, None] * np.array(true_loading) + rng.normal(0, true_sd, (N, variables))
    with pm.Model() as model:
        loading = pm.HalfNormal("loading", 1, shape=variables)
        psi = pm.HalfNormal("psi", 1, shape=variables)
        f = pm.Normal("f", 0, 1, shape=N)
        mu = pm.Normal("mu", 0, 1, shape=variables)
        pm.Normal("y", mu + f[:, None] * loading, psi, observed=y)
    return model


def meas_error() -> pm.Model:
    """A latent predictor with two noisy measurements of each row and a quadratic effect."""
    rng, N = np.random.default_rng(31), 60
    true_x = rng.normal(1, 1, N)
    w = true_x[:, None] + rng.normal(0, 0.6, (N, 2))
    y = 0.5 + 0.8 * true_x - 0.3 * true_x**2 + rng.normal(0, 0.4, N)
    with pm.Model() as model:
        mean_x, sd_x = pm.Normal("mx", 0, 2), pm.HalfNormal("sx", 2)
        x = pm.Normal("x", mean_x, sd_x, shape=N)
        sd_w = pm.HalfNormal("su", 1)
        pm.Normal("w", x[:, None], sd_w, observed=w)
        a, b, c = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1), pm.Normal("c", 0, 1)
        sd_y = pm.HalfNormal("sy", 1)
        pm.Normal("y", a + b * x + c * x**2, sd_y, observed=y)
    return model


def bradley_terry() -> pm.Model:
    """Skills of 24 players by 160 games, with a home advantage and Davidson's ties."""
    rng, players, N = np.random.default_rng(36), 24, 160
    home = rng.integers(0, players, N)
    away = (home + rng.integers(1, players, N)) % players
    true_skill = rng.normal(0, 0.9, players)
    ahead = 0.3 + true_skill[home] - true_skill[away]
    true = np.stack([ahead, 0.2 + ahead / 2, np.zeros(N)], 1)
    shares = np.exp(true) / np.exp(true).sum(1, keepdims=True)
    y = np.array([rng.choice(3, p=share) for share in shares])
    with pm.Model() as model:
        s_skill = pm.HalfNormal("s_skill", 1)
        skill = pm.Normal("skill", 0, s_skill, shape=players)
        advantage, tie = pm.Normal("home", 0, 1), pm.Normal("tie", 0, 1)
        d = advantage + skill[home] - skill[away]
        logits = pt.stack([d, tie + d / 2, pt.zeros(N)], axis=1)
        pm.Categorical("y", logit_p=logits, observed=y)
    return model


def mixture_ordered() -> pm.Model:
    """Activities of an enzyme: three normals, ordered by mean, with free weights and sds."""
    rng = np.random.default_rng(40)
    kind = rng.choice(3, 150, p=[0.5, 0.3, 0.2])
    y = rng.normal(np.array([0, 2.5, 6])[kind], np.array([0.6, 0.8, 1.0])[kind])
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.full(3, 2.0))
        mu = pm.Normal("mu", 2, 4, shape=3, transform=ordered, initval=[0.0, 2, 5])
        s = pm.HalfNormal("s", 2, shape=3)
        pm.NormalMixture("y", w=w, mu=mu, sigma=s, observed=y)
    return model


def reg_horseshoe() -> pm.Model:
    """Piironen and Vehtari's horseshoe of 25 slopes, of which four are not zero, 100 rows."""
    rng, N, D, not_zero = np.random.default_rng(34), 100, 25, 4
    X = rng.normal(size=(N, D))
    true_beta = np.r_[1.5, -1, 0.7, 0.4, np.zeros(D - 4)]
    y = X @ true_beta + rng.normal(0, 1, N)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 2)
        tau = pm.HalfStudentT("tau", 2, not_zero / (D - not_zero) * sigma / np.sqrt(N))
        lam = pm.HalfStudentT("lam", 2, shape=D)
        c2 = pm.InverseGamma("c2", 1, 1)
        z = pm.Normal("z", 0, 1, shape=D)
        width = lam * pt.sqrt(c2 / (c2 + tau**2 * lam**2))
        beta = pm.Deterministic("beta", z * tau * width)
        a = pm.Normal("a", 0, 2)
        pm.Normal("y", a + X @ beta, sigma, observed=y)
    return model


def skew_hetero() -> pm.Model:
    """A line with skew-normal noise whose scale depends on x, 120 rows."""
    rng, N = np.random.default_rng(42), 120
    x = rng.uniform(-1, 1, N)
    noise = skewnorm.rvs(4, size=N, random_state=42)
    y = 1 + 2 * x + np.exp(-0.5 + 0.7 * x) * noise
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5)
        c, d = pm.Normal("c", 0, 1), pm.Normal("d", 0, 1)
        alpha = pm.Normal("alpha", 0, 5)
        pm.SkewNormal("y", mu=a + b * x, sigma=pt.exp(c + d * x), alpha=alpha, observed=y)
    return model
