"""Functions and time series."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from benchmarks.speed.kinds.simulated import ROWS, generator


def hsgp() -> pm.Model:
    """Gaussian process, HSGP"""
    rng = generator()
    x = np.linspace(-1, 1, 60)[:, None]
    with pm.Model() as model:
        scale, length = pm.HalfNormal("scale", 1), pm.InverseGamma("length", 5, 2)
        gp = pm.gp.HSGP(m=[12], c=1.5, cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
        f = gp.prior("f", X=x)
        pm.Normal("y", f, 0.3, observed=np.sin(4 * x[:, 0]) + rng.normal(0, 0.3, 60))
    return model


def latent_gp() -> pm.Model:
    """Gaussian process, latent, Poisson"""
    rng = generator()
    x = np.linspace(-1, 1, 30)[:, None]
    with pm.Model() as model:
        scale, length = pm.HalfNormal("scale", 1), pm.InverseGamma("length", 5, 2)
        gp = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
        f = gp.prior("f", X=x)
        pm.Poisson("y", pm.math.exp(f), observed=rng.poisson(np.exp(np.sin(4 * x[:, 0]))))
    return model


def autoregressive() -> pm.Model:
    """autoregressive, pm.AR"""
    rng = generator()
    y = np.zeros(ROWS)
    for t in range(1, ROWS):
        y[t] = 0.6 * y[t - 1] + rng.normal()
    with pm.Model() as model:
        rho, s = pm.Normal("rho", 0, 1), pm.HalfNormal("s", 2)
        start = pm.Normal.dist(0, 5)
        pm.AR("y", rho=[0.0, rho], sigma=s, constant=True, init_dist=start, observed=y)
    return model


def random_walk() -> pm.Model:
    """GaussianRandomWalk, latent"""
    rng = generator()
    level = np.cumsum(rng.normal(0, 0.3, 40))
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        walk = pm.GaussianRandomWalk("walk", sigma=s, init_dist=pm.Normal.dist(0, 2), steps=39)
        pm.Normal("y", walk, 0.5, observed=level + rng.normal(0, 0.5, 40))
    return model


def garch() -> pm.Model:
    """GARCH(1, 1), by scan"""
    rng = generator()
    y = rng.normal(0, 1, 60)
    with pm.Model() as model:
        omega = pm.HalfNormal("omega", 1)
        alpha, beta = pm.Beta("alpha", 1, 3), pm.Beta("beta", 2, 2)

        def step(past, h, omega, alpha, beta):
            return omega + alpha * past**2 + beta * h

        h = pytensor.scan(
            step,
            sequences=[pt.as_tensor(y[:-1])],
            outputs_info=[pt.constant(1.0, dtype="float64")],
            non_sequences=[omega, alpha, beta],
            strict=True,
            return_updates=False,
        )
        pm.Normal("y", 0, pm.math.sqrt(h), observed=y[1:])
    return model


def ode() -> pm.Model:
    """differential equation, pm.ode"""
    rng = generator()
    times = np.linspace(0.5, 4, 8)

    def decay(y, t, p):
        return [-p[0] * y[0]]

    with pm.Model() as model:
        rate = pm.LogNormal("rate", 0, 0.5)
        solve = pm.ode.DifferentialEquation(func=decay, times=times, n_states=1, n_theta=1, t0=0)
        y = solve(y0=[2.0], theta=[rate])
        observed = 2 * np.exp(-0.7 * times) + rng.normal(0, 0.1, 8)
        pm.Normal("y", y[:, 0], 0.1, observed=observed)
    return model
