"""The models of `benchmarks.speed.model_kinds`: one of each kind that PyMC's users write.

Each function makes one small model on simulated data; the first line of its docstring is what the
table calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

KINDS: dict[str, Callable[[], pm.Model]] = {}
ROWS, GROUPS = 80, 8


def kind(make: Callable[[], pm.Model]) -> Callable[[], pm.Model]:
    """Enter a model into the table."""
    KINDS[make.__name__.replace("_", "-")] = make
    return make


def generator() -> np.random.Generator:
    """The same random numbers for every model."""
    return np.random.default_rng(1)


def x_and_group() -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """A predictor and the group of each row, (ROWS,) both."""
    rng = generator()
    return rng.normal(size=ROWS), np.arange(ROWS) % GROUPS, rng


# ---------------------------------------------------------------- regressions


@kind
def linear() -> pm.Model:
    """linear regression"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5), pm.HalfNormal("s", 2)
        pm.Normal("y", a + b * x, s, observed=1 + 2 * x + rng.normal(0, 1, ROWS))
    return model


@kind
def student_t() -> pm.Model:
    """robust regression, Student's t"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5), pm.HalfNormal("s", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=a + b * x, sigma=s, observed=1 + 2 * x + rng.standard_t(3, ROWS))
    return model


@kind
def logistic() -> pm.Model:
    """logistic regression"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        y = rng.random(ROWS) < 1 / (1 + np.exp(-0.5 - x))
        pm.Bernoulli("y", logit_p=a + b * x, observed=y.astype(int))
    return model


@kind
def poisson() -> pm.Model:
    """Poisson regression"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        pm.Poisson("y", pm.math.exp(a + b * x), observed=rng.poisson(np.exp(1 + 0.4 * x)))
    return model


@kind
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


@kind
def zero_inflated() -> pm.Model:
    """zero-inflated Poisson"""
    _, _, rng = x_and_group()
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 0.5)
        y = rng.poisson(3, ROWS) * (rng.random(ROWS) < 0.7)
        pm.ZeroInflatedPoisson("y", psi, mu, observed=y)
    return model


@kind
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


@kind
def categorical() -> pm.Model:
    """categorical, softmax of three classes"""
    x, _, rng = x_and_group()
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=(2, 2))
        eta = pt.concatenate([pt.zeros((ROWS, 1)), b[0] + x[:, None] * b[1]], axis=1)
        utility = np.stack([0 * x, 0.5 + x, -x], axis=1) + rng.gumbel(size=(ROWS, 3))
        pm.Categorical("y", p=pm.math.softmax(eta, axis=1), observed=utility.argmax(1))
    return model


@kind
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


@kind
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


# ---------------------------------------------------------------- groups


def grouped() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictor, group and outcome of each row."""
    x, group, rng = x_and_group()
    return x, group, 1 + rng.normal(0, 0.8, GROUPS)[group] + 0.5 * x + rng.normal(0, 1, ROWS)


@kind
def hierarchical_centred() -> pm.Model:
    """hierarchical, centred"""
    x, group, y = grouped()
    with pm.Model() as model:
        mu, tau, b = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), pm.Normal("b", 0, 2)
        level = pm.Normal("level", mu, tau, shape=GROUPS)
        pm.Normal("y", level[group] + b * x, 1, observed=y)
    return model


@kind
def hierarchical_non_centred() -> pm.Model:
    """hierarchical, not centred, with a Deterministic"""
    x, group, y = grouped()
    with pm.Model() as model:
        mu, tau, b = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), pm.Normal("b", 0, 2)
        z = pm.Normal("z", 0, 1, shape=GROUPS)
        level = pm.Deterministic("level", mu + tau * z)
        pm.Normal("y", level[group] + b * x, 1, observed=y)
    return model


@kind
def correlated_slopes() -> pm.Model:
    """correlated slopes, LKJ"""
    x, group, y = grouped()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2)
        L, _, _ = pm.LKJCholeskyCov("L", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1, shape=2))
        z = pm.Normal("z", 0, 1, shape=(GROUPS, 2))
        effect = mu + z @ L.T
        pm.Normal("y", effect[group, 0] + effect[group, 1] * x, 1, observed=y)
    return model


@kind
def zero_sum() -> pm.Model:
    """ZeroSumNormal effects"""
    _, group, y = grouped()
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        effect = pm.ZeroSumNormal("effect", tau, shape=GROUPS)
        pm.Normal("y", mu + effect[group], 1, observed=y)
    return model


@kind
def multivariate() -> pm.Model:
    """multivariate normal, LKJCholeskyCov"""
    rng = generator()
    y = rng.multivariate_normal([0, 1, 2], [[1, 0.5, 0], [0.5, 2, 0.3], [0, 0.3, 1]], 40)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=3)
        L, _, _ = pm.LKJCholeskyCov("L", n=3, eta=2, sd_dist=pm.HalfNormal.dist(2, shape=3))
        pm.MvNormal("y", mu, chol=L, observed=y)
    return model


# ---------------------------------------------------------------- functions and time series


@kind
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


@kind
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


@kind
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


@kind
def random_walk() -> pm.Model:
    """GaussianRandomWalk, latent"""
    rng = generator()
    level = np.cumsum(rng.normal(0, 0.3, 40))
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        walk = pm.GaussianRandomWalk("walk", sigma=s, init_dist=pm.Normal.dist(0, 2), steps=39)
        pm.Normal("y", walk, 0.5, observed=level + rng.normal(0, 0.5, 40))
    return model


@kind
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


@kind
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


# ---------------------------------------------------------------- what is seen of the data


@kind
def mixture() -> pm.Model:
    """mixture of normals, pm.NormalMixture"""
    rng = generator()
    y = np.where(rng.random(ROWS) < 0.3, rng.normal(-2, 1, ROWS), rng.normal(2, 1, ROWS))
    with pm.Model() as model:
        w = pm.Dirichlet("w", [2.0, 2.0])
        ordered = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 3, shape=2, transform=ordered, initval=[-1.0, 1.0])
        pm.NormalMixture("y", w=w, mu=mu, sigma=1.0, observed=y)
    return model


@kind
def censored() -> pm.Model:
    """censored, pm.Censored"""
    rng = generator()
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        y = np.minimum(rng.normal(1, 1, ROWS), 2)
        pm.Censored("y", pm.Normal.dist(mu, s), lower=None, upper=2.0, observed=y)
    return model


@kind
def weibull() -> pm.Model:
    """survival, Weibull with censoring"""
    rng = generator()
    x = rng.normal(size=ROWS)
    times = rng.weibull(1.5, ROWS) * np.exp(1 + 0.5 * x)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        shape = pm.Gamma("shape", 2, 1)
        latent = pm.Weibull.dist(alpha=shape, beta=pm.math.exp(a + b * x))
        y = np.minimum(times, 4.0)
        pm.Censored("y", latent, lower=None, upper=4.0, observed=y)
    return model


@kind
def truncated() -> pm.Model:
    """truncated normal likelihood"""
    rng = generator()
    y = rng.normal(1, 1, 4 * ROWS)
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.TruncatedNormal("y", mu, s, lower=0.0, observed=y[y > 0][:ROWS])
    return model


@kind
def truncated_gamma() -> pm.Model:
    """truncated Gamma, pm.Truncated"""
    rng = generator()
    y = rng.gamma(3, 1, 4 * ROWS)
    with pm.Model() as model:
        alpha, beta = pm.Gamma("alpha", 2, 0.5), pm.Gamma("beta", 2, 1)
        pm.Truncated("y", pm.Gamma.dist(alpha, beta), lower=1.0, observed=y[y > 1][:ROWS])
    return model


@kind
def missing() -> pm.Model:
    """missing outcomes, imputed"""
    rng = generator()
    y = rng.normal(1, 1, ROWS)
    y[[3, 11, 40]] = np.nan
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.Normal("y", mu, s, observed=y)
    return model


@kind
def minibatch() -> pm.Model:
    """pm.Minibatch"""
    rng = generator()
    x = rng.normal(size=400)
    y = 1 + 2 * x + rng.normal(0, 1, 400)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5)
        x_batch, y_batch = pm.Minibatch(x, y, batch_size=50)
        pm.Normal("y", a + b * x_batch, 1, observed=y_batch, total_size=400)
    return model


# ---------------------------------------------------------------- forms of a density


@kind
def potential() -> pm.Model:
    """Potentials only, no observed variable"""
    y = generator().normal(1, 1, ROWS)
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.Potential("likelihood", pm.logp(pm.Normal.dist(mu, s), y).sum())
    return model


@kind
def custom() -> pm.Model:
    """pm.CustomDist"""
    y = generator().laplace(1, 1, ROWS)

    def logp(value, mu, s):
        return -pm.math.abs(value - mu) / s - pm.math.log(2 * s)

    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.CustomDist("y", mu, s, logp=logp, observed=y)
    return model


class Shifted(Op):
    """x + 1 as an Op of the user's own, without a gradient."""

    itypes: ClassVar = [pt.dscalar]
    otypes: ClassVar = [pt.dscalar]

    def perform(self, node: Apply, inputs: list[np.ndarray], outputs: list[list]) -> None:
        outputs[0][0] = np.asarray(inputs[0] + 1.0)


@kind
def black_box() -> pm.Model:
    """an Op of the user's own without a gradient"""
    y = generator().normal(1, 1, ROWS)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3)
        pm.Normal("y", Shifted()(mu), 1, observed=y)
    return model


@kind
def discrete_latent() -> pm.Model:
    """discrete latents"""
    rng = generator()
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        kind = pm.Bernoulli("kind", p, shape=10)
        pm.Normal("y", kind * 3.0, 1, observed=rng.normal(0, 1, 10))
    return model


@kind
def circular() -> pm.Model:
    """a parameter on a circle, pm.VonMises"""
    rng = generator()
    with pm.Model() as model:
        angle = pm.VonMises("angle", 0, 1)
        pm.Normal("y", pm.math.cos(angle), 0.5, observed=rng.normal(0.5, 0.5, 10))
    return model
