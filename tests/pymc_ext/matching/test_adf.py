"""Assumed-density filtering against quadrature of one tilted distribution."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from pymc_ext.matching import AssumedDensityFilter
from tests.tolerances import EXACT

X = np.array([[0.8, -0.3]])


def tilted_moments(likelihood, variance, dimension, nodes):
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[z] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    weight = w
    for _ in range(dimension - 1):
        weight = np.multiply.outer(weight, w)
    f = np.sqrt(variance) * grid
    weight = weight.ravel() * likelihood(f)
    weight /= weight.sum()
    mean = weight @ f
    return mean, weight @ (f - mean) ** 2


@pytest.mark.parametrize("label", [0, 1])
def test_one_binary_update_is_the_projection(label):
    adf = AssumedDensityFilter([0, 1], 2, prior_precision=0.5)
    _, prior_variance = adf.predict_latents(X)
    adf.update(X, [label])
    sign = 2 * label - 1
    expected = tilted_moments(lambda f: expit(sign * f[:, 0]), prior_variance[0, 0], 1, 100)
    mean, variance = adf.predict_latents(X)
    np.testing.assert_allclose(mean[0], expected[0], rtol=EXACT)
    np.testing.assert_allclose(variance[0], expected[1], rtol=EXACT)
    # only the direction Σx has moved
    np.testing.assert_allclose(adf.mean[0] / np.r_[X[0], 1], adf.mean[0, 2], rtol=EXACT)


@pytest.mark.parametrize("precision", [0.5, 50.0])
def test_one_softmax_update_is_the_projection(precision):
    """Below and above v = 1, where the two estimators of the moments take turns."""
    adf = AssumedDensityFilter(range(3), 2, prior_precision=precision, n_draws=2**14)
    _, v = adf.predict_latents(X)
    adf.update(X, [2])
    expected = tilted_moments(lambda f: softmax(f, axis=1)[:, 2], v[0, 0], 3, 40)
    mean, variance = adf.predict_latents(X)
    np.testing.assert_allclose(mean[0], expected[0], atol=2e-3 * np.sqrt(v[0, 0]))
    np.testing.assert_allclose(variance[0], expected[1], rtol=5e-3)


def test_filtering_learns_and_keeps_covariances_positive():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    w = rng.normal(size=(5, 4)) * 2
    y = np.argmax(x @ w + rng.gumbel(size=(400, 4)), axis=1)
    adf = AssumedDensityFilter(range(4), 5)
    adf.update(x[:300], y[:300])
    assert np.linalg.eigvalsh(adf.covariance).min() > 0
    mean, _ = adf.predict_latents(x[300:])
    assert (
        np.mean(mean.argmax(axis=1) == y[300:]) > np.mean((x @ w)[300:].argmax(1) == y[300:]) - 0.1
    )


def test_bad_rows_are_refused():
    adf = AssumedDensityFilter(range(3), 2)
    for x, y, message in [
        (X, [5], "not in classes"),
        (X, [0, 1], "as many rows"),
        (X[:, :1], [0], "2 features"),
        (X * np.nan, [0], "finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            adf.update(x, y)
    assert not adf.mean.any()
