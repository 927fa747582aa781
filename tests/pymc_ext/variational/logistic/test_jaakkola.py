"""JaakkolaVI: the quadratic bound, its closed-form updates, and its place below ViperVI."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import series
from pymc_ext.variational.logistic.jaakkola import JaakkolaVI, jaakkola_bound
from pymc_ext.variational.logistic.viper import ViperVI
from tests.tolerances import EXACT, NUMERIC, monte_carlo


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    return X, rng.binomial(1, expit(X @ [1.5, -1, 0.5]))


def fit(data, method, covariance="full", scale=None, **options):
    X, y = data
    with pm.Model():
        sd = 1.0 if scale is None else scale()
        beta = pm.Normal("beta", 0, sd, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        return pm.fit(1000, method=method(covariance, **options), progressbar=False)


def test_bound_lies_above_and_touches_at_no_spread():
    theta, tau = (
        a.ravel() for a in np.meshgrid(np.linspace(-20, 20, 41), np.geomspace(1e-6, 50, 30))
    )
    exact = expected_softplus_derivatives(theta, tau, series(0, 23, "cohen-villegas-zagier"))[0]
    bound, _, _ = jaakkola_bound(theta, tau)
    assert np.all(bound >= exact * (1 - EXACT))
    at_zero, _, _ = jaakkola_bound(theta, np.zeros_like(theta))
    np.testing.assert_allclose(at_zero, np.logaddexp(0, theta), rtol=1e-13)


def test_bound_has_the_derivatives_of_finite_differences():
    theta = np.array([-5, -0.3, 0, 1e-6, 2, 9.0])
    tau = np.array([0.5, 1e-5, 1e-5, 3, 1, 20.0])
    _, slope, curvature = jaakkola_bound(theta, tau)
    h = 1e-6
    up, down = jaakkola_bound(theta + h, tau)[0], jaakkola_bound(theta - h, tau)[0]
    np.testing.assert_allclose(slope, (up - down) / (2 * h), atol=1e-8)
    v = tau**2
    up, down = jaakkola_bound(theta, np.sqrt(v + h))[0], jaakkola_bound(theta, np.sqrt(v))[0]
    np.testing.assert_allclose(curvature, 2 * (up - down) / h, atol=1e-5)


def closed_form_updates(X, y, iterations=3000):
    """t_i² = ϑ_i² + τ_i², then q given t: Jaakkola & Jordan, sections 3-4."""
    t = np.ones(len(y))
    for _ in range(iterations):
        a = np.tanh(t / 2) / (2 * t)
        cov = np.linalg.inv(np.eye(X.shape[1]) + (X * a[:, None]).T @ X)
        mean = cov @ X.T @ (y - 0.5)
        t = np.sqrt((X @ mean) ** 2 + np.einsum("ij,jk,ik->i", X, cov, X))
    return mean, cov


def test_is_the_fixed_point_of_the_closed_form_updates(data):
    approx = fit(data, JaakkolaVI)
    mean, cov = closed_form_updates(*data)
    assert approx.result.converged
    np.testing.assert_allclose(approx.mean.eval(), mean, atol=NUMERIC)
    np.testing.assert_allclose(approx.cov.eval(), cov, atol=NUMERIC)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_bound_below_its_elbo_below_the_best_elbo(data, covariance):
    jaakkola, viper = (fit(data, m, covariance) for m in (JaakkolaVI, ViperVI))
    fresh = jaakkola.evaluate(20_000, random_seed=1)
    assert abs(jaakkola.result.elbo - fresh.elbo) < monte_carlo(fresh.elbo_se)
    assert jaakkola.result.train_elbo < jaakkola.result.elbo < viper.result.elbo
    assert viper.result.elbo == viper.result.train_elbo
    assert jaakkola.result.elbo_se == 0
    assert np.all(jaakkola.std.eval() < viper.std.eval()), "the bound narrows q"
    assert "lower bound" in jaakkola.result.notes[0]


@pytest.mark.slow
def test_hierarchical_bound_is_below_the_elbo_of_its_q(data):
    approx = fit(data, JaakkolaVI, scale=lambda: pm.HalfNormal("scale", 2), random_seed=1)
    fresh = approx.result.fresh
    assert approx.result.converged
    assert approx.result.train_elbo < fresh.elbo + monte_carlo(fresh.elbo_se)
