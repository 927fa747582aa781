"""Kernels about points: the law that their draws are of, as a mixture of Gaussians has it."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.missed.kernels import kernels_about, spread_of


@pytest.mark.parametrize(("K", "D"), [(2, 1), (7, 3), (40, 20)])
def test_kernels_are_a_mixture_of_gaussians(K, D):
    rng = np.random.default_rng(1)
    points = rng.standard_normal((K, D)) @ rng.standard_normal((D, D)) + 3
    r = kernels_about(points, np.eye(D))
    width = (4 / (K * (D + 2))) ** (1 / (D + 4))  # Silverman's, of a covariance of I
    np.testing.assert_allclose(r.root @ r.root.T, width**2 * spread_of(points, np.eye(D)))
    same = PosteriorMixture(np.full(K, -np.log(K)), tuple(Gaussian(x, r.root) for x in points))
    z = rng.standard_normal((5_000, r.latent_dimension))
    theta = r.forward(z)
    np.testing.assert_allclose(theta, same.forward(z)[0])
    np.testing.assert_allclose(r.log_density(theta), same.log_density(theta), rtol=1e-9)


def test_fewer_points_than_dimensions_have_a_law():
    r = kernels_about(np.array([[1.0, 2.0, 3.0], [1.5, 2.0, 3.0]]), np.eye(3))
    assert np.isfinite(r.log_density(r.forward(np.zeros((1, 4))))).all()
