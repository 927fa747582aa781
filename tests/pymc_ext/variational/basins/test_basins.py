"""A map for every basin: exact mixtures with their weights, a first component, when it ends."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp

import pymc_ext as px
from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.basins.algorithm import Basins, Explored
from pymc_ext.variational.basins.weights import DRAWS, weighted_mixture
from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.missed.missed_mass import Basin, MissedMass
from tests.tolerances import monte_carlo


def gaussians(means, weights, sd=1.0):
    """Σ w N(m, sd² I), normalised, as a density."""
    means = np.asarray(means, dtype=float)
    D = means.shape[1]

    def parts(t):
        z = (t[None] - means[:, None]) / sd
        norm = D * np.log(sd) + 0.5 * D * np.log(2 * np.pi)
        return np.log(weights)[:, None] - 0.5 * (z**2).sum(2) - norm

    def score(t):
        share = np.exp(parts(t) - logsumexp(parts(t), axis=0))
        return -(share[..., None] * (t[None] - means[:, None])).sum(0) / sd**2

    return CallableDensity(lambda t: logsumexp(parts(t), axis=0), score, dimension=D)


MEANS = {
    "one": [[0.0, 0.0]],
    "two": [[-8.0, 0.0], [8.0, 3.0]],
    "a line and one beside it": [[-10.0, 0, 0], [0.0, 0, 0], [10.0, 0, 0], [0.0, 12, 0]],
}


@pytest.mark.parametrize("name", list(MEANS))
def test_every_basin_is_found_with_its_weight(name: str) -> None:
    means = np.array(MEANS[name])
    K = len(means)
    weights = np.arange(1, K + 1) / (K * (K + 1) / 2)
    for seed in range(3):
        fitted = Basins().fit(gaussians(means, weights), random_seed=seed)
        q, result = fitted.q, fitted.result
        at = [int(np.argmin(np.linalg.norm(means - c.mean, axis=1))) for c in q.components]
        assert sorted(at) == list(range(K))
        np.testing.assert_allclose(np.exp(q.log_weights), weights[at], atol=1e-6)
        assert result.converged and abs(result.log_marginal_is) < 1e-6
        told = f"{K} basins found, of weights " if K > 1 else "one basin found"
        assert result.notes[0].startswith(told)


def test_log_q_is_that_of_its_own_draws() -> None:
    q = Basins().fit(gaussians(MEANS["two"], [0.3, 0.7]), random_seed=1).q
    theta, log_q = q.forward(np.random.default_rng(1).standard_normal((1000, 3)))
    np.testing.assert_allclose(log_q, q.log_density(theta))
    shares = np.mean(theta[:, 0] > 0)
    assert abs(shares - 0.7) < monte_carlo(np.sqrt(0.21 / 1000))


def test_a_first_component_is_taken_and_a_mixture_gone_on_from() -> None:
    density = gaussians(MEANS["two"], [0.3, 0.7])
    first = Gaussian(np.array([8.0, 3.0]), np.eye(2))
    fitted = Basins().fit(density, random_seed=1, state=first)
    assert fitted.q.components[0] == first and len(fitted.q.components) == 2
    again = Basins().fit(density, random_seed=2, state=fitted.state)
    assert again.q.components == fitted.q.components


def test_no_more_basins_than_are_asked_for() -> None:
    fitted = Basins(components=2).fit(
        gaussians(MEANS["a line and one beside it"], [0.25] * 4), random_seed=1
    )
    assert len(fitted.q.components) == 2
    assert fitted.result.stop_reason == "2 basins are kept at most"


@pytest.mark.parametrize("components", [0, -1, 1.5, True])
def test_bad_numbers_of_components(components) -> None:
    with pytest.raises(ValueError, match="components must be an integer >= 1"):
        Basins(components=components)


def test_weights_are_those_of_overlapping_components() -> None:
    """EM's maximum, not the share of draws that are nearest."""
    parts = (Gaussian(np.zeros(1), np.eye(1)), Gaussian(np.ones(1), 2 * np.eye(1)))
    truth = PosteriorMixture(np.log([0.35, 0.65]), parts)
    density = CountedDensity(CallableDensity(truth.log_density, lambda t: -t, dimension=1))
    q, log_z = weighted_mixture(density, parts, np.random.default_rng(1))
    # the weights' standard error: from the Fisher information of a share, by the draws that differ
    theta = truth.forward(np.random.default_rng(2).standard_normal((20_000, 2)))[0]
    each = np.exp(truth.log_densities(theta) - truth.log_density(theta))
    se = 1 / np.sqrt(2 * DRAWS * np.mean((each[0] - each[1]) ** 2))
    assert abs(np.exp(q.log_weights[0]) - 0.35) < monte_carlo(se)
    assert abs(log_z) < monte_carlo(0.5 / np.sqrt(2 * DRAWS))


def test_labels_that_switch_have_equal_weights_under_pm_fit() -> None:
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(-3, 1, 30), rng.normal(3, 1, 30)])
    with pm.Model():
        mu = pm.Normal("mu", 0, 5, shape=2)
        parts = pm.Normal.dist(mu, 1, shape=2)
        pm.Mixture("y", [0.5, 0.5], parts, observed=y)
        approx = pm.fit(method=px.BasinsVI(random_seed=1), progressbar=False)
    np.testing.assert_allclose(np.exp(approx.q.log_weights), 0.5, atol=monte_carlo(0.02))
    idata = approx.sample(2000, random_seed=1)
    first = idata.posterior["mu"].values[0, :, 0]
    assert abs(np.mean(first > 0) - 0.5) < monte_carlo(np.sqrt(0.25 / 2000))


# ---- who governs whom -------------------------------------------------------------------------


def two_funnels(weights=(0.25, 0.75), apart=15.0):
    """log τ ~ N(0, ¼), x | τ ~ N(±apart, τ²): the links of both basins have slope one."""
    side = np.array([-apart, apart])

    def parts(t):
        z = (t[:, 1] - side[:, None]) * np.exp(-t[:, 0])
        return np.log(weights)[:, None] - 2 * t[:, 0] ** 2 - t[:, 0] - 0.5 * z**2, z

    def score(t):
        terms, z = parts(t)
        share = np.exp(terms - logsumexp(terms, axis=0))
        by_t = (share * (z**2 - 1)).sum(0) - 4 * t[:, 0]
        return np.stack([by_t, -(share * z).sum(0) * np.exp(-t[:, 0])], axis=1)

    return CallableDensity(
        lambda t: logsumexp(parts(t)[0], axis=0), score, dimension=2, names=["log_tau", "x"]
    )


def test_links_of_every_basin_are_told() -> None:
    fitted = Basins().fit(two_funnels(), random_seed=1)
    links = fitted.result.links
    assert len(links.basins) == len(fitted.q.components) == 2
    np.testing.assert_allclose(links.weights, np.exp(fitted.q.log_weights))
    for basin in links.basins:
        (link,) = basin.links
        assert (link.governor, link.governed) == ("log_tau", "x")
        assert abs(link.slope - 1) < 0.1
    heavy = int(np.argmax(links.weights))
    assert links.heaviest == links.basins[heavy]
    assert str(links).startswith(f"basin {heavy + 1}, of weight 0.7")
    titles = [ax.get_title() for ax in links.plot()]
    assert titles[0] == str(links).split(":")[0] and len(titles) == 2


def test_links_of_a_component_that_is_handed_over_have_no_errors() -> None:
    first = Basins(components=1).fit(two_funnels(), random_seed=1)
    again = Basins(components=1).fit(two_funnels(), random_seed=1, state=first.state)
    (before,), (after,) = (f.result.links.basins[0].links for f in (first, again))
    assert after.slope == before.slope and after.error is None
    assert str(again.result.links) == f"log_tau governs x: slope {before.slope:.2f}"


def test_without_links_there_is_nothing_to_plot() -> None:
    links = Basins().fit(gaussians(MEANS["two"], [0.3, 0.7]), random_seed=1).result.links
    assert len(links) == 0
    with pytest.raises(ValueError, match="no basin has links"):
        links.plot()


def test_a_basin_that_is_known_is_fitted_though_the_search_would_not_meet_it() -> None:
    """Six dimensions, as wide as a tenth of the other, 300 sds away in a slanted direction."""
    D, far, narrow = 6, 300.0, 0.1
    middle = far * np.array([0.5, -0.3, 0.4, 0.2, -0.6, 0.3])

    def parts(t):
        wide = -0.5 * (t**2).sum(axis=1)
        other = -0.5 * ((t - middle) ** 2).sum(axis=1) / narrow**2 - D * np.log(narrow)
        return np.stack([wide, other])

    def score(t):
        share = np.exp(parts(t) - logsumexp(parts(t), axis=0))[..., None]
        return -share[0] * t - share[1] * (t - middle) / narrow**2

    density = CallableDensity(lambda t: logsumexp(parts(t), axis=0), score, dimension=D)
    q = Gaussian(np.zeros(D), np.eye(D))
    alone = Basins().fit(density, random_seed=1, state=q).q
    assert len(alone.components) == 1
    basin = Basin(Gaussian(middle + 0.2, 0.3 * np.eye(D)), 0.0, 0.1, far)
    names = tuple("abcdef")
    outside = MissedMass((basin,), 1, 1, 0, names, np.zeros(D), np.ones(D))
    both = Basins().fit(density, random_seed=1, state=Explored(q, outside)).q
    np.testing.assert_allclose(np.exp(both.log_weights), [0.5, 0.5], atol=0.02)


def test_a_basin_that_ends_at_a_wall_is_covered_by_the_gaussian_it_was_found_by() -> None:
    """No map stays there: half of its Gaussian lies where there is no such mode."""
    density = ZOO["walled-5"].make()
    q = Basins().fit(density, random_seed=1).q
    theta, log_q = q.forward(np.random.default_rng(1).standard_normal((20_000, q.latent_dimension)))
    weights = np.exp(density.log_density(theta) - log_q)
    share = np.average(density.mode_of(theta), weights=weights)
    error = weights.std() / weights.mean() / np.sqrt(len(weights))
    assert abs(share - 0.4) < monte_carlo(error)
    assert abs(np.log(weights.mean())) < monte_carlo(error)
