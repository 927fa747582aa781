"""Stan's NUTS as a sampler: every map that it knows, against the map's own numbers; exact cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bridge.stan.sampler import StanNUTS, coordinates_of, takes
from pymc_ext.density import CallableDensity, DensityInCoordinates, TransportMap
from pymc_ext.maths.marginal import Marginal
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import (
    DiagonalGaussian,
    Gaussian,
    GaussianMixture,
)
from pymc_ext.variational.hierarchical.arrow_root import ArrowRoot
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.roots import DenseRoot
from stan_models import StanDensity, StanProgram
from stan_models.chains import StanChain, has_chains
from tests.tolerances import monte_carlo

pytestmark = pytest.mark.stan
D = 4
RNG = np.random.default_rng(3)
LOWER = np.tril(RNG.normal(size=(D, D)), -1)
ROOT = np.tril(0.3 * RNG.normal(size=(D, D)), -1) + np.diag([1.0, 0.5, 2.0, 0.7])


def hierarchical() -> HierarchicalMap:
    marginal = Marginal(
        np.array([0.4, 0, -0.2, 0]), np.array([[1.3, 1, 0.8, 1], [0.7, 1, 1.2, 1.5]])
    )
    return HierarchicalMap(
        np.array([2, 0, 3, 1]), RNG.normal(size=D), DenseRoot(ROOT),
        0.4 * LOWER, 0.1 * LOWER, 0.2 * LOWER, RNG.normal(size=D), RNG.normal(size=D), marginal,
        np.array([1.0, -1.0, 1.0, -1.0]),
    )  # fmt: skip


def arrow() -> HierarchicalMap:
    """One global, a group of two and a group of one."""
    full = hierarchical()
    root = ArrowRoot(ROOT[:, :1], (ROOT[None, 1:3, 1:3], ROOT[None, 3:, 3:]))
    C, Q, H = (x[:, :1] for x in (full.scales, full.squares, full.gated))
    return replace(full, root=root, scales=C, squares=Q, gated=H)


MAPS: dict[str, Callable[[], TransportMap]] = {
    "Gaussian": lambda: Gaussian(RNG.normal(size=D), RNG.normal(size=(D, D))),
    "diagonal": lambda: DiagonalGaussian(RNG.normal(size=D), np.array([0.1, 1.0, 2.0, 3.0])),
    "low rank": lambda: LowRankGaussian.from_factor(
        RNG.normal(size=D), RNG.normal(size=(D, 2)), np.array([0.1, 1.0, 2.0, 3.0])
    ),
    "hierarchical": hierarchical,
    "arrow": arrow,
}


@pytest.fixture(scope="module")
def density() -> StanDensity:
    found = StanProgram("tests/stan_models/programs/gaussian.stan").density(
        {"D": D, "mean": np.arange(D), "cov": ROOT @ ROOT.T, "log_z": 0, "power": 1}
    )
    if not has_chains(found):
        pytest.skip("an installed CmdStan is in use, whose library has no chains")
    return found


@pytest.mark.parametrize("name", list(MAPS))
def test_the_map_beside_the_program_is_the_map(density: StanDensity, name: str) -> None:
    """Energies and draws of one chain follow log p̃(T(v)) + log|det| of the map's own numbers."""
    transport = MAPS[name]()
    coordinates = coordinates_of(transport)
    assert coordinates is not None and takes(density, transport)
    chain = StanChain(density, np.full(D, 0.3), seed=1, coordinates=coordinates, step_size=0.05)
    chain.run(20, adapt=True)
    found = chain.run(50)
    expected = DensityInCoordinates(density, transport).log_density(found.points)
    difference = found.statistics["lp"] - expected
    np.testing.assert_allclose(difference, difference[0], atol=1e-8)  # a constant


def test_exact_draws_with_stans_sampler(density: StanDensity) -> None:
    q = Gaussian(np.zeros(D), np.eye(D))  # neither the mean nor the scales are right
    for transport in (q, None):
        found = sample(density, transport, StanNUTS(), Sampling(ess=800), seed=1)
        assert found.trusted and found.in_map is (transport is not None)
        z = np.linalg.solve(ROOT, (found.theta.reshape(-1, D) - np.arange(D)).T)
        # the ESS is that of the worst quantity, hence an upper bound of the standard error
        assert np.abs(z.mean(axis=1)).max() < monte_carlo(1 / np.sqrt(800))
        assert np.abs((z**2).mean(axis=1) - 1).max() < monte_carlo(np.sqrt(2 / 800))
    again = sample(density, None, StanNUTS(), Sampling(ess=800), seed=1)
    np.testing.assert_array_equal(again.theta, found.theta)


def test_chains_share_one_step_size(density: StanDensity) -> None:
    found = sample(density, Gaussian(np.zeros(D), np.eye(D)), StanNUTS(), seed=2)
    assert np.ptp(found.statistics["step_size"]) == 0
    alone = sample(density, None, StanNUTS(), seed=2)
    assert np.ptp(alone.statistics["step_size"]) > 0


def test_what_it_does_not_take(density: StanDensity) -> None:
    mixture = GaussianMixture(np.zeros(1), (Gaussian(np.zeros(D), np.eye(D)),))
    assert not takes(density, mixture)
    python = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    assert not takes(python, None)
    for wrong, words in ((python, "needs a Stan program"), (density, "use nutpie")):
        with pytest.raises(TypeError, match=words):
            StanNUTS().chain(
                wrong, np.zeros(D), transport=mixture, scale=None, seed=1, options=Sampling()
            )
