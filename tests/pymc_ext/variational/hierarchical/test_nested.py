"""Laws by Laplace's method along one coordinate: exact cases, log q against its own draws."""

import numpy as np
import pytest
from scipy import integrate, stats

from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.hierarchical.nested import CELLS, nested_laplace
from tests.pymc_ext.sampling.targets import gaussian
from tests.pymc_ext.variational.hierarchical.funnels import draws_of_funnel, funnel

QUADRATURE = 0.02  # of an sd by places half an sd and more from one another
ORDER = np.arange(5)


def law_of_funnel(lowest: float = -np.inf):
    found = nested_laplace(CountedDensity(funnel()), draws_of_funnel(lowest=lowest), 0, ORDER)
    assert found is not None
    return found


@pytest.mark.parametrize("lowest", [-np.inf, -1.0])
def test_the_marginal_is_exact_where_the_others_are_normal_given_it(lowest) -> None:
    """From draws of the upper half, too: places go on as far as there is mass."""
    found = law_of_funnel(lowest)
    assert abs(found.mean_along) < QUADRATURE and abs(found.sd_along - 1) < QUADRATURE
    assert found.places[0] < -3.5 and found.places[-1] > 3.5


def test_weights_on_its_draws_are_one_there_but_for_its_longer_tails() -> None:
    """log p − log q is log Z less the log of (1 + t²) / 2, at each draw."""
    found = law_of_funnel()
    theta, log_q = found.forward(np.random.default_rng(1).standard_normal((4000, 5)))
    log_z = 2 * np.log(2 * np.pi) + 0.5 * np.log(2 * np.pi)
    left = funnel().log_density(theta) - log_q - log_z + np.log((1 + theta[:, 0] ** 2) / 2)
    assert np.std(left) < QUADRATURE and abs(np.mean(left)) < QUADRATURE


def test_of_a_correlated_gaussian_each_marginal_is_its_own() -> None:
    rng = np.random.default_rng(2)
    root = np.tril(rng.normal(size=(5, 5))) + 3 * np.eye(5)
    target = gaussian(np.arange(5.0), root @ root.T)
    draws = np.arange(5.0) + rng.standard_normal((2000, 5)) @ root.T
    for j in range(5):
        found = nested_laplace(CountedDensity(target), draws, j, ORDER[::-1])
        sd = np.linalg.norm(root[j])
        assert abs(found.mean_along - j) < QUADRATURE * sd
        assert abs(found.sd_along / sd - 1) < QUADRATURE


@pytest.mark.parametrize("name", ["groups-4", "schools-centred"])
def test_log_q_anywhere_is_that_of_its_own_draws(name) -> None:
    """And there are as many between two places as its masses say."""
    target, rng = ZOO[name].make(), np.random.default_rng(3)
    draws = target.draws(2000, rng)
    j = int(np.argmin(stats.skew(draws)))  # the log scale, with its long lower tail
    found = nested_laplace(CountedDensity(target), draws, j, np.arange(target.dimension))
    theta, log_q = found.forward(rng.standard_normal((20_000, target.dimension)))
    assert np.allclose(found.log_density(theta), log_q, rtol=0, atol=1e-8)
    counts = np.histogram(theta[:, j], found.places)[0]
    masses = found.masses.reshape(-1, CELLS).sum(axis=1)
    error = np.sqrt(masses * len(theta)) + 1
    assert np.all(np.abs(counts - masses * len(theta)) < 5 * error)
    theta[:, j] = found.edges[-1] + 1
    assert np.all(found.log_density(theta) == -np.inf)


def test_given_t_log_q_integrates_to_the_marginal() -> None:
    target = funnel(groups=1)
    draws = draws_of_funnel(groups=1)
    found = nested_laplace(CountedDensity(target), draws, 0, np.arange(2))

    def q(x: float, t: float) -> float:
        return float(np.exp(found.log_density(np.array([[t, x]]))[0]))

    own = found.masses / np.diff(found.edges)
    for t in (-1.03, 0.2, 1.1):
        far = 8 * np.exp(t)
        inside, _ = integrate.quad(q, -far, far, args=(t,))
        assert inside == pytest.approx(own[np.searchsorted(found.edges, t) - 1], rel=1e-6)


def test_without_a_maximum_there_is_none_and_errors_end_a_side() -> None:
    flat = CallableDensity(
        lambda t: -0.5 * t[:, 0] ** 2 + 0.5 * t[:, 1] ** 2,
        lambda t: t * [-1.0, 1.0],
        dimension=2,
    )
    draws = np.random.default_rng(1).standard_normal((500, 2))
    assert nested_laplace(CountedDensity(flat), draws, 0, np.arange(2)) is None

    target = funnel()

    def raising(t):
        if t[:, 0].min() < -2:
            raise OverflowError("math range error")
        return target.log_density(t)

    cut = CallableDensity(raising, lambda t: target.log_density_gradient(t)[1], dimension=5)
    found = nested_laplace(CountedDensity(cut), draws_of_funnel(), 0, ORDER)
    assert found.places[0] >= -2 and found.sd_along < 1
