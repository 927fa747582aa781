"""A density in the coordinates of a q: exact on a Gaussian, scores against finite differences."""

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, DensityError, DensityInCoordinates
from pymc_ext.maths.normal import LOG_2PI, standard_normal_logp
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian, GaussianMixture
from tests.tolerances import EXACT, NUMERIC

MEAN = np.array([5.0, -1.0, 3000.0])
ROOT = np.array([[1e-3, 0.0, 2e-4], [1.0, 2.0, 0.3], [-200.0, 50.0, 400.0]])  # not triangular
V = np.random.default_rng(1).normal(size=(5, 3))


def normal(q):
    """log q as a density of its own, with its score."""
    precision = np.linalg.inv(q.cov)
    return CallableDensity(q.log_density, lambda x: -(x - q.mean) @ precision, dimension=3)


def quartic():
    """log p̃ = −Σ x⁴ / 4 + x₀ x₁, no Gaussian."""

    def gradient(x):
        score = -(x**3)
        score[:, 0] += x[:, 1]
        score[:, 1] += x[:, 0]
        return score

    value = lambda x: -0.25 * (x**4).sum(1) + x[:, 0] * x[:, 1]  # noqa: E731
    return CallableDensity(value, gradient, dimension=3)


def test_in_its_own_coordinates_a_gaussian_is_the_standard_normal():
    q = Gaussian(MEAN, ROOT)
    lp, score = DensityInCoordinates(normal(q), q).log_density_gradient(V)
    np.testing.assert_allclose(lp, standard_normal_logp(V), rtol=1e-9)
    np.testing.assert_allclose(score, -V, rtol=1e-9)


@pytest.mark.parametrize(
    "q",
    [
        Gaussian(MEAN / 1000, ROOT / np.array([[1], [1], [300]])),
        DiagonalGaussian(MEAN / 1000, np.array([0.5, 2.0, 0.1])),
    ],
    ids=["dense", "diagonal"],
)
def test_the_score_is_the_derivative_of_the_value(q):
    density, h = DensityInCoordinates(quartic(), q), 1e-5
    lp, score = density.log_density_gradient(V)
    np.testing.assert_allclose(density.log_density(V), lp, rtol=EXACT)
    steps = h * np.eye(3)
    slopes = [(density.log_density(V + e) - density.log_density(V - e)) / (2 * h) for e in steps]
    np.testing.assert_allclose(score, np.transpose(slopes), rtol=NUMERIC, atol=NUMERIC)
    np.testing.assert_allclose(q.inverse(q.forward(V)[0]), V, rtol=1e-9)
    # ∫ exp(log p̃ + log|det|) dv is the Z of log p̃: the determinant is counted once
    _, log_q = q.forward(np.zeros((1, 3)))
    at_mean = quartic().log_density(q.mean[None])
    np.testing.assert_allclose(
        density.log_density(np.zeros((1, 3))), at_mean - log_q - 1.5 * LOG_2PI, rtol=EXACT
    )


def test_a_map_that_has_not_one_normal_a_coordinate_is_refused():
    mixture = GaussianMixture(np.zeros(1), (Gaussian(MEAN, ROOT),))
    with pytest.raises(DensityError, match="from 3 normals to 3 values, got one from 4 to 3"):
        DensityInCoordinates(quartic(), mixture)
