"""MonteCarloVI: reaches the optimum of the closed form up to Monte Carlo noise."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.special import expit

import pymc_ext as px
from pymc_ext.density import CallableDensity
from pymc_ext.variational.core.steps import NonFiniteError, StepOptions
from pymc_ext.variational.gaussian.monte_carlo import MonteCarlo
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


def gaussian():
    with pm.Model() as target:
        pm.Normal("x", 3.0, 0.5, shape=2)
    return target


@pytest.mark.parametrize("optimizer", [None, pm.adam(learning_rate=0.01)])
def test_gaussian_is_reached_and_reported_by_any_optimizer(optimizer):
    seen, target = [], gaussian()
    method = MonteCarloVI("diagonal", learning_rate=0.01, model=target, random_seed=2)
    approx = pm.fit(
        1500,
        method=method,
        model=target,
        obj_n_mc=8,
        obj_optimizer=optimizer,
        progressbar=False,
        callbacks=[lambda _, losses, i: seen.append((len(losses), i))],
    )
    assert seen[-1] == (1500, 1500) and len(approx.hist) == 1500
    assert abs(approx.result.elbo) < 0.02  # log Z = 0
    fresh = approx.result.fresh.draws
    assert approx.result.gradient_evaluations == 8 * 1500
    assert approx.result.density_evaluations == 8 * 1500 + fresh + 1  # that of the start
    assert approx.result.stop_reason == "all iterations done"


def test_a_callback_sees_q_and_ends_the_fit():
    means = []

    def stop(approx, losses, i):
        means.append(approx.mean.eval()[0])
        if i == 3:
            raise StopIteration

    target = gaussian()
    method = MonteCarloVI(draws=10, model=target, random_seed=2)
    approx = pm.fit(50, method=method, model=target, callbacks=[stop], progressbar=False)
    assert len(set(means)) == 3 and approx.mean.eval()[0] == means[-1]
    assert approx.result.iterations == 3 and "callback" in approx.result.stop_reason
    method.refine(4, progressbar=False)
    assert len(approx.hist) == 7 and approx.result.gradient_evaluations == 4 * 10


@pytest.mark.parametrize(
    ("method", "options"),
    [(MonteCarloVI, {}), (px.BernsteinVI, {"base": "identity"}), (px.BatchMatchVI, {})],
)
def test_callbacks_of_pymc_see_parameters_move(method, options):
    seen = []
    watch = lambda approx, *_: seen.append(approx.params[0].get_value().tobytes())  # noqa: E731
    target = gaussian()
    inference = method(model=target, random_seed=2, **options)
    pm.fit(5, method=inference, model=target, callbacks=[watch], progressbar=False)
    assert len(set(seen)) == len(seen) > 1


def test_engine_fits_any_density_to_the_exact_optimum():
    P = np.array([[2.0, 0.9], [0.9, 1.0]])
    density = CallableDensity(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, P, x), lambda x: -x @ P, dimension=2
    )
    step = StepOptions(draws=200, learning_rate=0.02)
    q = MonteCarlo("full", step=step).fit(density, n=2000, random_seed=1).q
    np.testing.assert_allclose(q.cov, np.linalg.inv(P), rtol=0.1)
    q = MonteCarlo("diagonal", step=step).fit(density, n=2000, random_seed=1).q
    np.testing.assert_allclose(q.std, np.diag(P) ** -0.5, rtol=0.05)


def test_a_density_without_finite_draws_ends_with_an_error():
    density = CallableDensity(
        lambda x: np.where(abs(x[:, 0]) < 1e-9, 0.0, -np.inf), lambda x: 0 * x, dimension=1
    )
    with pytest.raises(NonFiniteError, match="100 steps in a row"):
        MonteCarlo(step=StepOptions(draws=3)).fit(density, n=500, random_seed=1)


def test_a_network_is_trained_with_q():
    weight = pytensor.shared(0.0, "weight")
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("p", -((weight - 2.0) ** 2) - 0.5 * (x - weight) ** 2)
    method = MonteCarloVI(draws=20, learning_rate=0.05, model=model, random_seed=1)
    pm.fit(800, method=method, model=model, more_obj_params=[weight], progressbar=False)
    assert weight.get_value() == pytest.approx(1.6, abs=0.05)  # maximum of −(w − 2)² − w²/4


def test_bad_options_are_refused(model):
    for options, message in [
        ({"covariance": "low-rank"}, "covariance must be one of"),
        ({"draws": 0}, "draws must be an integer >= 1"),
        ({"learning_rate": -1.0}, "learning_rate must be > 0"),
    ]:
        with model, pytest.raises(ValueError, match=message):
            MonteCarloVI(**options)
