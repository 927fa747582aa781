"""Groups: polls, pharmacology, growth, schools, web pages and stations, each with effects."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit


def mrp() -> pm.Model:
    """A poll: crossed effects of age, education, state and age by education, not centred."""
    rng, N = np.random.default_rng(13), 900
    age, edu = rng.integers(0, 6, N), rng.integers(0, 5, N)
    state, female = rng.integers(0, 30, N), rng.integers(0, 2, N)
    of_age, of_edu, of_state = rng.normal(0, 0.4, 6), rng.normal(0, 0.3, 5), rng.normal(0, 0.5, 30)
    of_both = rng.normal(0, 0.15, (6, 5))
    z = rng.normal(0, 1, 30)
    true_eta = -0.2 + 0.3 * female + of_age[age] + of_edu[edu] + of_state[state]
    y = rng.random(N) < expit(true_eta + 0.4 * z[state] + of_both[age, edu])
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1.5)
        b_fem, b_z = pm.Normal("b_fem", 0, 1), pm.Normal("b_z", 0, 1)
        s_age, s_edu = pm.HalfNormal("s_age", 1), pm.HalfNormal("s_edu", 1)
        s_state, s_inter = pm.HalfNormal("s_state", 1), pm.HalfNormal("s_inter", 1)
        z_age, z_edu = pm.Normal("z_age", 0, 1, shape=6), pm.Normal("z_edu", 0, 1, shape=5)
        z_state = pm.Normal("z_state", 0, 1, shape=30)
        z_inter = pm.Normal("z_inter", 0, 1, shape=(6, 5))
        eta = a + b_fem * female + s_age * z_age[age] + s_edu * z_edu[edu]
        eta = eta + (s_state * z_state + b_z * z)[state] + s_inter * z_inter[age, edu]
        pm.Bernoulli("y", logit_p=eta, observed=y.astype(int))
    return model


def michaelis() -> pm.Model:
    """Michaelis-Menten with mixed effects of subjects: correlated log Vmax and log Km."""
    rng, subjects = np.random.default_rng(25), 14
    c = np.tile([0.25, 0.5, 1, 2, 4, 8], subjects)
    subject = np.repeat(np.arange(subjects), 6)
    L = np.linalg.cholesky([[0.09, 0.045], [0.045, 0.16]])
    true = rng.normal(size=(subjects, 2)) @ L.T
    rate = np.exp(2 + true[subject, 0]) * c / (np.exp(0.3 + true[subject, 1]) + c)
    y = rate * np.exp(rng.normal(0, 0.1, 6 * subjects))
    with pm.Model() as model:
        log_vmax, log_km = pm.Normal("lvmax", 2, 1), pm.Normal("lkm", 0, 1)
        sd = pm.HalfNormal.dist(0.5, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=sd, compute_corr=True)
        z = pm.Normal("z", 0, 1, shape=(subjects, 2))
        effect = z @ chol.T
        sigma = pm.HalfNormal("sigma", 0.5)
        half = pt.exp(log_km + effect[subject, 1])
        mu = log_vmax + effect[subject, 0] + np.log(c) - pt.log(half + c)
        pm.Normal("y", mu, sigma, observed=np.log(y))
    return model


def von_bertalanffy() -> pm.Model:
    """Growth of fish of 7 lakes, 3 to 25 of each, with lognormal noise."""
    rng, lakes = np.random.default_rng(37), 7
    fish = np.array([3, 5, 8, 12, 15, 20, 25])
    lake = np.repeat(np.arange(lakes), fish)
    age = rng.uniform(0.5, 9, fish.sum())
    longest, rate = np.exp(rng.normal(4, 0.15, lakes)), np.exp(rng.normal(-1.2, 0.25, lakes))
    grown = longest[lake] * (1 - np.exp(-rate[lake] * (age + 0.4)))
    y = grown * np.exp(rng.normal(0, 0.08, fish.sum()))
    with pm.Model() as model:
        mean_L, sd_L = pm.Normal("mL", 4, 1), pm.HalfNormal("sL", 0.5)
        mean_K, sd_K = pm.Normal("mK", -1, 1), pm.HalfNormal("sK", 0.5)
        log_L = pm.Normal("lL", mean_L, sd_L, shape=lakes)
        log_K = pm.Normal("lK", mean_K, sd_K, shape=lakes)
        t0 = pm.TruncatedNormal("t0", -0.5, 0.5, upper=0)
        sigma = pm.HalfNormal("sigma", 0.3)
        mu = log_L[lake] + pt.log1p(-pt.exp(-pt.exp(log_K[lake]) * (age - t0)))
        pm.LogNormal("y", mu, sigma, observed=y)
    return model


def dose_response() -> pm.Model:
    """A logistic curve of four parameters, with a log EC50 and a top of each of 6 plates."""
    rng, plates = np.random.default_rng(24), 6
    dose = np.tile(np.logspace(-2, 2, 8), plates)
    plate = np.repeat(np.arange(plates), 8)
    true_ec50 = rng.normal(0, 0.4, plates)
    true_top = 2 + rng.normal(0, 0.2, plates)
    y = 0.1 + true_top[plate] / (1 + np.exp(-1.2 * (np.log(dose) - true_ec50[plate])))
    y = y + rng.normal(0, 0.12, 8 * plates)
    with pm.Model() as model:
        bottom = pm.Normal("bottom", 0, 0.5)
        top, s_top = pm.Normal("top", 2, 1), pm.HalfNormal("s_top", 0.5)
        hill = pm.LogNormal("hill", 0, 0.5)
        log_ec50, s_ec50 = pm.Normal("log_ec50", 0, 2), pm.HalfNormal("s_ec50", 1)
        top_plate = pm.Normal("top_plate", top, s_top, shape=plates)
        ec_plate = pm.Normal("ec_plate", log_ec50, s_ec50, shape=plates)
        sigma = pm.HalfNormal("sigma", 0.5)
        risen = pm.math.sigmoid(hill * (np.log(dose) - ec_plate[plate]))
        mu = bottom + (top_plate[plate] - bottom) * risen
        pm.Normal("y", mu, sigma, observed=y)
    return model


def best_groups() -> pm.Model:
    """Kruschke's Student-t groups: their means and log sds have laws of their own, nu is shared."""
    rng, groups, rows = np.random.default_rng(30), 8, 12
    group = np.repeat(np.arange(groups), rows)
    true_mu, true_sd = rng.normal(100, 4, groups), np.exp(rng.normal(1.5, 0.3, groups))
    y = true_mu[group] + true_sd[group] * rng.standard_t(4, groups * rows)
    with pm.Model() as model:
        M, S = pm.Normal("M", 100, 20), pm.HalfNormal("S", 10)
        mean_log_sd, sd_log_sd = pm.Normal("ml", 1, 1), pm.HalfNormal("sl", 0.5)
        mu = pm.Normal("mu", M, S, shape=groups)
        log_sd = pm.Normal("ls", mean_log_sd, sd_log_sd, shape=groups)
        nu = pm.Exponential("nu_minus_one", 1 / 29)
        pm.StudentT("y", nu=nu + 1, mu=mu[group], sigma=pt.exp(log_sd)[group], observed=y)
    return model


def lkj_slopes() -> pm.Model:
    """A varying intercept and two varying slopes of 20 groups, not centred."""
    rng, groups, N = np.random.default_rng(33), 20, 240
    group, x = rng.integers(0, groups, N), rng.normal(size=(N, 2))
    covariance = [[0.5, 0.2, 0], [0.2, 0.3, 0], [0, 0, 0.02]]
    u = rng.multivariate_normal([0, 0, 0], covariance, groups)
    y = 1 + u[group, 0] + (0.5 + u[group, 1]) * x[:, 0] + (u[group, 2] - 0.2) * x[:, 1]
    y = y + rng.normal(0, 0.8, N)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=3)
        sd = pm.Exponential.dist(1, shape=3)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=sd, compute_corr=True)
        z = pm.Normal("z", 0, 1, shape=(groups, 3))
        B = b + z @ chol.T
        sigma = pm.HalfNormal("sigma", 2)
        mean = B[group, 0] + B[group, 1] * x[:, 0] + B[group, 2] * x[:, 1]
        pm.Normal("y", mean, sigma, observed=y)
    return model


def beta_reg() -> pm.Model:
    """A share of time in 10 schools: beta regression of the mean and of the precision."""
    rng, N, schools = np.random.default_rng(20), 150, 10
    x, school = rng.normal(size=(N, 2)), rng.integers(0, schools, N)
    true_mean = expit(-0.5 + x @ [0.5, -0.3] + rng.normal(0, 0.4, schools)[school])
    true_phi = np.exp(2.5 + 0.4 * x[:, 0])
    y = np.clip(rng.beta(true_mean * true_phi, (1 - true_mean) * true_phi), 1e-4, 1 - 1e-4)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1.5), pm.Normal("b", 0, 1, shape=2)
        s = pm.HalfCauchy("s", 1)
        u = pm.Normal("u", 0, s, shape=schools)
        g0, g1 = pm.Normal("g0", 2, 2), pm.Normal("g1", 0, 1)
        phi = pm.math.exp(g0 + g1 * x[:, 0])
        mean = pm.math.invlogit(a + x @ b + u[school])
        pm.Beta("y", alpha=mean * phi, beta=(1 - mean) * phi, observed=y)
    return model


def ab_beta_binomial() -> pm.Model:
    """Conversion rates of 14 variants of a page, which have a beta law."""
    rng, variants = np.random.default_rng(39), 14
    n = rng.integers(40, 800, variants)
    y = rng.binomial(n, rng.beta(6, 94, variants))
    with pm.Model() as model:
        mean = pm.Beta("mean", 1, 9)
        kappa = pm.Pareto("kappa", alpha=1.5, m=1)
        p = pm.Beta("p", mean * kappa, (1 - mean) * kappa, shape=variants)
        pm.Binomial("y", n=n, p=p, observed=y)
    return model


def hurdle_gamma() -> pm.Model:
    """Rainfall at 10 stations: a gamma hurdle, both of whose parts have effects of stations."""
    rng, N, stations = np.random.default_rng(38), 400, 10
    station = rng.integers(0, stations, N)
    x = rng.normal(size=N)
    wet = rng.random(N) < expit(0.2 + 0.6 * x + rng.normal(0, 0.5, stations)[station])
    true_mean = np.exp(1 + 0.3 * x + rng.normal(0, 0.2, stations)[station])
    y = wet * rng.gamma(1.2, true_mean / 1.2)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1.5, shape=2), pm.Normal("b", 0, 1, shape=2)
        s = pm.HalfNormal("s", 1, shape=2)
        u = pm.Normal("u", 0, 1, shape=(stations, 2))
        shape = pm.Gamma("shape", 2, 1)
        psi = pm.math.invlogit(a[0] + b[0] * x + s[0] * u[station, 0])
        mu = pt.exp(a[1] + b[1] * x + s[1] * u[station, 1])
        pm.HurdleGamma("y", psi=psi, alpha=shape, beta=shape / mu, observed=y)
    return model
