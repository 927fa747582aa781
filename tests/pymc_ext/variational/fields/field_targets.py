"""Densities of fields that anyone can write down, with their exact evidence where there is one."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.integrate import trapezoid
from scipy.special import expit

from pymc_ext.density import CallableDensity
from pymc_ext.maths.types import Array


def chain(sites: int, constraint: float = 0.0, seed: int = 1) -> tuple[CallableDensity, Array]:
    """A normal law with neighbours in a shuffled order, and its precision.

    ``constraint``: 1/sd of a prior on the sum of all.
    """
    order = np.random.default_rng(seed).permutation(sites)
    P = np.empty((sites, sites))
    P[np.ix_(order, order)] = 2.5 * np.eye(sites) - np.eye(sites, k=1) - np.eye(sites, k=-1)
    P += constraint**2
    mean = np.sin(np.arange(sites))
    return (
        CallableDensity(
            lambda t: -0.5 * np.einsum("nd,nd->n", (t - mean) @ P, t - mean),
            lambda t: -(t - mean) @ P,
            dimension=sites,
        ),
        P,
    )


class NormalWalk:
    """y_i ~ N(x_i, 1), x a random walk from N(0, 1) with sd e^s, s ~ N(−1, 1): θ = (x, s).

    Given s all is normal, so that Laplace's method is exact and log p(s | y) known.
    """

    def __init__(self, sites: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.sites, self.dimension = sites, sites + 1
        self.y = np.cumsum(rng.normal(0, 0.4, sites)) + rng.standard_normal(sites)

    def log_density(self, theta: Array) -> Array:
        return self.log_density_gradient(theta)[0]

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        x, s = theta[:, :-1], theta[:, -1]
        step, residual, precision = np.diff(x), self.y - x, np.exp(-2 * s)
        spread = np.sum(step**2, axis=1)
        log_p = stats.norm.logpdf(residual).sum(axis=1) + stats.norm.logpdf(x[:, 0])
        log_p += stats.norm.logpdf(s, -1) - 0.5 * precision * spread
        log_p -= (self.sites - 1) * (s + 0.5 * np.log(2 * np.pi))
        score = np.empty_like(theta)
        score[:, :-1] = residual
        score[:, 0] -= x[:, 0]
        pull = precision[:, None] * step
        score[:, :-2] += pull
        score[:, 1:-1] -= pull
        score[:, -1] = precision * spread - (self.sites - 1) - (s + 1)
        return log_p, score

    def of_scale(self) -> tuple[float, float, float]:
        """log Z, and mean and sd of s, by quadrature."""
        s = np.linspace(-6, 2, 801)
        i = np.arange(self.sites)
        walk = np.minimum.outer(i, i)
        log_p = np.array([
            stats.multivariate_normal.logpdf(
                self.y, np.zeros(self.sites), np.eye(self.sites) + 1 + np.exp(2 * value) * walk
            )
            for value in s
        ])  # fmt: skip
        log_p += stats.norm.logpdf(s, -1)
        return _moments(s, log_p)


class Autoregression:
    """y_t ~ N(x_t, 1), x an autoregression about a level from its own law, steps of sd .5; rho is
    Beta(9, 1), the level N(0, 5²)."""

    def __init__(self, sites: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        x = np.zeros(sites)
        for t in range(1, sites):
            x[t] = 0.95 * x[t - 1] + 0.5 * rng.standard_normal()
        self.y = 2 + x + rng.standard_normal(sites)

    def model(self) -> pm.Model:
        with pm.Model() as model:
            level, rho = pm.Normal("level", 0, 5), pm.Beta("rho", 9, 1)
            x = pm.Flat("x", shape=len(self.y))
            first = pm.Normal.dist(level, 0.5 / pt.sqrt(1 - rho**2))
            others = pm.Normal.dist(level + rho * (x[:-1] - level), 0.5)
            pm.Potential("ar", pm.logp(first, x[0]) + pm.logp(others, x[1:]).sum())
            pm.Normal("y", x, 1, observed=self.y)
        return model

    def of_level(self) -> tuple[float, float]:
        """log Z, and the sd of the level, by quadrature over log odds of rho."""
        u, n = np.linspace(-2, 14, 801), len(self.y)
        lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        log_p, mean, var = np.empty((3, len(u)))
        for k, rho in enumerate(expit(u)):
            S = np.eye(n) + 0.25 / (1 - rho**2) * rho**lag
            solved = np.linalg.solve(S, np.stack([self.y, np.ones(n)], axis=1))
            precision = 1 / 25 + solved[:, 1].sum()
            mean[k], var[k] = solved[:, 0].sum() / precision, 1 / precision
            log_p[k] = stats.multivariate_normal.logpdf(self.y, np.zeros(n), S + 25.0)
            log_p[k] += stats.beta.logpdf(rho, 9, 1) + np.log(rho) + np.log1p(-rho)
        p = np.exp(log_p - log_p.max())
        total = trapezoid(p, u)
        first = trapezoid(p * mean, u) / total
        second = trapezoid(p * (var + mean**2), u) / total
        return float(log_p.max() + np.log(total)), float(np.sqrt(second - first**2))


class Seasons:
    """y_t ~ N(x_t + e_{t mod 12}, 1), x a walk from N(0, 1) with steps of sd .3, the effects e of
    the seasons N(0, τ²) with their sum held at zero, τ half-normal."""

    def __init__(self, sites: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.season = np.arange(sites) % 12
        self.y = np.cumsum(0.3 * rng.standard_normal(sites)) + rng.standard_normal(sites)
        self.y += 0.7 * np.sin(2 * np.pi * self.season / 12)

    def model(self) -> pm.Model:
        with pm.Model() as model:
            tau = pm.HalfNormal("tau", 1)
            effects = pm.ZeroSumNormal("effects", tau, shape=12)
            x = pm.GaussianRandomWalk(
                "x", mu=0, sigma=0.3, init_dist=pm.Normal.dist(0, 1), steps=len(self.y) - 1
            )
            pm.Normal("y", x + effects[self.season], 1, observed=self.y)
        return model

    def of_log_scale(self) -> tuple[float, float, float]:
        """log Z, and mean and sd of log τ, by quadrature."""
        u, i = np.linspace(-8, 2, 801), np.arange(len(self.y))
        walk = np.eye(len(i)) + 1 + 0.09 * np.minimum.outer(i, i)
        same = np.equal.outer(self.season, self.season) - 1 / 12
        log_p = np.array([
            stats.multivariate_normal.logpdf(self.y, np.zeros(len(i)), walk + t**2 * same)
            for t in np.exp(u)
        ])  # fmt: skip
        log_p += stats.halfnorm.logpdf(np.exp(u)) + u
        return _moments(u, log_p)


class Groups:
    """y_g ~ N(θ_g, 1), θ_g ~ N(μ, τ²), centred, μ ~ N(0, 5²), τ half-Cauchy of scale 5: data of a
    small ``spread`` hardly tell τ from zero."""

    def __init__(self, groups: int, spread: float, seed: int = 6) -> None:
        rng = np.random.default_rng(seed)
        self.y = spread * rng.standard_normal(groups) + rng.standard_normal(groups)

    def model(self, flat: bool = False) -> pm.Model:
        """``flat``: log τ has no prior, and the posterior is improper."""
        with pm.Model() as model:
            mu = pm.Normal("mu", 0, 5)
            tau = pt.exp(pm.Flat("log_tau")) if flat else pm.HalfCauchy("tau", 5)
            theta = pm.Normal("theta", mu, tau, shape=len(self.y))
            pm.Normal("y", theta, 1, observed=self.y)
        return model

    def of_log_scale(self) -> tuple[float, float, float]:
        """log Z, and mean and sd of log τ, by quadrature."""
        u, n = np.linspace(-14, 3, 1701), len(self.y)
        log_p = np.array([
            stats.multivariate_normal.logpdf(self.y, np.zeros(n), (1 + t**2) * np.eye(n) + 25.0)
            for t in np.exp(u)
        ])  # fmt: skip
        log_p += stats.halfcauchy.logpdf(np.exp(u), scale=5) + u
        return _moments(u, log_p)


def _moments(u: Array, log_p: Array) -> tuple[float, float, float]:
    """log Z, and mean and sd of u, whose log density but for Z is known at ``u`` (K,)."""
    p = np.exp(log_p - log_p.max())
    total = trapezoid(p, u)
    mean = trapezoid(p * u, u) / total
    sd = np.sqrt(trapezoid(p * (u - mean) ** 2, u) / total)
    return float(log_p.max() + np.log(total)), float(mean), float(sd)
