"""MatchedClassifier: scikit-learn's interface, the choice of α, export, bad input."""

import pickle

import arviz as az
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_expit, logsumexp

from tests.needed import needs

sklearn = needs("sklearn")

from sklearn.datasets import load_iris, load_wine, make_classification  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import log_loss  # noqa: E402
from sklearn.preprocessing import scale  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import pymc_ext as px  # noqa: E402
from pymc_ext.matching.alpha import choose_alpha, elbo, train_log_likelihood  # noqa: E402
from tests.tolerances import EXACT, monte_carlo  # noqa: E402

WINE = load_wine(return_X_y=True)
IRIS = load_iris(return_X_y=True)
BINARY = make_classification(200, 5, n_informative=3, n_redundant=0, random_state=3)


def not_wanted(estimator):
    return {"check_array_api_input": "needs SCIPY_ARRAY_API, an experiment of scikit-learn"}


@parametrize_with_checks(
    [
        px.MatchedClassifier(),
        px.MatchedClassifier(link="softmax", method="moment-ori"),
        px.MatchedClassifier(fit_intercept=False, method="laplace"),
    ],
    expected_failed_checks=not_wanted,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("data", [(scale(WINE[0]), WINE[1]), BINARY])
def test_probabilities_are_close_to_exact_logistic_regression(data):
    X, y = data
    exact = LogisticRegression(C=1.0, max_iter=1000).fit(X, y)
    ours = px.MatchedClassifier(alpha="likelihood", prior_precision=1.0).fit(X, y)
    assert ours.score(X, y) >= exact.score(X, y) - 0.02
    assert log_loss(y, ours.predict_proba(X)) < log_loss(y, exact.predict_proba(X)) + 0.08


def test_partial_fit_equals_fit_and_labels_may_be_strings():
    X, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])
    whole = px.MatchedClassifier().fit(X, names[y])
    streamed = px.MatchedClassifier()
    for rows in np.array_split(np.random.default_rng(0).permutation(150), 7):
        streamed.partial_fit(X[rows], names[y[rows]], classes=names)
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-8)
    np.testing.assert_allclose(streamed.predict_proba(X), whole.predict_proba(X), rtol=1e-8)
    assert set(whole.predict(X)) == set(names)


def test_shards_merge_and_files_resume(tmp_path):
    X, y = BINARY
    whole = px.MatchedClassifier().fit(X, y)
    a, b = (
        px.MatchedClassifier().partial_fit(X[s], y[s], classes=[0, 1])
        for s in (slice(80), slice(80, None))
    )
    np.testing.assert_allclose(a.merge(b).predict_proba(X), whole.predict_proba(X), rtol=1e-8)
    a.save(tmp_path / "shard.npz")
    resumed = px.MatchedClassifier.load(tmp_path / "shard.npz").partial_fit(X[80:], y[80:])
    np.testing.assert_allclose(resumed.predict_proba(X), whole.predict_proba(X), rtol=1e-8)
    copy = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(copy.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(ValueError, match="different prior_precision"):
        a.merge(px.MatchedClassifier(prior_precision=3.0).fit(X, y))
    with pytest.raises(ValueError, match="given twice"):
        a.merge(a)
    narrow = px.MatchedClassifier.load(tmp_path / "shard.npz").fit(X[:, :2], y)
    assert narrow.coef_.shape == (1, 2) and narrow.prior_precision == 1.0


def test_elbo_is_below_the_evidence_and_equals_its_monte_carlo_mean():
    """One weight, no intercept: the evidence is a one-dimensional integral."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(12, 1))
    y = (rng.random(12) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    ours = px.MatchedClassifier(alpha="elbo", fit_intercept=False).fit(X, y)

    def joint(w):
        signs = 2 * y - 1
        return np.exp(-0.5 * w**2 + log_expit(signs * w * X[:, 0]).sum()) / np.sqrt(2 * np.pi)

    log_evidence = np.log(quad(joint, -12, 12)[0])
    bound = ours.elbo(X, y)
    assert log_evidence - 0.1 < bound < log_evidence
    stats = ours.to_inference_data(4000, 1, X, y)["sample_stats"]
    ratio = (stats["lp"] - stats["lq"]).values.ravel()
    assert abs(ratio.mean() - bound) < monte_carlo(ratio.std() / np.sqrt(4000))
    evidence = logsumexp(ratio) - np.log(4000)
    weight = np.exp(ratio - log_evidence)
    assert abs(evidence - log_evidence) < monte_carlo(weight.std() / np.sqrt(4000))


@pytest.mark.parametrize("classes", [2, 3])
def test_weighted_draws_know_their_weights(classes):
    X, y = IRIS
    X, y = X[y < classes], y[y < classes]
    ours = px.MatchedClassifier(n_draws=4096).fit(X, y, sample_weight=np.full(len(y), 3))
    weighted = ours.to_inference_data(50, 1, X, y, np.full(len(y), 3))["sample_stats"]
    repeated = ours.to_inference_data(50, 1, np.repeat(X, 3, 0), np.repeat(y, 3))["sample_stats"]
    np.testing.assert_allclose(weighted["lp"], repeated["lp"], rtol=EXACT)


def test_softmax_elbo_equals_its_monte_carlo_mean():
    X, y = IRIS
    ours = px.MatchedClassifier(n_draws=4096).fit(X, y)
    stats = ours.to_inference_data(2000, 1, X, y)["sample_stats"]
    ratio = (stats["lp"] - stats["lq"]).values.ravel()
    error = abs(ratio.mean() - ours.elbo(X, y))
    assert error < monte_carlo(ratio.std() / np.sqrt(2000)) + 0.05


@pytest.mark.parametrize(
    ("criterion", "function"), [("elbo", elbo), ("likelihood", train_log_likelihood)]
)
@pytest.mark.parametrize("data", [IRIS, BINARY])
def test_alpha_is_the_maximiser(criterion, function, data):
    X, y = data
    model = px.MatchedClassifier(alpha=criterion, n_draws=128).fit(X, y)
    choice = model.alpha_choice_
    assert choice.criterion == criterion and model.alpha_ == choice.alpha
    assert choice.value == max(value for _, value in choice.tried)
    for alpha in np.geomspace(2e-3, 0.9, 12):
        other = function(model.state_.replace(alpha=alpha), X, y, n_draws=128)
        assert other <= choice.value + 0.02 * abs(choice.value) * 1e-2 + 1e-6
    assert not choice.at_bound


def test_partial_fit_goes_on_with_a_chosen_alpha():
    X, y = BINARY
    model = px.MatchedClassifier(alpha="elbo").fit(X[:100], y[:100])
    alpha = model.alpha_
    model.partial_fit(X[100:], y[100:])
    expected = px.MatchedClassifier(alpha=alpha).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-8)


def test_the_end_of_the_search_interval_is_reported(caplog):
    X, y = BINARY
    state = px.MatchedClassifier().fit(X, y).state_
    choice = choose_alpha(state, X, y, "likelihood", bounds=(0.8, 0.9))
    assert choice.at_bound
    assert "end of its search interval" in caplog.text
    with pytest.raises(ValueError, match="criterion must be one of likelihood, elbo"):
        choose_alpha(state, X, y, "evidence")


def test_inference_data_has_names_and_log_densities():
    X, y = IRIS
    model = px.MatchedClassifier().fit(X, y)
    idata = model.to_inference_data(3000, random_seed=2)
    coef = idata["posterior"]["coef"]
    assert coef.dims == ("chain", "draw", "latent", "feature")
    sd = np.sqrt(np.diagonal(model.state_.posterior.covariance, axis1=1, axis2=2))
    error = np.abs(coef.mean(("chain", "draw")) - model.coef_) / sd[:, :-1]
    assert float(error.max()) < monte_carlo(1 / np.sqrt(3000))
    again = model.to_inference_data(3000, random_seed=2)
    np.testing.assert_array_equal(again["sample_stats"]["lq"], idata["sample_stats"]["lq"])
    assert "lp" not in idata["sample_stats"]
    assert az.summary(idata, var_names=["intercept"]).shape[0] == 3


def test_decision_function_orders_like_the_probabilities():
    X, y = BINARY
    model = px.MatchedClassifier().fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(
        model.decision_function(X), np.log(p[:, 1]) - np.log(p[:, 0]), rtol=EXACT, atol=1e-12
    )
    np.testing.assert_array_equal(model.predict(X), (p[:, 1] > 0.5).astype(int))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: px.MatchedClassifier(alpha=0).fit(X, y), "alpha must be positive"),
        (lambda X, y: px.MatchedClassifier(alpha="evidence").fit(X, y), "one of likelihood, elbo"),
        (lambda X, y: px.MatchedClassifier(method="mode").fit(X, y), "method must be one of"),
        (lambda X, y: px.MatchedClassifier(link="probit").fit(X, y), "link must be one of auto"),
        (lambda X, y: px.MatchedClassifier(prior_precision=-1).fit(X, y), "prior_precision must"),
        (lambda X, y: px.MatchedClassifier(n_draws=3).fit(X, y).predict(X), "power of two"),
        (lambda X, y: px.MatchedClassifier().fit(X, np.zeros(len(y))), "at least 2 classes, got 1"),
        (lambda X, y: px.MatchedClassifier().fit(X * np.nan, y), "NaN"),
        (lambda X, y: px.MatchedClassifier().fit(X[:0], y[:0]), "0 sample"),
        (lambda X, y: px.MatchedClassifier().partial_fit(X, y), "classes must be given"),
        (
            lambda X, y: px.MatchedClassifier(alpha="elbo").partial_fit(X, y, classes=[0, 1, 2]),
            "partial_fit needs a number for alpha",
        ),
        (
            lambda X, y: px.MatchedClassifier().partial_fit(X, y, classes=[0, 1]),
            r"labels \[2\] that are not in classes",
        ),
        (lambda X, y: px.MatchedClassifier().fit(X, y).partial_fit(X, y + 1), r"labels \[3\]"),
        (
            lambda X, y: px.MatchedClassifier().fit(X, y).partial_fit(X, y, classes=[0, 1, 2, 3]),
            "must be those of the first call",
        ),
        (lambda X, y: px.MatchedClassifier().fit(X, y).partial_fit(X[:, :3], y), "3 features"),
        (lambda X, y: px.MatchedClassifier().fit(X, y).partial_fit(X[:0], y[:0]), "0 sample"),
        (lambda X, y: px.MatchedClassifier().fit(X, y).to_inference_data(0), "draws must be"),
        (
            lambda X, y: px.MatchedClassifier().fit(X, y).to_inference_data(5, X=X),
            "both X and y, or neither",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(*IRIS)


def test_shards_must_be_fitted_and_of_one_prior():
    X, y = IRIS
    model = px.MatchedClassifier().fit(X, y)
    with pytest.raises(NotFittedError):
        model.merge(px.MatchedClassifier())
    with pytest.raises(ValueError, match="states of different prior_precision cannot be merged"):
        model.merge(px.MatchedClassifier(prior_precision=2.0).fit(X, y))


def test_a_failed_partial_fit_leaves_the_posterior_as_it_was():
    X, y = IRIS
    model = px.MatchedClassifier().fit(X, y)
    before = model.predict_proba(X)
    bad = X.copy()
    bad[-1, 0] = np.inf
    for batch in [(bad, y), (X, y + 1), (X[:, :2], y)]:
        with pytest.raises(ValueError):
            model.partial_fit(*batch)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_bad_settings_are_refused_before_any_data_count():
    with pytest.raises(ValueError, match="n_draws must be a power of two >= 2, got 100"):
        px.MatchedClassifier(n_draws=100).fit(*BINARY)


def test_lazy_name_is_listed():
    assert "MatchedClassifier" in dir(px)
