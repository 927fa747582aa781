"""Time series, fields on maps and hierarchies as people write them in PyMC, by their size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy import sparse


def random_walk(sites: int) -> pm.Model:
    """Counts whose log rate walks at random: D = sites + 1."""
    rng = np.random.default_rng(0)
    rate = np.exp(np.clip(1 + np.cumsum(rng.normal(0, 0.1, sites)), -5, 5))
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 0.5)
        x = pm.GaussianRandomWalk(
            "x", mu=0, sigma=sigma, init_dist=pm.Normal.dist(0, 2), steps=sites - 1
        )
        pm.Poisson("y", pt.exp(x), observed=rng.poisson(rate))
    return model


def regression(sites: int) -> pm.Model:
    """Counts on eight covariates and a walk that is zero at first: D = sites + 10."""
    rng = np.random.default_rng(3)
    X, walk = rng.normal(size=(sites, 8)), np.cumsum(rng.normal(0, 0.1, sites))
    with pm.Model() as model:
        slopes, level = pm.Normal("slopes", 0, 1, shape=8), pm.Normal("level", 0, 2)
        sigma = pm.HalfNormal("sigma", 0.5)
        x = pm.GaussianRandomWalk(
            "x", mu=0, sigma=sigma, init_dist=pm.Normal.dist(0, 0.01), steps=sites - 1
        )
        rate = np.exp(np.clip(1 + walk + X @ rng.normal(0, 0.3, 8), -5, 5))
        pm.Poisson("y", pt.exp(level + x + X @ slopes), observed=rng.poisson(rate))
    return model


def volatility(sites: int) -> pm.Model:
    """Returns with a log variance that is an autoregression: D = sites + 3."""
    rng = np.random.default_rng(1)
    h = np.full(sites, -1.0)
    for t in range(1, sites):
        h[t] = -1 + 0.97 * (h[t - 1] + 1) + 0.2 * rng.standard_normal()
    with pm.Model() as model:
        mean, sigma = pm.Normal("mean", 0, 2), pm.HalfNormal("sigma", 0.5)
        phi = pm.Beta("phi", 20, 1.5)
        log_variance = pm.Flat("log_variance", shape=sites)
        first = pm.Normal.dist(mean, sigma / pt.sqrt(1 - phi**2))
        others = pm.Normal.dist(mean + phi * (log_variance[:-1] - mean), sigma)
        pm.Potential(
            "autoregression",
            pm.logp(first, log_variance[0]) + pm.logp(others, log_variance[1:]).sum(),
        )
        returns = rng.normal(0, np.exp(h / 2))
        pm.Normal("returns", 0, pt.exp(log_variance / 2), observed=returns)
    return model


def noisy(sites: int) -> pm.Model:
    """An autoregression about a level under Student's t noise, both scales free: D = sites + 4."""
    rng = np.random.default_rng(6)
    walk = 5 + np.cumsum(rng.normal(0, 0.3, sites))
    with pm.Model() as model:
        level, rho = pm.Normal("level", 0, 10), pm.Beta("rho", 9, 1)
        step, noise = pm.HalfNormal("step", 1), pm.HalfNormal("noise", 1)
        x = pm.Flat("x", shape=sites)
        first = pm.Normal.dist(level, step / pt.sqrt(1 - rho**2))
        others = pm.Normal.dist(level + rho * (x[:-1] - level), step)
        pm.Potential("autoregression", pm.logp(first, x[0]) + pm.logp(others, x[1:]).sum())
        pm.StudentT("y", nu=4, mu=x, sigma=noise, observed=walk + rng.normal(0, 0.5, sites))
    return model


def seasons(sites: int) -> pm.Model:
    """Monthly counts on a walk, twelve effects whose sum is zero, a covariate: D = sites + 14."""
    rng = np.random.default_rng(13)
    month, x = np.arange(sites) % 12, rng.normal(size=sites)
    walk = np.cumsum(rng.normal(0, 0.08, sites))
    rate = np.exp(np.clip(2 + walk + 0.5 * np.sin(2 * np.pi * month / 12) + 0.2 * x, -5, 7))
    with pm.Model() as model:
        tau, sigma = pm.HalfNormal("tau", 1), pm.HalfNormal("sigma", 0.3)
        slope, effects = pm.Normal("slope", 0, 1), pm.ZeroSumNormal("effects", tau, shape=12)
        level = pm.GaussianRandomWalk(
            "level", mu=0, sigma=sigma, init_dist=pm.Normal.dist(0, 3), steps=sites - 1
        )
        pm.Poisson("y", pt.exp(level + effects[month] + slope * x), observed=rng.poisson(rate))
    return model


def trend(sites: int) -> pm.Model:
    """A level whose slope walks too, under noise, three scales free: D = 2 sites + 3."""
    rng = np.random.default_rng(12)
    slope = 0.2 + np.cumsum(rng.normal(0, 0.05, sites))
    level = np.cumsum(slope + rng.normal(0, 0.3, sites))
    with pm.Model() as model:
        of_slope, of_level = pm.HalfNormal("of_slope", 0.2), pm.HalfNormal("of_level", 0.5)
        noise = pm.HalfNormal("noise", 1)
        slopes = pm.GaussianRandomWalk(
            "slopes", mu=0, sigma=of_slope, init_dist=pm.Normal.dist(0, 1), steps=sites - 1
        )
        levels = pm.Flat("levels", shape=sites)
        step = pm.logp(pm.Normal.dist(slopes[:-1], of_level), pt.diff(levels))
        pm.Potential("steps", pm.logp(pm.Normal.dist(0, 5), levels[0]) + step.sum())
        pm.Normal("y", levels, noise, observed=level + rng.normal(0, 0.5, sites))
    return model


def intercepts(sites: int) -> pm.Model:
    """Five counts in each group on a covariate, the groups' levels centred: D = groups + 3."""
    rng = np.random.default_rng(3)
    group, x = np.repeat(np.arange(sites), 5), rng.normal(size=5 * sites)
    rate = np.exp(0.5 + 0.6 * rng.normal(size=sites)[group] + 0.3 * x)
    with pm.Model() as model:
        mean, slope, tau = (
            pm.Normal("mean", 0, 2),
            pm.Normal("slope", 0, 1),
            pm.HalfNormal("tau", 1),
        )
        level = pm.Normal("level", mean, tau, shape=sites)
        pm.Poisson("y", pt.exp(level[group] + slope * x), observed=rng.poisson(rate))
    return model


def slopes(sites: int) -> pm.Model:
    """Ten normal rows in each group, whose level and slope vary, centred: D = 2 groups + 5."""
    rng = np.random.default_rng(4)
    group, x = np.repeat(np.arange(sites), 10), rng.normal(size=10 * sites)
    level, slope = 1 + 0.5 * rng.normal(size=sites), 0.7 + 0.3 * rng.normal(size=sites)
    rows = level[group] + slope[group] * x + rng.normal(0, 0.8, 10 * sites)
    with pm.Model() as model:
        of_level, of_slope = pm.Normal("of_level", 0, 2), pm.Normal("of_slope", 0, 2)
        sd_level, sd_slope = pm.HalfNormal("sd_level", 1), pm.HalfNormal("sd_slope", 1)
        noise = pm.HalfNormal("noise", 1)
        a = pm.Normal("a", of_level, sd_level, shape=sites)
        b = pm.Normal("b", of_slope, sd_slope, shape=sites)
        pm.Normal("y", a[group] + b[group] * x, noise, observed=rows)
    return model


def answers(sites: int) -> pm.Model:
    """Of persons to twenty items each, right or wrong (Rasch): D = sites + 23."""
    rng = np.random.default_rng(9)
    person, item = (k.ravel() for k in np.indices((sites, 20)))
    log_odds = 0.5 + rng.normal(size=sites)[person] - rng.normal(0, 0.8, 20)[item]
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        of_persons, of_items = pm.HalfNormal("of_persons", 1), pm.HalfNormal("of_items", 1)
        ability = pm.Normal("ability", 0, of_persons, shape=sites)
        difficulty = pm.Normal("difficulty", 0, of_items, shape=20)
        right = rng.random(len(item)) < 1 / (1 + np.exp(-log_odds))
        pm.Bernoulli("y", logit_p=mean + ability[person] - difficulty[item], observed=right)
    return model


def weak(sites: int) -> pm.Model:
    """A normal row in each group, by which the groups' scale may be zero: D = groups + 2."""
    rng = np.random.default_rng(6)
    rows = 0.3 * rng.normal(size=sites) + rng.normal(size=sites)
    with pm.Model() as model:
        mean, tau = pm.Normal("mean", 0, 5), pm.HalfCauchy("tau", 5)
        effects = pm.Normal("effects", mean, tau, shape=sites)
        pm.Normal("y", effects, 1, observed=rows)
    return model


def _lattice(side: int) -> sparse.csr_matrix:
    """Who is next to whom on a square, (sites, sites)."""
    at = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate([
        np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1),
        np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1),
    ])  # fmt: skip
    half = sparse.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(side**2, side**2))
    return sparse.csr_matrix(half + half.T)


def _counts(side: int, rng: np.random.Generator) -> NDArray[np.integer]:
    """Of a field that is smooth on the square."""
    near = _lattice(side).toarray()
    precision = 2 * (np.diag(near.sum(axis=1)) - 0.98 * near)
    field = np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(side**2))
    return rng.poisson(np.exp(1 + field))


def car(sites: int) -> pm.Model:
    """Counts on a square with a conditional autoregression: D = sites + 3."""
    side = round(sites**0.5)
    near, counts = _lattice(side), _counts(side, np.random.default_rng(2))
    with pm.Model() as model:
        mean, tau = pm.Normal("mean", 0, 2), pm.Gamma("tau", 2, 1)
        alpha = pm.Uniform("alpha", 0, 1)
        x = pm.CAR("x", mu=np.zeros(side**2), tau=tau, alpha=alpha, W=near, shape=side**2)
        pm.Poisson("y", pt.exp(mean + x), observed=counts)
    return model


def bym2(sites: int) -> pm.Model:
    """The same with a field and noise in one scale, whose shares are free: D = 2 sites + 3.

    The field is intrinsic, its sum held at zero by a narrow prior. Riebler et al. (2016),
    doi:10.1177/0962280216660421.
    """
    side = round(sites**0.5)
    near, counts = _lattice(side).toarray(), _counts(side, np.random.default_rng(2))
    with pm.Model() as model:
        mean, sigma = pm.Normal("mean", 0, 2), pm.HalfNormal("sigma", 1)
        share = pm.Beta("share", 0.5, 0.5)
        noise, x = pm.Normal("noise", 0, 1, shape=side**2), pm.ICAR("x", W=near)
        both = pt.sqrt(1 - share) * noise + pt.sqrt(share / 0.7) * x
        pm.Poisson("y", pt.exp(mean + sigma * both), observed=counts)
    return model


KINDS: dict[str, Callable[[int], pm.Model]] = {
    "random walk": random_walk,
    "regression": regression,
    "volatility": volatility,
    "noisy": noisy,
    "seasons": seasons,
    "trend": trend,
    "intercepts": intercepts,
    "slopes": slopes,
    "weak": weak,
    "answers": answers,
    "CAR": car,
    "BYM2": bym2,
}
