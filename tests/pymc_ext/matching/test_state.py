"""The streaming state: exact Gaussian algebra, any order, shards, files."""

import os
import pickle
import re

import joblib
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pymc_ext.matching import MatchingState, matched_targets
from pymc_ext.maths import array_file
from tests.needed import needs
from tests.tolerances import EXACT, monte_carlo

RNG = np.random.default_rng(7)
N, P, K = 150, 6, 4
X = RNG.normal(size=(N, P)) * [1, 1, 3, 0.2, 1, 1]
Y = RNG.integers(K, size=N)
PRIOR = np.linspace(0.5, 2.0, P + 1)


def new_state(**settings):
    return MatchingState(range(K), P, **{"prior_precision": PRIOR, **settings})


def bayesian_linear_regression(x, m, v):
    """Posterior mean and covariance of w under N(m_n; w·x_n, v_n), straight from the definition."""
    x = np.column_stack([x, np.ones(len(x))])
    covariance = np.linalg.inv(np.diag(PRIOR) + (x / v[:, None]).T @ x)
    return covariance @ (x / v[:, None]).T @ m, covariance


@pytest.mark.parametrize("method", ["laplace", "variational", "moment", "moment-ori"])
def test_posterior_is_bayesian_linear_regression_on_the_targets(method):
    state = new_state(method=method)
    state.update(X, Y)
    m, v = matched_targets(Y, K, 0.1, method)
    for k in range(K):
        mean, covariance = bayesian_linear_regression(X, m[:, k], v[:, k])
        np.testing.assert_allclose(state.posterior.mean[k], mean, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(state.posterior.covariance[k], covariance, rtol=1e-9)
    x = np.column_stack([X[:5], np.ones(5)])
    mean, variance = state.predict_latents(X[:5])
    np.testing.assert_allclose(mean, x @ state.posterior.mean.T, rtol=EXACT)
    expected = np.einsum("np,kpq,nq->nk", x, state.posterior.covariance, x)
    np.testing.assert_allclose(variance, expected, rtol=1e-9)


def test_logit_link_has_one_latent():
    y = Y % 2
    state = MatchingState([0, 1], P, link="logit", prior_precision=PRIOR)
    state.update(X, y)
    m, v = matched_targets(y, 2, 0.1, link="logit")
    mean, covariance = bayesian_linear_regression(X, m[:, 0], v[:, 0])
    np.testing.assert_allclose(state.posterior.mean, mean[None], rtol=1e-9)
    np.testing.assert_allclose(state.posterior.covariance, covariance[None], rtol=1e-9)


def assert_same_posterior(a, b, rtol=1e-8):
    np.testing.assert_allclose(a.posterior.mean, b.posterior.mean, rtol=rtol, atol=1e-10)
    np.testing.assert_allclose(
        a.posterior.covariance, b.posterior.covariance, rtol=rtol, atol=1e-10
    )
    for got, expected in zip(a.predict_latents(X), b.predict_latents(X), strict=True):
        np.testing.assert_allclose(got, expected, rtol=rtol)


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_order_and_grouping_do_not_matter(batch):
    whole = new_state()
    whole.update(X, Y)
    streamed = new_state()
    order = RNG.permutation(N)
    for i in range(0, N, batch):
        rows = order[i : i + batch]
        streamed.update(X[rows], Y[rows])
        streamed.predict_latents(X[:2])  # makes the posterior, so the next rows update it
    assert_same_posterior(streamed, whole)


def test_pending_rows_are_exact_over_many_factor_renewals():
    rng = np.random.default_rng(1)
    p = 80  # 20 rows wait before the factor is renewed
    x, y = rng.normal(size=(330, p)), rng.integers(3, size=330)
    streamed, whole = (MatchingState(range(3), p, prior_precision=1e-3) for _ in range(2))
    for i in range(len(x)):
        streamed.update(x[i : i + 1], y[i : i + 1], [0.5 + i % 3])
        streamed.predict_latents(x[:1])
    whole.update(x, y, 0.5 + np.arange(len(x)) % 3)
    assert streamed.posterior._n_pending > 0
    for got, expected in zip(streamed.predict_latents(x), whole.predict_latents(x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8)
    np.testing.assert_allclose(streamed.posterior.mean, whole.posterior.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        streamed.posterior.covariance, whole.posterior.covariance, rtol=1e-8, atol=1e-10
    )


def test_weights_count_as_repetitions_and_zero_removes():
    weight = np.r_[np.zeros(20), np.full(20, 3.0), np.ones(N - 40)]
    weighted, repeated = new_state(), new_state()
    weighted.update(X, Y, weight)
    rows = np.repeat(np.arange(N), weight.astype(int))
    repeated.update(X[rows], Y[rows])
    assert weighted.n_seen == repeated.n_seen == len(rows)
    assert_same_posterior(weighted, repeated)


def fill_shard(rows):
    state = new_state()
    state.update(X[rows], Y[rows])
    return state


def test_shards_filled_in_parallel_merge_to_the_whole():
    shards = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(fill_shard)(rows) for rows in np.array_split(np.arange(N), 5)
    )
    merged = shards[0].merge(*shards[1:])
    assert_same_posterior(merged, fill_shard(np.arange(N)))
    assert shards[0].n_seen == 30  # unchanged


def test_shards_filled_under_dask_merge_to_the_whole():
    dask = needs("dask")
    tasks = [dask.delayed(fill_shard)(rows) for rows in np.array_split(np.arange(N), 3)]
    shards = [pickle.loads(pickle.dumps(s)) for s in dask.compute(*tasks, scheduler="threads")]
    assert_same_posterior(shards[0].merge(*shards[1:]), fill_shard(np.arange(N)))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"prior_precision": 2.0}, "prior_precision"),
        ({"alpha": 0.2}, "alpha"),
        ({"method": "moment"}, "method"),
    ],
)
def test_states_of_different_settings_do_not_merge(settings, name):
    state, other = new_state(), new_state(**settings)
    with pytest.raises(ValueError, match=f"states of different {name} cannot be merged"):
        state.merge(other)


def test_states_of_different_data_do_not_merge():
    with pytest.raises(ValueError, match="different n_features"):
        new_state(prior_precision=1.0).merge(MatchingState(range(K), P + 1))
    with pytest.raises(ValueError, match="different classes"):
        new_state(prior_precision=1.0).merge(MatchingState(range(1, K + 1), P))


def test_replace_equals_a_new_start():
    state = fill_shard(np.arange(N))
    replaced = state.replace(alpha=0.3, method="laplace", prior_precision=0.1)
    fresh = new_state(alpha=0.3, method="laplace", prior_precision=0.1)
    fresh.update(X, Y)
    assert_same_posterior(replaced, fresh)
    with pytest.raises(ValueError, match="belong to the data seen"):
        state.replace(fit_intercept=False)


@pytest.mark.parametrize("labels", [["ant", "bee", "cat", "dog"], [1, 2, 3, 9]])
def test_save_and_resume(tmp_path, labels):
    labels = np.asarray(labels)
    settings = {"prior_precision": PRIOR, "alpha": [0.1, 0.2, 0.1, 0.1], "method": "moment-ori"}
    whole, half = (MatchingState(labels, P, **settings) for _ in range(2))
    whole.update(X, labels[Y])
    half.update(X[:70], labels[Y[:70]])
    half.save(tmp_path / "state.npz")
    resumed = MatchingState.load(tmp_path / "state.npz")
    resumed.update(X[70:], labels[Y[70:]])
    assert_same_posterior(resumed, whole)
    assert os.listdir(tmp_path) == ["state.npz"]


def test_saving_into_a_missing_folder_names_it(tmp_path):
    path = tmp_path / "missing" / "state.npz"
    with pytest.raises(
        FileNotFoundError, match=re.escape(f"cannot write {path}: create its folder")
    ):
        fill_shard(np.arange(N)).save(path)


@pytest.mark.parametrize("fault", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_state(tmp_path, monkeypatch, fault, error):
    path = tmp_path / "state.npz"
    old = fill_shard(np.arange(50))
    old.save(path)
    before = path.read_bytes()

    def fail(*_):
        raise error

    monkeypatch.setattr(array_file.os, fault, fail)
    with pytest.raises(type(error)):
        fill_shard(np.arange(N)).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["state.npz"]
    assert MatchingState.load(path).n_seen == 50


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "state.npz"
    fill_shard(np.arange(50)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a readable matching state"):
        MatchingState.load(path)
    np.savez(path, first=np.zeros(3))
    with pytest.raises(ValueError, match="not a readable matching state"):
        MatchingState.load(path)
    path.write_text("nothing")
    with pytest.raises(ValueError, match="state: it is no complete"):
        MatchingState.load(path)
    with pytest.raises(FileNotFoundError):
        MatchingState.load(tmp_path / "absent.npz")


@pytest.mark.parametrize(
    ("x", "y", "weight", "message"),
    [
        (np.ones((2, P)), [0, 7], None, r"labels \[7\] that are not in classes"),
        (np.ones((2, P + 1)), [0, 1], None, rf"{P} features\), got \(2, {P + 1}\)"),
        (np.ones((0, P)), [], None, "at least 1 row"),
        (np.full((1, P), np.nan), [0], None, "X must be finite"),
        (np.full((1, P), 1e200), [0], None, "too large to be squared"),
        (np.ones((2, P)), [0], None, "as many rows, got 2 and 1"),
        (np.ones((2, P)), [0, 1], [1, -1], "finite numbers >= 0"),
        (np.ones((2, P)), [0, 1], [1, np.nan], "finite numbers >= 0"),
        (np.ones((2, P)), [[0, 1]], None, "y must be one-dimensional"),
    ],
)
def test_bad_batches_are_refused_and_change_nothing(x, y, weight, message):
    state, expected = fill_shard(np.arange(50)), fill_shard(np.arange(50))
    state.predict_latents(X[:1])
    with pytest.raises(ValueError, match=message):
        state.update(x, y, weight)
    assert_same_posterior(state, expected)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (([0, 1], 0), {}, "n_features must be >= 1, got 0"),
        (([0], 2), {}, "classes must be at least 2 labels"),
        (([1, 0], 2), {}, "classes must be sorted and distinct"),
        (([0, 1], 2), {"prior_precision": 0}, "prior_precision must be positive"),
        (([0, 1], 2), {"prior_precision": [1.0, 2.0]}, r"of shape \(3,\), got \(2,\)"),
        (([0, 1], 2), {"alpha": 0}, "alpha must be positive"),
        (([0, 1, 2], 2), {"link": "logit"}, "needs 2 classes"),
    ],
)
def test_bad_settings_are_refused(arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        MatchingState(*arguments, **settings)


def test_log_density_sample_and_divergence():
    state = fill_shard(np.arange(40))
    state.posterior  # noqa: B018 - so that the next rows wait in it
    state.update(X[40:50], Y[40:50])
    posterior = state.posterior
    assert posterior._n_pending == 10
    w = posterior.sample(20_000, np.random.default_rng(0))
    q = [
        multivariate_normal(m, c) for m, c in zip(posterior.mean, posterior.covariance, strict=True)
    ]
    expected = sum(qk.logpdf(w[:, k]) for k, qk in enumerate(q))
    np.testing.assert_allclose(posterior.log_density(w), expected, rtol=1e-9)
    standardised = (w - posterior.mean) / np.sqrt(
        np.diagonal(posterior.covariance, axis1=1, axis2=2)
    )
    assert np.abs(standardised.mean(axis=0)).max() < monte_carlo(1 / np.sqrt(len(w)))
    cross = np.einsum("skp,skq->kpq", w - posterior.mean, w - posterior.mean) / len(w)
    np.testing.assert_allclose(cross, posterior.covariance, atol=monte_carlo(0.02))
    log_prior = 0.5 * (np.log(PRIOR / (2 * np.pi)) - PRIOR * w**2).sum(axis=(1, 2))
    ratio = expected - log_prior
    error = abs(ratio.mean() - posterior.divergence_from(PRIOR))
    assert error < monte_carlo(ratio.std() / np.sqrt(len(w)))
