"""Models for which a trusted answer is dear, or is refused, and what quadrature knows of two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
from scipy.integrate import trapezoid

from pymc_ext.maths.types import Array


def change_point() -> pm.Model:
    """A level before a time and another one after it, 50 normal rows."""
    t = np.arange(50.0)
    y = np.where(t < 20, 1.0, 2.0) + np.random.default_rng(1).normal(0, 0.5, 50)
    with pm.Model() as model:
        when = pm.Uniform("when", 0, 50)
        before, after = pm.Normal("before", 0, 5), pm.Normal("after", 0, 5)
        level = pm.math.switch(t < when, before, after)
        pm.Normal("y", level, pm.HalfNormal("sd", 1), observed=y)
    return model


def autoregressive() -> pm.Model:
    """A latent series of 60 steps under Poisson counts."""
    rng, x = np.random.default_rng(4), np.zeros(60)
    for t in range(1, 60):
        x[t] = 0.8 * x[t - 1] + rng.normal(0, 0.4)
    with pm.Model() as model:
        rho, sd = pm.Uniform("rho", -1, 1), pm.HalfNormal("sd", 1)
        first = pm.Normal.dist(0, 1)
        x_t = pm.AR("x", [rho], sigma=sd, init_dist=first, steps=59)
        pm.Poisson(
            "y", pm.math.exp(pm.Normal("level", 0, 2) + x_t), observed=rng.poisson(3 * np.exp(x))
        )
    return model


def horseshoe(binary: bool = False) -> pm.Model:
    """Ten slopes, of which three are not zero, 60 rows."""
    rng, p = np.random.default_rng(3), 10
    X, slopes = rng.standard_normal((60, p)), np.zeros(p)
    slopes[:3] = 1.5, -1.0, 0.4
    mean = 0.5 + X @ slopes
    with pm.Model() as model:
        z, local = pm.Normal("z", 0, 1, shape=p), pm.HalfCauchy("local", 1, shape=p)
        overall, slab = pm.HalfCauchy("overall", 0.1), 4 * pm.InverseGamma("slab", 2, 2)
        width = pm.math.sqrt(slab * local**2 / (slab + overall**2 * local**2))
        eta = pm.Normal("alpha", 0, 2) + X @ (z * width * overall)
        if binary:
            pm.Bernoulli("y", logit_p=eta, observed=rng.random(60) < 1 / (1 + np.exp(-mean)))
        else:
            noise = pm.HalfNormal("sd", 2)
            pm.Normal("y", eta, noise, observed=mean + rng.standard_normal(60))
    return model


THRESHOLD_ROWS = 25


def threshold_rows() -> Array:
    """Of a Weibull law with shape 2 and scale 3, above 1."""
    return 1 + 3 * np.random.default_rng(5).weibull(2.0, THRESHOLD_ROWS)


def threshold() -> pm.Model:
    """A Weibull law above a threshold that lies below the least row."""
    y = threshold_rows()
    with pm.Model() as model:
        at = pm.Uniform("at", -5, y.min())
        shape, scale = pm.HalfNormal("shape", 3), pm.HalfNormal("scale", 5)
        pm.Potential("y", pm.logp(pm.Weibull.dist(shape, scale), y - at).sum())
    return model


def series() -> Array:
    """Fifty steps about 40."""
    rng, y = np.random.default_rng(2), np.zeros(50)
    for t in range(1, len(y)):
        y[t] = 0.93 * y[t - 1] + rng.normal()
    return 40 + y


def near_unit_root() -> pm.Model:
    """A stationary series with a prior of its level that is four sds away, where rho is not 1."""
    y = series()
    with pm.Model() as model:
        rho, s, c = pm.Uniform("rho", -1, 1), pm.HalfNormal("s", 3), pm.Normal("c", 0, 10)
        pm.Normal("first", c, s / pm.math.sqrt(1 - rho**2), observed=y[0])
        pm.Normal("others", c + rho * (y[:-1] - c), s, observed=y[1:])
    return model


def items(persons: int, questions: int) -> pm.Model:
    """Item responses whose discriminations and difficulties have scales of their own."""
    rng = np.random.default_rng(1)
    ability, sharpness = rng.normal(size=persons), np.exp(rng.normal(0, 0.4, questions))
    hardness = rng.normal(size=questions)
    right = 1 / (1 + np.exp(-sharpness * (ability[:, None] - hardness)))
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1, shape=persons)
        middle, spread = pm.Normal("middle", 0, 1), pm.HalfNormal("sd_b", 1)
        a = pm.LogNormal("a", 0, pm.HalfNormal("sd_a", 1), shape=questions)
        b = pm.Normal("b", middle, spread, shape=questions)
        pm.Bernoulli(
            "y",
            logit_p=a * (theta[:, None] - b),
            observed=(rng.random((persons, questions)) < right).astype(int),
        )
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "change point": change_point,
    "latent AR": autoregressive,
    "horseshoe": horseshoe,
    "horseshoe, binary": lambda: horseshoe(binary=True),
    "threshold": threshold,
    "near a unit root": near_unit_root,
    "12 items": lambda: items(60, 12),
    "20 items": lambda: items(200, 20),
}


def threshold_by_quadrature(points: int = 160) -> tuple[float, float]:
    """Mean and sd of ``at``: the trapezium rule on a grid of all three."""
    y = threshold_rows()
    at = y.min() - np.geomspace(1e-6, 5 + y.min(), 4 * points)
    shape, scale = np.linspace(0.05, 12, points), np.linspace(0.05, 16, points)
    lp = np.empty((len(at), points, points))
    for i, place in enumerate(at):
        u = np.log(y - place)
        k, s = shape[:, None], scale[None]
        powers = np.exp(k[..., None] * (u - np.log(s)[..., None])).sum(axis=-1)
        lp[i] = len(y) * (np.log(k) - k * np.log(s)) + (k - 1) * u.sum() - powers
        lp[i] -= 0.5 * (k / 3) ** 2 + 0.5 * (s / 5) ** 2
    p = trapezoid(trapezoid(np.exp(lp - lp.max()), scale, axis=2), shape, axis=1)
    at, p = at[::-1], p[::-1]
    mean = trapezoid(p * at, at) / trapezoid(p, at)
    return float(mean), float(np.sqrt(trapezoid(p * (at - mean) ** 2, at) / trapezoid(p, at)))


def series_by_quadrature(points: int = 1_500) -> dict[str, float]:
    """Means and sds of ``rho`` and ``c``, which is normal, given those on a grid: logit (1 + rho)/2
    and log s."""
    y = series()
    logit, log_s = np.linspace(-6, 22, points)[:, None], np.linspace(-2, 2, 300)[None]
    rho, s = np.tanh(logit / 2), np.exp(log_s)
    root = np.sqrt(1 - rho**2)
    # rows, first that of the stationary law, are d = b c + s z: the sums of b^2, b d and d^2
    b2 = root**2 + (len(y) - 1) * (1 - rho) ** 2
    bd = root**2 * y[0] + (1 - rho) * (y[1:] - rho * y[:-1]).sum(axis=1, keepdims=True)
    d2 = root**2 * y[0] ** 2 + ((y[1:] - rho * y[:-1]) ** 2).sum(axis=1, keepdims=True)
    precision = b2 / s**2 + 1 / 10**2
    level = bd / s**2 / precision
    lp = np.log(root) - len(y) * log_s - 0.5 * d2 / s**2 - 0.5 * np.log(precision)
    lp += 0.5 * level**2 * precision - 0.5 * (s / 3) ** 2
    lp += log_s + 2 * np.log(root)  # Jacobians of the grid's coordinates
    p = np.exp(lp - lp.max())
    p /= p.sum()
    found = dict[str, float]()
    for name, mean, variance in (("rho", rho + 0 * s, 0.0), ("c", level, 1 / precision)):
        center = float((p * mean).sum())
        found[f"mean({name})"] = center
        found[f"sd({name})"] = float(np.sqrt((p * (variance + (mean - center) ** 2)).sum()))
    return found
