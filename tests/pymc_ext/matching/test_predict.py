"""Expectations of the likelihood over Gaussian latents against quadrature."""

import numpy as np
import pytest
from scipy.special import expit, log_expit, log_softmax, softmax

from pymc_ext.matching import predict
from tests.tolerances import EXACT

Z, W = np.polynomial.hermite_e.hermegauss(80)
W = W / W.sum()
MEAN = np.array([[-3.0], [0.0], [0.4], [2.5]])
VARIANCE = np.array([[0.3], [1.0], [0.5], [0.9]])


def over_normal(function):
    return W @ function(MEAN[:, 0] + np.sqrt(VARIANCE[:, 0]) * Z[:, None])


def test_one_latent_is_exact():
    log_p = predict.log_expected_probabilities(MEAN, VARIANCE)
    np.testing.assert_allclose(np.exp(log_p[:, 1]), over_normal(expit), rtol=EXACT)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=EXACT)
    expected = predict.expected_log_probabilities(MEAN, VARIANCE)
    np.testing.assert_allclose(expected[:, 1], over_normal(log_expit), rtol=EXACT)
    np.testing.assert_allclose(expected[:, 0], over_normal(lambda f: log_expit(-f)), rtol=EXACT)

    def entropy(f):
        return -expit(f) * log_expit(f) - expit(-f) * log_expit(-f)

    np.testing.assert_allclose(
        predict.expected_entropy(MEAN, VARIANCE), over_normal(entropy), rtol=EXACT
    )


def test_many_rows_by_the_compiled_op_equal_few():
    rng = np.random.default_rng(2)
    mean, variance = 4 * rng.normal(size=(600, 1)), rng.gamma(1, 8, size=(600, 1))
    functions = (
        predict.log_expected_probabilities,
        predict.expected_log_probabilities,
        predict.expected_entropy,
    )
    for function in functions:
        parts = [function(mean[i : i + 100], variance[i : i + 100]) for i in range(0, 600, 100)]
        np.testing.assert_allclose(function(mean, variance), np.concatenate(parts), rtol=EXACT)


def test_softmax_against_product_quadrature():
    mean, variance = np.array([[0.3, -1.0, 0.8]]), np.array([[0.5, 2.0, 1.0]])
    z, w = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(z, z, z, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.einsum("i,j,k->ijk", w, w, w).ravel() / w.sum() ** 3
    f = mean + np.sqrt(variance) * grid
    log_p = log_softmax(f, axis=1)
    got = np.exp(predict.log_expected_probabilities(mean, variance, 4096))
    np.testing.assert_allclose(got[0], weight @ softmax(f, axis=1), atol=1e-3)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=EXACT)
    got = predict.expected_log_probabilities(mean, variance, 4096)
    np.testing.assert_allclose(got[0], weight @ log_p, atol=3e-3)
    got = predict.expected_entropy(mean, variance, 4096)
    np.testing.assert_allclose(got[0], -weight @ (np.exp(log_p) * log_p).sum(axis=1), atol=1e-3)


def test_probabilities_that_underflow_keep_their_logarithm():
    log_p = predict.log_expected_probabilities(np.array([[-900.0, 0.0]]), np.full((1, 2), 0.01))
    assert -901 < log_p[0, 0] < -899


def test_draws_are_fixed_and_chunks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(50, 3)), rng.gamma(1, size=(50, 3))
    whole = predict.log_expected_probabilities(mean, variance)
    monkeypatch.setattr(predict, "CHUNK", 10_000)
    np.testing.assert_array_equal(predict.log_expected_probabilities(mean, variance), whole)


@pytest.mark.parametrize("n", [0, 1, 100])
def test_the_number_of_draws_is_a_power_of_two(n):
    with pytest.raises(ValueError, match="power of two"):
        predict.normal_draws(n, 2)
