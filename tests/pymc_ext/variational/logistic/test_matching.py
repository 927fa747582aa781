"""MatchingVI: equals the classifier's algebra, is a lower bound, and reads models as written."""

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.matching import METHODS, MatchingState
from pymc_ext.variational.logistic.affine import AffinityError
from pymc_ext.variational.logistic.matching import MatchingVI, matched_start
from tests.tolerances import EXACT, monte_carlo

RNG = np.random.default_rng(5)
N, P, K = 90, 3, 3
X = RNG.normal(size=(N, P))
W = RNG.normal(size=(P, K)) * 1.5
Y3 = np.argmax(X @ W + RNG.gumbel(size=(N, K)), axis=1)
Y2 = (X @ W[:, 0] + RNG.logistic(size=N) > 0).astype(int)


def logistic_model(y=Y2, x=X, precision=0.5, **likelihood):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, precision**-0.5, shape=x.shape[1])
        intercept = pm.Normal("intercept", 0, precision**-0.5)
        pm.Bernoulli("y", logit_p=x @ beta + intercept, observed=y, **likelihood)
    return model


def softmax_model(precision=0.5):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, precision**-0.5, shape=(P, K))
        intercept = pm.Normal("intercept", 0, precision**-0.5, shape=K)
        pm.Categorical("y", logit_p=X @ beta + intercept, observed=Y3)
    return model


def reference_model():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=(P, K - 1))
        free = pm.math.dot(X, beta)
        logits = pm.math.concatenate([np.zeros((N, 1)), free], axis=1)
        pm.Categorical("y", p=pm.math.softmax(logits, axis=-1), observed=Y3)
    return model


def fitted(model, *arguments, **settings):
    settings = {"alpha": 0.1, **settings}  # the classifier's
    with model:
        return pm.fit(method=MatchingVI(*arguments, random_seed=1, **settings), progressbar=False)


@pytest.mark.parametrize("method", METHODS)
def test_logistic_posterior_is_the_classifiers(method):
    approx = fitted(logistic_model(), method)
    state = MatchingState([0, 1], P, method=method, link="logit", prior_precision=0.5)
    state.update(X, Y2)
    np.testing.assert_allclose(approx.mean.eval(), state.posterior.mean[0], rtol=1e-9)
    np.testing.assert_allclose(approx.cov.eval(), state.posterior.covariance[0], rtol=1e-9)
    assert approx.result.method == f"matching-{method}"


def test_softmax_posterior_is_the_classifiers():
    approx = fitted(softmax_model(), invariant=False)
    state = MatchingState(range(K), P, prior_precision=0.5)
    state.update(X, Y3)
    mean = approx.mean.eval()  # beta (P, K), then the intercepts (K,)
    weights = np.vstack([mean[: P * K].reshape(P, K), mean[P * K :]])
    np.testing.assert_allclose(weights.T, state.posterior.mean, rtol=1e-9)
    sd = approx.std.eval()
    expected = np.sqrt(np.diagonal(state.posterior.covariance, axis1=1, axis2=2)).T
    np.testing.assert_allclose(np.vstack([sd[: P * K].reshape(P, K), sd[P * K :]]), expected)


@pytest.mark.parametrize("build", [logistic_model, softmax_model, reference_model])
def test_the_elbo_agrees_with_fresh_draws_and_is_below_the_evidence(build):
    approx = fitted(build(), alpha="elbo", n_draws=4096)
    result = approx.result
    assert abs(result.elbo - result.train_elbo) < monte_carlo(result.elbo_se) + 0.02
    evidence = approx.evaluate(20_000, random_seed=3)
    assert result.train_elbo < evidence.log_marginal_is
    assert evidence.log_marginal_is - result.train_elbo < 3.0


def test_the_elbo_is_below_that_of_the_best_gaussian():
    model = logistic_model()
    with model:
        best = pm.fit(method=px.ViperVI(), progressbar=False).result.train_elbo
    learned = fitted(model, alpha="elbo").result.train_elbo
    fixed = [fitted(model, alpha=a).result.train_elbo for a in (0.01, 0.1, 0.5)]
    assert max(fixed) <= learned + 1e-6 and learned < best
    assert best - learned < 2.0


@pytest.mark.parametrize("build", [softmax_model, reference_model])
def test_the_shift_is_integrated_out(build):
    """Against a model of explicit shifts with a nearly flat prior, by dense linear algebra."""
    approx = fitted(build(), invariant=build is softmax_model)  # the reference needs no flag
    D = len(approx.mean.eval())
    blocks = [np.kron(X, np.eye(K))]  # beta in C order: row (i, k) has X_i at (·, k)
    if build is softmax_model:
        blocks.append(np.kron(np.ones((N, 1)), np.eye(K)))
        precision = 0.5
    else:
        blocks = [np.kron(X, np.eye(K)[:, 1:])]
        precision = 1.0
    design = np.hstack([*blocks, np.kron(np.eye(N), np.ones((K, 1)))])
    m, v = (a.ravel() for a in px.matched_targets(Y3, K))
    prior = np.diag(np.r_[np.full(D, precision), np.full(N, 1e-9)])
    covariance = np.linalg.inv(prior + (design / v[:, None]).T @ design)
    mean = covariance @ (design.T @ (m / v))
    np.testing.assert_allclose(approx.mean.eval(), mean[:D], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(approx.cov.eval(), covariance[:D, :D], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["variational", "moment-ori"])
def test_invariance_brings_the_posterior_closer(method):
    kwargs = {"method": method, "alpha": "elbo", "n_draws": 256}
    with softmax_model():
        elbo = [
            pm.fit(method=MatchingVI(invariant=i, **kwargs), progressbar=False).result.train_elbo
            for i in (True, False)
        ]
    assert elbo[0] > elbo[1] + 2


def test_binomial_counts_and_offsets():
    rng = np.random.default_rng(8)
    trials = rng.integers(1, 30, size=N)
    offset = rng.normal(size=N)
    y = rng.binomial(trials, 1 / (1 + np.exp(-(X @ W[:, 0] + offset))))
    with pm.Model() as model:
        beta = pm.MvNormal("beta", np.full(P, 0.3), np.eye(P) + 0.5)
        pm.Binomial("y", n=trials, logit_p=X @ beta + offset, observed=y)
    approx = fitted(model, "laplace", alpha=0.2)
    a, b = 0.2 + y, 0.2 + trials - y
    m, v = np.log(a / b), 1 / a + 1 / b
    prior = np.linalg.inv(np.eye(P) + 0.5)
    covariance = np.linalg.inv(prior + (X / v[:, None]).T @ X)
    mean = covariance @ (prior @ np.full(P, 0.3) + X.T @ ((m - offset) / v))
    np.testing.assert_allclose(approx.mean.eval(), mean, rtol=1e-9)
    np.testing.assert_allclose(approx.cov.eval(), covariance, rtol=1e-9)
    result = approx.result
    assert abs(result.elbo - result.train_elbo) < monte_carlo(result.elbo_se)


def test_two_likelihoods_share_their_weights():
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=P)
        pm.Bernoulli("first", logit_p=X[:40] @ beta, observed=Y2[:40])
        pm.Bernoulli("second", p=pm.math.sigmoid(X[40:] @ beta), observed=Y2[40:])
    with pm.Model() as joint:
        beta = pm.Normal("beta", shape=P)
        pm.Bernoulli("y", logit_p=X @ beta, observed=Y2)
    np.testing.assert_allclose(fitted(model).mean.eval(), fitted(joint).mean.eval(), rtol=EXACT)


def test_samples_come_with_log_densities():
    approx = fitted(logistic_model())
    idata = approx.sample(200, random_seed=2)
    assert idata["posterior"]["beta"].shape == (1, 200, P)
    assert {"lp", "lq"} <= set(idata["sample_stats"])
    again = approx.sample(200, random_seed=2)
    np.testing.assert_array_equal(again["posterior"]["beta"], idata["posterior"]["beta"])


def test_it_starts_other_families():
    model = logistic_model()
    start = matched_start(model)
    assert start["beta"].shape == (P,) and start["intercept"].shape == ()
    expected = fitted(model, alpha="elbo").mean.eval()
    np.testing.assert_allclose(np.append(start["beta"], start["intercept"]), expected, rtol=EXACT)
    with model:
        started = pm.fit(
            method=px.LaplaceVI(start=start, search=px.ModeSearch(starts=1)), progressbar=False
        )
        plain = pm.fit(method=px.LaplaceVI(search=px.ModeSearch(starts=1)), progressbar=False)
        viper = px.ViperVI(start=start)
    np.testing.assert_allclose(started.mean.eval(), plain.mean.eval(), rtol=1e-5)
    assert started.result.iterations < plain.result.iterations
    np.testing.assert_allclose(viper.approx.group.start, expected, rtol=EXACT)


def test_zero_iterations_only_initialise():
    with logistic_model():
        approx = pm.fit(0, method=MatchingVI(), progressbar=False)
    assert approx.result.stop_reason == "n = 0: initialised only"


def gaussian_likelihood():
    beta = pm.Normal("beta", shape=P)
    pm.Normal("y", X @ beta, 1, observed=Y2)


def hierarchical():
    scale = pm.HalfNormal("scale")
    beta = pm.Normal("beta", 0, scale, shape=P)
    pm.Bernoulli("y", logit_p=X @ beta, observed=Y2)


def wrong_prior():
    beta = pm.Laplace("beta", 0, 1, shape=P)
    pm.Categorical("y", logit_p=pm.math.stack([X @ beta, X @ beta, 2 * X @ beta], 1), observed=Y3)


def mixed_numbers_of_classes():
    beta = pm.Normal("beta", shape=(P, K))
    pm.Categorical("y", logit_p=X @ beta, observed=Y3)
    pm.Bernoulli("z", logit_p=X @ beta[:, 0], observed=Y2)


def with_potential():
    beta = pm.Normal("beta", shape=(P, K))
    pm.Categorical("y", logit_p=X @ beta, observed=Y3)
    pm.Potential("penalty", -beta.sum())


def no_softmax():
    beta = pm.Normal("beta", shape=P)
    q = pm.math.sigmoid(X @ beta) / 3
    pm.Categorical("y", p=pm.math.stack([q, q, 1 - 2 * q], axis=1), observed=Y3)


def minibatch():
    x, y = pm.Minibatch(X, Y2.astype("int32"), batch_size=10)
    beta = pm.Normal("beta", shape=P)
    pm.Bernoulli("y", logit_p=x @ beta, observed=y, total_size=N)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (gaussian_likelihood, "this family covers"),
        (hierarchical, "scale: its support is not the real line.*use ViperVI"),
        (wrong_prior, r"the prior of \['beta'\] is not Gaussian"),
        (mixed_numbers_of_classes, "different numbers of classes"),
        (with_potential, r"Potentials \['penalty'\]"),
        (no_softmax, "not the softmax of a graph"),
    ],
)
def test_models_outside_are_refused_by_name(build, message):
    with pm.Model(), pytest.raises(AffinityError, match=message):
        build()
        pm.fit(method=MatchingVI(), progressbar=False)


def test_minibatches_are_refused():
    with (
        pm.Model(),
        pytest.raises(ValueError, match=r"rows of \['y'\] .* needs all data"),
    ):
        minibatch()
        MatchingVI()


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (("em",), {}, "method must be one of"),
        (("moment", 0.0), {}, "alpha must be a positive number or 'elbo', got 0.0"),
        (("moment", np.nan), {}, "alpha must be"),
        (("moment", "evidence"), {}, "alpha must be"),
        (("moment", [0.1, 0.2]), {}, "alpha must be"),
        ((), {"n_draws": 100}, "power of two"),
    ],
)
def test_bad_arguments_are_refused(arguments, settings, message):
    with logistic_model(), pytest.raises(ValueError, match=message):
        MatchingVI(*arguments, **settings)


@pytest.mark.parametrize("label", [-1, 3, 0.5])
def test_labels_outside_the_classes_are_refused(label):
    labels = Y3.astype(float)
    labels[7] = label
    with pm.Model(), pytest.raises(ValueError, match=r"0 and 2, got .* at index 7"):
        data = pm.Data("labels", labels)
        pm.Categorical("y", logit_p=X @ pm.Normal("beta", shape=(P, K)), observed=data)
        pm.fit(method=MatchingVI(), progressbar=False)


def test_predictors_that_are_not_finite_are_refused():
    x = X.copy()
    x[3, 1] = np.nan
    with logistic_model(x=x), pytest.raises(ValueError, match="first at row 3"):
        pm.fit(method=MatchingVI(), progressbar=False)
