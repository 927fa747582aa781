"""Counts and events: wildlife, claims, diets, survival and trials."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit


def cjs() -> pm.Model:
    """Cormack-Jolly-Seber by its m-array: 40 released each year, survival with effects of years."""
    rng, occasions, released = np.random.default_rng(14), 9, 40
    years = occasions - 1
    true_phi, true_p = expit(0.8 + rng.normal(0, 0.5, years)), 0.45
    m_array = np.zeros((years, occasions), int)
    for first in range(years):
        for _ in range(released):
            for year in range(first, years):
                if rng.random() > true_phi[year]:
                    m_array[first, years] += 1
                    break
                if rng.random() < true_p:
                    m_array[first, year] += 1
                    break
            else:
                m_array[first, years] += 1
    with pm.Model() as model:
        mu = pm.Normal("mu_phi", 0, 1.5)
        s = pm.HalfNormal("s_phi", 1)
        eps = pm.Normal("eps", 0, s, shape=years)
        phi = pm.math.invlogit(mu + eps)
        p = pm.Beta("p", 1, 1)
        rows = []
        for first in range(years):
            seen = [0.0] * first
            unseen = 1.0
            for year in range(first, years):
                seen.append(unseen * phi[year] * p)
                unseen = unseen * phi[year] * (1 - p)
            cells = pt.stack([pt.as_tensor_variable(cell) for cell in seen])
            rows.append(pt.concatenate([cells, (1 - cells.sum())[None]]))
        prob = pt.stack(rows)
        mask = np.concatenate([np.triu(np.ones((years, years))), np.ones((years, 1))], axis=1)
        pm.Potential("marray", (m_array * pt.log(pt.where(mask > 0, prob, 1.0))).sum())
    return model


def occupancy() -> pm.Model:
    """Detections at 100 sites of 8 regions in 4 visits, occupancy summed out."""
    rng, sites, visits, regions = np.random.default_rng(15), 100, 4, 8
    forest, region = rng.normal(size=sites), rng.integers(0, regions, sites)
    effort = rng.normal(size=(sites, visits))
    occupied = rng.random(sites) < expit(0.1 + 0.9 * forest + rng.normal(0, 0.7, regions)[region])
    detected = rng.random((sites, visits)) < occupied[:, None] * expit(-0.7 + 0.5 * effort)
    y = detected.astype(int)
    with pm.Model() as model:
        psi_0, psi_forest = pm.Normal("psi0", 0, 1.5), pm.Normal("psi_forest", 0, 1)
        s_region = pm.HalfNormal("s_region", 1)
        u = pm.Normal("region", 0, s_region, shape=regions)
        p_0, p_effort = pm.Normal("p0", 0, 1.5), pm.Normal("p_effort", 0, 1)
        logit_psi = psi_0 + psi_forest * forest + u[region]
        logit_p = p_0 + p_effort * effort
        log_p, log_not_p = pt.log(pm.math.sigmoid(logit_p)), pt.log(pm.math.sigmoid(-logit_p))
        never = (y.sum(1) == 0).astype(float)
        there = pt.log(pm.math.sigmoid(logit_psi)) + (y * log_p + (1 - y) * log_not_p).sum(1)
        empty = pt.log(pm.math.sigmoid(-logit_psi))
        pm.Potential("ll", pt.where(never > 0, pt.logaddexp(there, empty), there).sum())
    return model


def zip_re() -> pm.Model:
    """A zero-inflated Poisson law with effects of 15 groups in both of its parts."""
    rng, N, groups = np.random.default_rng(16), 300, 15
    group, x = rng.integers(0, groups, N), rng.normal(size=N)
    rate = np.exp(0.6 + 0.4 * x + rng.normal(0, 0.5, groups)[group])
    keep = rng.random(N) < expit(0.5 + rng.normal(0, 0.8, groups)[group])
    y = rng.poisson(rate) * keep
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 1)
        s_count, s_zero = pm.HalfNormal("s_count", 1), pm.HalfNormal("s_zero", 1)
        u = pm.Normal("u", 0, s_count, shape=groups)
        v = pm.Normal("v", 0, s_zero, shape=groups)
        c = pm.Normal("c", 0, 1.5)
        psi, mu = pm.math.invlogit(c + v[group]), pm.math.exp(a + b * x + u[group])
        pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=y)
    return model


def nb_exposure() -> pm.Model:
    """Insurance claims with exposures: region and class of car crossed, overdispersed."""
    rng, N = np.random.default_rng(17), 500
    region, car = rng.integers(0, 12, N), rng.integers(0, 7, N)
    X = rng.normal(size=(N, 3))
    exposure = rng.uniform(0.1, 1, N)
    of_region, of_car = rng.normal(0, 0.3, 12), rng.normal(0, 0.15, 7)
    true_mu = exposure * np.exp(0.3 + X @ [0.3, -0.2, 0.0] + of_region[region] + of_car[car])
    y = rng.negative_binomial(1.5, 1.5 / (1.5 + true_mu))
    coords = {"region": range(12), "car": range(7), "x": ["age", "km", "power"]}
    with pm.Model(coords=coords) as model:
        a = pm.Normal("a", 0, 2)
        beta = pm.Normal("beta", 0, 1, dims="x")
        s_region, s_car = pm.Exponential("s_region", 1), pm.Exponential("s_car", 1)
        u_region = pm.Normal("u_region", 0, s_region, dims="region")
        u_car = pm.Normal("u_car", 0, s_car, dims="car")
        alpha = pm.Exponential("alpha", 0.5)
        mu = exposure * pm.math.exp(a + X @ beta + u_region[region] + u_car[car])
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=y)
    return model


def dirichlet_multinomial() -> pm.Model:
    """The composition of 40 diets of 5 foods: softmax regression with overdispersion."""
    rng, N, foods = np.random.default_rng(19), 40, 5
    x = rng.normal(size=N)
    true = np.array([0, 0.5, -0.5, 0.2, -1]) + x[:, None] * np.array([0, 0.5, -0.4, 0.2, 0.8])
    shares = np.exp(true) / np.exp(true).sum(1, keepdims=True)
    y = np.array([rng.multinomial(30, rng.dirichlet(8 * share)) for share in shares])
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1.5, shape=foods - 1)
        b = pm.Normal("b", 0, 1, shape=foods - 1)
        conc = pm.Gamma("conc", 2, 0.1)
        eta = pt.concatenate([pt.zeros((N, 1)), a + x[:, None] * b], axis=1)
        pm.DirichletMultinomial("y", n=30, a=conc * pm.math.softmax(eta, axis=1), observed=y)
    return model


def piecewise_exp() -> pm.Model:
    """Censored survival by Poisson counts: the log hazard is a random walk on 10 intervals."""
    rng, N, intervals = np.random.default_rng(22), 150, 10
    x = rng.normal(size=(N, 3))
    died = rng.exponential(1 / (0.15 * np.exp(x @ [0.5, -0.4, 0.0])))
    censored = rng.uniform(2, 12, N)
    seen, t = died <= censored, np.minimum(died, censored)
    edge = np.linspace(0, 12, intervals + 1)
    exposure = np.clip(t[:, None] - edge[:-1], 0, np.diff(edge))
    events = ((t[:, None] > edge[:-1]) & (t[:, None] <= edge[1:]) & seen[:, None]).astype(int)
    with pm.Model() as model:
        s = pm.HalfNormal("s", 0.5)
        first = pm.Normal.dist(-2, 1)
        log_base = pm.GaussianRandomWalk("logbase", sigma=s, init_dist=first, shape=intervals)
        beta = pm.Normal("beta", 0, 1, shape=3)
        mu = exposure * pt.exp(log_base[None, :] + (x @ beta)[:, None])
        i, j = np.nonzero(exposure > 0)
        pm.Poisson("ev", mu[i, j], observed=events[i, j])
    return model


def weibull_frailty() -> pm.Model:
    """Censored Weibull survival with gamma frailties of 12 clinics."""
    rng, N, clinics = np.random.default_rng(21), 180, 12
    clinic, treated = rng.integers(0, clinics, N), rng.integers(0, 2, N)
    true_frailty = rng.gamma(3, 1 / 3, clinics)
    rate = true_frailty[clinic] * np.exp(-0.6 * treated)
    died = 10 * (rng.exponential(size=N) / rate) ** (1 / 1.4)
    censored = rng.uniform(3, 20, N)
    seen, t = (died <= censored).astype(float), np.minimum(died, censored)
    with pm.Model() as model:
        b0, b_trt = pm.Normal("b0", 0, 5), pm.Normal("b_trt", 0, 1)
        shape = pm.Gamma("shape", 2, 1)
        theta = pm.Exponential("theta", 1)
        frailty = pm.Gamma("frailty", 1 / theta, 1 / theta, shape=clinics)
        eta = b0 + b_trt * treated
        log_hazard = pt.log(shape) + (shape - 1) * np.log(t) + eta + pt.log(frailty[clinic])
        hazard_so_far = frailty[clinic] * pt.exp(eta) * t**shape
        pm.Potential("surv", (seen * log_hazard - hazard_so_far).sum())
    return model


def network_meta() -> pm.Model:
    """Lu and Ades: the arms of 20 trials of 5 treatments, binomial, with random effects."""
    rng, trials, treatments = np.random.default_rng(23), 20, 5
    true_d = np.array([0, -0.3, -0.6, -0.2, -0.9])
    arms = []
    for trial in range(trials):
        pair = np.sort(rng.choice(treatments, 2, replace=False))
        base = rng.normal(-1, 0.5)
        for arm, treatment in enumerate(pair):
            patients = rng.integers(30, 150)
            effect = 0.0 if arm == 0 else true_d[treatment] - true_d[pair[0]] + rng.normal(0, 0.2)
            cured = rng.binomial(patients, expit(base + effect))
            arms.append((trial, treatment, pair[0], patients, cured))
    of_trial, treated, baseline, n, y = np.array(arms).T
    second = treated != baseline
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10, shape=trials)
        d = pm.Normal("d", 0, 2, shape=treatments - 1)
        all_d = pt.concatenate([[0.0], d])
        tau = pm.Uniform("tau", 0, 2)
        contrast = (all_d[treated] - all_d[baseline])[second]
        delta = pm.Normal("delta", contrast, tau, shape=trials)
        effects = pt.set_subtensor(pt.zeros(len(of_trial))[np.nonzero(second)[0]], delta)
        pm.Binomial("y", n=n, logit_p=mu[of_trial] + effects, observed=y)
    return model
