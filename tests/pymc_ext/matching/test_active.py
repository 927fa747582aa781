"""Active learning: the pool's moments stay exact, and asking helps."""

import numpy as np
import pytest
from scipy.special import softmax

from pymc_ext.matching import MatchingState, Pool, active_learning
from pymc_ext.matching.predict import normal_draws

RNG = np.random.default_rng(11)
X = RNG.normal(size=(300, 4))
W = RNG.normal(size=(4, 3)) * 2
Y3 = np.argmax(X @ W + RNG.gumbel(size=(300, 3)), axis=1)
Y2 = (X @ W[:, 0] + RNG.logistic(size=300) > 0).astype(int)


def started(y, rows=10):
    link = "logit" if y.max() == 1 else "softmax"
    state = MatchingState(np.unique(y), 4, link=link)
    state.update(X[:rows], y[:rows])
    return state


@pytest.mark.parametrize("y", [Y2, Y3])
@pytest.mark.parametrize("criterion", ["entropy", "bald", "random"])
def test_pool_moments_equal_a_refit(y, criterion):
    state, pool_x, pool_y = started(y), X[10:], y[10:]
    pool = Pool(state, pool_x)
    rng = np.random.default_rng(0)
    chosen = []
    for _ in range(60):
        chosen.append(pool.select(criterion, rng))
        pool.label(chosen[-1], pool_y[chosen[-1]])
    assert len(set(chosen)) == 60
    refit = started(y)
    refit.update(pool_x[chosen], pool_y[chosen])
    mean, variance = refit.predict_latents(pool_x)
    np.testing.assert_allclose(pool.mean, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(pool.variance, variance, rtol=1e-8)
    np.testing.assert_allclose(state.posterior.mean, refit.posterior.mean, rtol=1e-8, atol=1e-9)


def test_scores_by_definition():
    pool = Pool(started(Y3), X[10:15])
    f = pool.mean + np.sqrt(pool.variance) * normal_draws(512, 3)[:, None]
    p = softmax(f, axis=-1)
    total = -(p.mean(axis=0) * np.log(p.mean(axis=0))).sum(axis=-1)
    within = -(p * np.log(p)).sum(axis=-1).mean(axis=0)
    np.testing.assert_allclose(pool.scores("entropy"), total, rtol=1e-9)
    np.testing.assert_allclose(pool.scores("bald"), total - within, rtol=1e-9)
    assert np.all(pool.scores("bald") > 0)
    pool.label(2, 1)
    assert pool.scores("entropy")[2] == pool.scores("random")[2] == -np.inf


def test_certain_rows_score_zero():
    state = MatchingState([0, 1], 1, link="logit", fit_intercept=False, prior_precision=1e-6)
    state.update([[1.0], [-1.0]], [1, 0])
    pool = Pool(state, [[1e5], [0.0]])
    entropy = pool.scores("entropy")
    assert np.isfinite(entropy).all() and entropy[1] == pytest.approx(np.log(2))


def heldout_accuracy(criterion, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1000, 8))
    w = 4 * rng.normal(size=8) / np.sqrt(8)
    y = (x @ w + 0.3 * rng.logistic(size=1000) > 0).astype(int)
    state = MatchingState([0, 1], 8, link="logit")
    state.update(x[:10], y[:10])

    def accuracy(current):
        return np.mean((current.predict_latents(x[500:])[0][:, 0] > 0) == y[500:])

    run = active_learning(state, x[10:500], y[10:500], 40, criterion, seed, accuracy)
    assert len(run.evaluations) == 41 and len(run.chosen) == 40 and run.seconds > 0
    return run.evaluations[-1]


@pytest.mark.parametrize("criterion", ["entropy", "bald"])
def test_asking_beats_chance(criterion):
    """Test accuracy after 40 labels, paired over 12 data sets."""
    gain = [heldout_accuracy(criterion, s) - heldout_accuracy("random", s) for s in range(12)]
    assert np.mean(gain) > 2 * np.std(gain, ddof=1) / np.sqrt(12)


def test_runs_repeat_with_their_seed():
    runs = [active_learning(started(Y3), X[10:], Y3[10:], 20, "random", seed=5) for _ in range(2)]
    assert runs[0].chosen == runs[1].chosen
    other = active_learning(started(Y3), X[10:], Y3[10:], 20, "random", seed=6)
    assert other.chosen != runs[0].chosen


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: active_learning(started(Y3), X, Y3, 0), r"steps must be 1\.\.300"),
        (lambda: active_learning(started(Y3), X, Y3, 301), r"steps must be 1\.\.300"),
        (lambda: active_learning(started(Y3), X, Y3[:5], 3), "y must hold 300 labels"),
        (lambda: active_learning(started(Y3), X, Y3 + 1, 3), r"labels \[3\]"),
        (lambda: active_learning(started(Y3), X, Y3, 3, "margin"), "criterion must be one of"),
        (lambda: active_learning(started(Y3), X[:, :2], Y3, 3), "4 features"),
        (lambda: Pool(started(Y3), X * np.nan), "X must be finite"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_row_is_labelled_once_and_the_pool_ends():
    pool = Pool(started(Y2), X[:1])
    with pytest.raises(ValueError, match="not in classes"):
        pool.label(0, 9)
    pool.label(0, 1)
    with pytest.raises(ValueError, match="row 0 has been labelled already"):
        pool.label(0, 1)
    with pytest.raises(ValueError, match="used up"):
        pool.select("entropy", np.random.default_rng(0))
