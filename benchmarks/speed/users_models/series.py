"""Series in time and curves: random walks, volatility, a change point, a GP, a spline, media."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.interpolate import BSpline


def local_linear_trend() -> pm.Model:
    """Centred random walks of level and slope with unknown scales, 60 steps."""
    rng, steps = np.random.default_rng(11), 60
    true_slope = np.cumsum(rng.normal(0, 0.08, steps))
    true_level = 2 + np.cumsum(true_slope + rng.normal(0, 0.3, steps))
    y = true_level + rng.normal(0, 0.7, steps)
    with pm.Model() as model:
        s_level = pm.HalfNormal("s_level", 1)
        s_slope = pm.HalfNormal("s_slope", 0.3)
        s_obs = pm.HalfNormal("s_obs", 2)
        first = pm.Normal.dist(0, 1)
        slope = pm.GaussianRandomWalk("slope", mu=0, sigma=s_slope, init_dist=first, shape=steps)
        level_0 = pm.Normal("lev0", 0, 5)
        innovation = pm.Normal("inn", slope[:-1], s_level, shape=steps - 1)
        walk = pt.concatenate([level_0[None], level_0 + pt.cumsum(innovation)])
        level = pm.Deterministic("level", walk)
        pm.Normal("y", level, s_obs, observed=y)
    return model


def structural_season() -> pm.Model:
    """Monthly sales: a random walk of the level, a zero-sum season, an effect of promotion."""
    rng, steps = np.random.default_rng(12), 72
    month = np.arange(steps) % 12
    promotion = (rng.random(steps) < 0.2).astype(float)
    true_season = rng.normal(0, 0.3, 12)
    true_season -= true_season.mean()
    y = 5 + np.cumsum(rng.normal(0, 0.06, steps)) + true_season[month] + 0.25 * promotion
    y = y + rng.normal(0, 0.1, steps)
    with pm.Model(coords={"month": range(12), "t": range(steps)}) as model:
        s_level = pm.HalfNormal("s_lev", 0.2)
        s_season = pm.HalfNormal("s_seas", 1)
        s_obs = pm.Exponential("s_obs", 2)
        season = pm.ZeroSumNormal("season", s_season, dims="month")
        first = pm.Normal.dist(5, 2)
        level = pm.GaussianRandomWalk("lev", sigma=s_level, init_dist=first, dims="t")
        slope = pm.Normal("b_promo", 0, 1)
        pm.Normal("y", level + season[month] + slope * promotion, s_obs, observed=y)
    return model


def stoch_vol() -> pm.Model:
    """Log volatility that is a centred AR(1) of 100 steps, and Student-t returns."""
    rng, steps = np.random.default_rng(28), 100
    true_h = np.zeros(steps)
    true_h[0] = rng.normal(-1, 0.5)
    for t in range(1, steps):
        true_h[t] = -1 + 0.95 * (true_h[t - 1] + 1) + rng.normal(0, 0.25)
    y = np.exp(true_h / 2) * rng.standard_t(8, steps)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        phi = pm.Beta("phi", 20, 1.5)
        s = pm.HalfNormal("s", 0.5)
        nu = pm.Gamma("nu", 2, 0.1)
        h = pm.AR(
            "h",
            rho=[mu * (1 - phi), phi],
            sigma=s,
            constant=True,
            init_dist=pm.Normal.dist(mu, 0.7),
            shape=steps,
        )
        pm.StudentT("y", nu=nu, mu=0, sigma=pt.exp(h / 2), observed=y)
    return model


def changepoint() -> pm.Model:
    """Negative binomial counts whose level changes smoothly at an unknown time, over some width."""
    rng, t = np.random.default_rng(29), np.arange(80)
    y = rng.negative_binomial(5, 5 / (5 + np.exp(1.5 + 0.9 * (t > 47))))
    with pm.Model() as model:
        a, delta = pm.Normal("a", 1, 1), pm.Normal("delta", 0, 1)
        tau, width = pm.Uniform("tau", 0, 80), pm.HalfNormal("width", 3)
        alpha = pm.HalfNormal("alpha", 10)
        mean = pt.exp(a + delta * pm.math.sigmoid((t - tau) / (width + 0.1)))
        pm.NegativeBinomial("y", mu=mean, alpha=alpha, observed=y)
    return model


def gp_marginal() -> pm.Model:
    """A Gaussian process, trend and period, with unknown lengthscales under 60 normal rows."""
    rng = np.random.default_rng(26)
    x = np.sort(rng.uniform(0, 6, 60))[:, None]
    y = np.sin(1.2 * x[:, 0]) + 0.4 * np.sin(2 * np.pi * x[:, 0]) + rng.normal(0, 0.25, 60)
    with pm.Model() as model:
        ls, eta = pm.Gamma("ls", 2, 1), pm.HalfNormal("eta", 2)
        ls_per, eta_per = pm.Gamma("ls_per", 4, 2), pm.HalfNormal("eta_per", 1)
        trend = eta**2 * pm.gp.cov.ExpQuad(1, ls)
        periodic = eta_per**2 * pm.gp.cov.Periodic(1, period=1.0, ls=ls_per)
        gp = pm.gp.Marginal(cov_func=trend + periodic)
        sigma = pm.HalfNormal("sigma", 1)
        gp.marginal_likelihood("y", X=x, y=y, sigma=sigma)
    return model


def pspline() -> pm.Model:
    """A P-spline: a second-order random walk of B-spline coefficients under Poisson counts."""
    rng = np.random.default_rng(27)
    x = np.sort(rng.random(120))
    inside = np.linspace(0, 1, 18)
    gap = inside[1] - inside[0]
    before, after = [inside[0] - h * gap for h in (3, 2, 1)], [1 + h * gap for h in (1, 2, 3)]
    knots = np.r_[before, inside, after]
    B = BSpline.design_matrix(np.clip(x, 0, 1 - 1e-9), knots, 3).toarray()
    coefficients = B.shape[1]
    y = rng.poisson(np.exp(1 + np.sin(5 * x) + 0.5 * x))
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 0.5)
        b0, b1 = pm.Normal("b0", 0, 3), pm.Normal("b1", 0, 1)
        dz = pm.Normal("dz", 0, tau, shape=coefficients - 2)
        steps = b1 + pt.concatenate([[0.0], pt.cumsum(dz)])
        coef = pm.Deterministic("coef", b0 + pt.concatenate([[0.0], pt.cumsum(steps)]))
        pm.Poisson("y", pt.exp(B @ coef), observed=y)
    return model


def mmm() -> pm.Model:
    """Marketing mix: geometric adstock and saturation of 3 channels, a trend and a season."""
    rng = np.random.default_rng(35)
    weeks, channels, lags = 104, 3, 8
    spent = rng.gamma(1.5, 0.3, (weeks, channels)) * (rng.random((weeks, channels)) < 0.6)
    padded = np.concatenate([np.zeros((lags, channels)), spent])
    lagged = np.stack([padded[lags - k : lags - k + weeks] for k in range(lags)])
    true_weights = np.array([0.5, 0.2, 0.7]) ** np.arange(lags)[:, None]
    true_weights = true_weights / true_weights.sum(0)
    rates, effects = np.array([2.0, 3, 1]) * (true_weights[:, None] * lagged).sum(0), [1, 0.6, 0.4]
    saturated = np.array(effects) * (1 - np.exp(-rates)) / (1 + np.exp(-rates))
    t = np.arange(weeks) / 52
    season = np.stack([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)], 1)
    y = 2 + 0.2 * t + season @ [0.2, -0.1] + saturated.sum(1) + rng.normal(0, 0.12, weeks)
    with pm.Model(coords={"channel": ["tv", "radio", "web"]}) as model:
        alpha = pm.Beta("alpha", 1, 3, dims="channel")
        lam = pm.Gamma("lam", 3, 1, dims="channel")
        beta = pm.HalfNormal("beta", 2, dims="channel")
        intercept, trend = pm.Normal("intercept", 0, 2), pm.Normal("trend", 0, 0.5)
        fourier = pm.Laplace("fourier", 0, 1, shape=2)
        weights = alpha ** np.arange(lags)[:, None]
        weights = weights / weights.sum(axis=0)
        adstock = (weights[:, None, :] * lagged).sum(axis=0)
        saturation = (1 - pt.exp(-lam * adstock)) / (1 + pt.exp(-lam * adstock))
        sigma = pm.HalfNormal("sigma", 1)
        mean = intercept + trend * t + season @ fourier + (beta * saturation).sum(axis=1)
        pm.Normal("y", mean, sigma, observed=y)
    return model
