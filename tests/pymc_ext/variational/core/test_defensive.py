"""The proposal with heavier tails beside q: its law, when it is made, what it mends."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

import pymc_ext as px
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.defensive import (
    MOST_DIRECTIONS,
    MOST_LOOKED_AT,
    Columns,
    DefensiveMixture,
    defended,
    heavy_directions,
    laws,
)
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.hierarchical.algorithm import Hierarchical

N = 20_000


def mixture() -> DefensiveMixture:
    root = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-2.0, 0.3, 0.1]])
    q = Gaussian(np.array([1.0, -2.0, 0.5]), root)
    return DefensiveMixture(q, np.array([[1.0, 0.0, 0.0], [0.0, 0.6, -0.8]]))


def draws(r: DefensiveMixture, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return r.forward(np.random.default_rng(seed).standard_normal((N, r.latent_dimension)))


def student(nu: float, dimension: int = 1) -> CallableDensity:
    """Independent Student t, whose scores serve paths."""
    return CallableDensity(
        lambda x: stats.t(nu).logpdf(x).sum(axis=1),
        lambda x: -(nu + 1) * x / (nu + x**2),
        dimension=dimension,
    )


def test_a_search_for_modes_beside_it_is_of_q_whose_numbers_are_known() -> None:
    """Far out in its tails q's normals are not to be had from a draw: log r is known of its own."""
    assert not hasattr(mixture(), "log_density")


def test_draws_have_the_density_that_is_said() -> None:
    r = mixture()
    theta, log_r = draws(r, 1)
    v = r.q.inverse(theta)
    # q's share of mass, by weights of r: E_r[q/r] = 1, and E_q[r/q] = 1 where both are bounded
    weights = np.exp(r.q.log_density(theta) - log_r)
    assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(N)
    for s, u in enumerate(r.directions):
        other = r.directions[1 - s] @ u
        along = v @ u

        def cdf(x: np.ndarray, other: float = other) -> np.ndarray:
            assert other == 0  # else the other direction would widen this one too
            return 0.75 * stats.norm.cdf(x) + 0.25 * laws()[0].cdf(x)

        assert stats.kstest(along, cdf).pvalue > 1e-3
    np.testing.assert_allclose(log_r, r.q.log_density(theta) + r.log_ratio(v), rtol=1e-9)


def test_no_weight_is_more_than_twice_that_of_q() -> None:
    v = np.random.default_rng(2).uniform(-40, 40, (1000, 3))
    assert np.all(mixture().log_ratio(v) >= -np.log(2) - 1e-12)


def test_tails_reach_as_far_as_normals_do() -> None:
    r = mixture()
    z = np.zeros((2, 5))
    z[:, -2], z[:, -1] = -5.0, [-30.0, 30.0]  # first component, beyond what Φ can hold
    theta, log_r = r.forward(z)
    assert np.isfinite(theta).all() and np.isfinite(log_r).all()
    assert np.all(np.abs(r.q.inverse(theta)[:, 0]) > 1e50)


def test_directions_are_those_of_what_is_not_known_and_few() -> None:
    rng = np.random.default_rng(3)
    v = rng.standard_normal((4096, 8))
    root = np.eye(8)
    root[5] = 1.0  # θ_5 is the sum of all
    theta, places, none = v @ root.T, np.arange(8), np.full(8, -np.inf)

    def found(khat_v: np.ndarray, khat_theta: np.ndarray) -> np.ndarray:
        parts = np.array_split(v, 3)
        columns = Columns(places, v, khat_v), Columns(places[2:], theta[:, 2:], khat_theta[2:])
        return heavy_directions(parts, *columns, 8)

    assert found(none, none).shape == (0, 8)
    khat_v, khat_theta = none.copy(), none.copy()
    khat_v[2], khat_theta[[2, 5]] = 0.6, [0.7, 0.9]
    of_sum, of_one = found(khat_v, khat_theta)
    error = 5 / np.sqrt(4096)
    np.testing.assert_allclose(of_sum, np.ones(8) / np.sqrt(8), atol=error)
    np.testing.assert_allclose(of_one, np.eye(8)[2], atol=error)  # of v and of θ, but once
    assert len(found(np.full(8, 0.8), khat_theta)) == MOST_DIRECTIONS


def test_heavy_tails_get_a_proposal_whose_weights_serve() -> None:
    density = CountedDensity(student(4, dimension=2))
    q = DiagonalGaussian(np.zeros(2), np.full(2, 1.2))
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    proposal, found = defended(q, density, fresh, seed=1)
    assert proposal is not None and found is not None
    assert fresh.khat > 0.5 > found.khat
    assert abs(found.log_marginal_is) < 4 * found.log_marginal_is_se  # log Z = 0
    again = defended(q, density, fresh, seed=1)[1]
    assert again == found


def test_in_many_dimensions_the_heavy_one_is_found_in_little_memory() -> None:
    D, heavy = 20 * MOST_LOOKED_AT, 777
    law, normal = stats.t(4), stats.norm()

    def log_density(x: np.ndarray) -> np.ndarray:
        rest = np.delete(x, heavy, axis=1)
        return normal.logpdf(rest).sum(axis=1) + law.logpdf(x[:, heavy])

    density = CountedDensity(CallableDensity(log_density, np.zeros_like, dimension=D))
    q = DiagonalGaussian(np.zeros(D), np.ones(D))
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    tracemalloc.start()
    proposal, found = defended(q, density, fresh, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert proposal is not None and found is not None
    assert len(proposal.directions) == 1 and proposal.directions[0, heavy] > 0.99  # not by chance
    assert peak < fresh.draws * D * 8  # all draws at once, which were held three times over


def test_none_is_made_where_none_is_needed_or_none_helps() -> None:
    density = CountedDensity(student(4))
    rng = np.random.default_rng(1)
    exact = CallableDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=1)
    q = DiagonalGaussian(np.zeros(1), np.ones(1))
    for target, own in (
        (exact, q),  # exact
        (exact, DiagonalGaussian(np.zeros(1), np.full(1, 1.5))),  # wider than p
        (student(4), DiagonalGaussian(np.full(1, 9.0), np.full(1, 0.1))),  # nowhere near
    ):
        counted = CountedDensity(target)
        fresh = fresh_draws(own, counted, rng)
        before = counted.values
        assert defended(own, counted, fresh, seed=1) == (None, None)
        assert counted.values == before
    unknown = fresh_draws(q, density, rng).from_log_ratios(np.random.default_rng(2).normal(size=99))
    assert defended(q, density, unknown, seed=1) == (None, None)


@pytest.mark.parametrize("algorithm", [BatchMatch(), Hierarchical()], ids=lambda a: a.name)
def test_fits_have_it_where_their_weights_need_it(algorithm) -> None:
    fitted = algorithm.fit(student(5, dimension=3), random_seed=1)
    own, of_proposal = fitted.result.fresh, fitted.result.fresh_proposal
    assert isinstance(fitted.proposal, DefensiveMixture) and fitted.proposal.q is fitted.q
    assert own.khat > of_proposal.khat == fitted.result.khat
    gaussian = algorithm.fit(
        CallableDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=3),
        random_seed=1,
    )
    assert gaussian.proposal is None and gaussian.result.fresh_proposal is None


def test_weighted_draws_of_a_pymc_fit_are_the_proposals() -> None:
    import pymc as pm

    with pm.Model():
        pm.StudentT("x", nu=5, mu=0, sigma=1, shape=2)
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    assert isinstance(approx.proposal, DefensiveMixture)
    theta, lp, lr = approx.weighted_draws(N, random_seed=2)
    weights = np.exp(lp - lr)
    # log Z = 0; the variance of Student's t is ν/(ν − 2)
    assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(N)
    variance = weights @ theta**2 / weights.sum()
    error = np.sqrt((weights**2) @ (theta**2 - variance) ** 2) / weights.sum()
    assert np.all(np.abs(variance - 5 / 3) < 4 * error)


def test_a_draw_beyond_numbers_has_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    import pymc as pm

    with pm.Model():
        pm.StudentT("x", nu=5, mu=0, sigma=1, shape=2)
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    forward = DefensiveMixture.forward

    def overflowing(self: DefensiveMixture, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta, log_r = forward(self, z)
        theta[0] = np.inf, np.nan  # as a flow gives far out
        return theta, log_r

    monkeypatch.setattr(DefensiveMixture, "forward", overflowing)
    _, lp, lr = approx.weighted_draws(100, random_seed=2)
    assert lp[0] == -np.inf and np.isfinite(lp[1:]).all() and np.isfinite(lr).all()
