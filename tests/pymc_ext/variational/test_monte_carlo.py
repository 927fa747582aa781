"""MonteCarloVI: reaches the optimum of the closed form up to Monte Carlo noise."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from pymc_ext.variational.gaussian.monte_carlo_vi import MonteCarloVI
from pymc_ext.variational.logistic.viper import ViperVI
from tests.tolerances import monte_carlo


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2)) @ np.array([[1, 0.7], [0, 0.7]])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=X @ beta, observed=rng.binomial(1, expit(X @ [1.5, -1])))
    return model


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_reaches_the_closed_form_optimum(model, covariance):
    with model:
        closed = pm.fit(method=ViperVI(covariance), progressbar=False)
        method = MonteCarloVI(covariance, draws=200, learning_rate=0.02, random_seed=1)
        approx = pm.fit(1200, method=method, progressbar=False)
    fresh = approx.evaluate(40_000, random_seed=2)
    # no q of the family is better than the optimum; the noise of 200 draws a step costs little
    assert fresh.elbo < closed.result.train_elbo + monte_carlo(fresh.elbo_se)
    assert fresh.elbo > closed.result.train_elbo - 0.02 - monte_carlo(fresh.elbo_se)
    np.testing.assert_allclose(approx.std.eval(), closed.std.eval(), rtol=0.1)
    assert approx.result.method == f"monte-carlo-{covariance}"
    theta, _, lq = approx.draws_with_logs(50, random_seed=3)
    np.testing.assert_allclose(approx.log_q(theta), lq, rtol=1e-9)
    assert np.abs(approx.cov.eval()[0, 1]) > 1e-3 or covariance == "diagonal"


def test_bad_options_are_refused(model):
    for options, message in [
        ({"covariance": "low-rank"}, "covariance must be one of"),
        ({"draws": 0}, "draws must be an integer >= 1"),
        ({"learning_rate": -1.0}, "learning_rate must be > 0"),
    ]:
        with model, pytest.raises(ValueError, match=message):
            MonteCarloVI(**options)
