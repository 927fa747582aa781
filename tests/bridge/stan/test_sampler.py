"""Coordinates of fitted maps in Stan's own sampler: the same density as in Python."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.stan.sampler import coordinates_of, takes
from pymc_ext.density import DensityInCoordinates
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian, GaussianMixture
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.marginal import Marginal

pytestmark = pytest.mark.stan
D = 4
SOURCE = """
parameters { real mu; real<lower=0> tau; vector[2] x; }
model { mu ~ normal(0, 1); tau ~ lognormal(0, 0.5); x ~ normal(mu, tau); }
"""


@pytest.fixture(scope="module")
def density():
    from stan_models import StanProgram

    return StanProgram(SOURCE, name="small_hierarchy").density()


def hierarchical() -> HierarchicalMap:
    rng = np.random.default_rng(3)
    low = np.tri(D, k=-1)
    C, H, Q = (low * rng.standard_normal((D, D)) * size for size in (0.3, 0.2, 0.05))
    return HierarchicalMap(
        np.array([1, 0, 3, 2]),
        0.1 * rng.standard_normal(D),
        np.linalg.cholesky(0.4 * np.eye(D) + 0.1),
        C, Q, H,
        0.3 * rng.standard_normal(D),
        0.3 * rng.standard_normal(D),
        Marginal(0.2 * rng.standard_normal(D), np.exp(0.2 * rng.standard_normal((2, D)))),
    )  # fmt: skip


QS = {
    "gaussian": Gaussian(np.zeros(D), np.linalg.cholesky(np.eye(D) + 0.2)),
    "diagonal": DiagonalGaussian(np.full(D, 0.1), np.array([1.0, 0.5, 2.0, 1.0])),
    "low rank": LowRankGaussian.from_factor(np.zeros(D), 0.5 * np.ones((D, 1)), np.full(D, 0.8)),
    "hierarchical": hierarchical(),
}


@pytest.mark.parametrize("name", QS)
def test_the_sampler_sees_the_density_in_the_maps_coordinates(density, name) -> None:
    from stan_models.chains import StanChain

    q = QS[name]
    assert takes(density, q)
    chain = StanChain(density, np.zeros(D), seed=1, coordinates=coordinates_of(q), step_size=0.2)
    made = chain.run(40)
    expected = DensityInCoordinates(density, q).log_density(made.points)
    difference = made.statistics["lp"] - expected
    np.testing.assert_allclose(difference, difference[0], atol=1e-8)
    assert np.ptp(made.points, axis=0).min() > 0.1


def test_a_mixture_has_no_coordinates(density) -> None:
    mixture = GaussianMixture(np.zeros(1), (QS["gaussian"],))
    assert coordinates_of(mixture) is None
    assert not takes(density, mixture)
