"""The low-rank robust Gaussian: its steps against the dense ones, exact cases, large dimensions."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.posterior import fresh_draws, moment
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.batch_match_low_rank import DENSE, resolved_rank
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.low_rank_gradient import LowRankGradient
from pymc_ext.variational.gaussian.low_rank_match import exact_match, patched
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.gaussian.score_matching import divergence, matched
from tests.pymc_ext.variational.hierarchical.test_hierarchical import normal_hierarchy
from tests.tolerances import NUMERIC, monte_carlo


def factored(D, rank, seed=1, orders=1.0):
    """N(μ, ΛΛᵀ + diag ψ) with scales over some orders of magnitude."""
    rng = np.random.default_rng(seed)
    sd = 10.0 ** rng.uniform(-orders, orders, D)
    factor = sd[:, None] * rng.standard_normal((D, rank))
    variance = sd**2 * np.exp(0.5 * rng.standard_normal(D))
    return LowRankGaussian.from_factor(rng.standard_normal(D), factor, variance)


def density_of(q):
    """log q and its score, as a target; log Z = 0."""
    return CallableDensity(
        q.log_density,
        lambda theta: -q.root_transposed_solve(q.inverse(theta)),
        dimension=q.dimension,
    )


# ---- the steps -------------------------------------------------------------------------------


@pytest.mark.parametrize("B", [2, 5])  # a span of four dimensions, and of all seven
def test_a_match_is_the_dense_one(B) -> None:
    rng = np.random.default_rng(2)
    q = factored(7, 2)
    theta, g = rng.standard_normal((2, B, 7))
    new, moved = exact_match(q, theta, g, 3.0)
    dense = Gaussian(q.mean, np.linalg.cholesky(q.cov))
    expected = matched(dense, theta, g, 3.0)
    np.testing.assert_allclose(new.mean, expected.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(new.cov, expected.cov, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(moved, divergence(expected, dense), rtol=NUMERIC)


def test_a_patch_keeps_a_covariance_of_its_rank_and_nearly_every_variance() -> None:
    q = factored(30, 3)
    np.testing.assert_allclose(patched(q, 3).cov, q.cov, rtol=1e-8, atol=1e-12)
    lower = patched(q, 1)
    assert lower.rank == 1
    np.testing.assert_allclose(lower.std, q.std, rtol=0.01)


def test_a_step_of_the_elbo_leaves_the_posterior_as_it_is() -> None:
    q = factored(40, 3)
    steps = LowRankGradient(CountedDensity(density_of(q)), q, np.random.default_rng(1))
    steps.advance()
    np.testing.assert_allclose(steps.q.mean, q.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(steps.q.cov, q.cov, rtol=1e-7, atol=1e-10)


def test_a_step_of_the_elbo_goes_along_its_gradient() -> None:
    """Small steps from another Gaussian raise the ELBO, which is known in closed form."""
    target, q = factored(6, 2, seed=3), factored(6, 2, seed=3)
    q = LowRankGaussian.from_factor(q.mean + 0.3 * q.std, 1.2 * q.factor, 0.7 * q.scale**2)

    def kl(q):
        precision = np.linalg.inv(target.cov)
        off = q.mean - target.mean
        trace = np.trace(precision @ q.cov) + off @ precision @ off - 6
        return 0.5 * trace - q.log_det + target.log_det

    steps = LowRankGradient(CountedDensity(density_of(target)), q, np.random.default_rng(1))
    steps.draws, steps.since_restart, before = 4000, 95, kl(q)
    steps.advance()
    assert kl(steps.q) < before - 0.02


def test_the_precisions_diagonal_is_that_of_the_inverse() -> None:
    q = factored(8, 3)
    np.testing.assert_allclose(q.precision_diagonal, np.diag(np.linalg.inv(q.cov)), rtol=1e-8)
    np.testing.assert_allclose(q.factor @ q.factor.T + np.diag(q.scale**2), q.cov, rtol=1e-8)
    np.testing.assert_allclose(q.narrowed(2.0).cov, q.cov / 4, rtol=1e-12)


# ---- the algorithm ---------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [9, 42])
def test_with_all_factors_it_agrees_with_the_dense_one(dimension) -> None:
    density = normal_hierarchy(dimension - 2, 0.7, 1.0, seed=1)
    dense = BatchMatch().fit(density, random_seed=1)
    full = BatchMatch(rank=dimension).fit(density, random_seed=1)
    assert isinstance(dense.q, Gaussian)
    assert isinstance(full.q, LowRankGaussian)
    # both are judged on the same draws of one seed
    assert abs(full.result.elbo - dense.result.elbo) < 0.02
    np.testing.assert_allclose(full.q.std, dense.q.std, rtol=0.1)
    np.testing.assert_allclose((full.q.mean - dense.q.mean) / dense.q.std, 0, atol=0.1)


def test_a_gaussian_of_low_rank_in_a_thousand_dimensions_is_recovered() -> None:
    target = factored(1000, 3)
    fitted = BatchMatch().fit(density_of(target), random_seed=1)
    assert fitted.result.elbo > -0.1  # log Z = 0
    assert fitted.result.fresh.ess > 0.8 * fitted.result.fresh.draws
    np.testing.assert_allclose((fitted.q.mean - target.mean) / target.std, 0, atol=0.01)
    np.testing.assert_allclose(fitted.q.std, target.std, rtol=0.1)


def test_memory_is_linear_in_the_dimension() -> None:
    """A dense matrix of 8,000 dimensions would take 512 MB, a fit several."""
    D = 8_000
    density = CallableDensity(lambda t: -0.5 * np.sum(t**2, axis=1), lambda t: -t, dimension=D)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fitted = BatchMatch(paths=1).fit(density, n=30, random_seed=1)
    for name in ("mean", "std"):
        assert moment(fitted.q, name).shape == (D,)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert more * 1024 < 4e8  # in kilobytes, on Linux


def test_a_fit_goes_on_from_its_state() -> None:
    density = density_of(factored(20, 2))
    first = BatchMatch(rank=2).fit(density, random_seed=1)
    second = BatchMatch(rank=2).fit(density, random_seed=2, state=first.state)
    slack = monte_carlo(np.hypot(first.result.elbo_se, second.result.elbo_se)) + 1e-3
    assert second.result.elbo > first.result.elbo - slack
    assert second.result.gradient_evaluations < first.result.gradient_evaluations


def test_without_the_finish_it_ends_with_batches() -> None:
    fitted = BatchMatch(rank=2, finish=None).fit(density_of(factored(20, 2)), random_seed=1)
    assert fitted.result.stop_reason == "batches no longer raise the ELBO"


def test_few_iterations_are_said_to_be_unfinished() -> None:
    fitted = BatchMatch(rank=2).fit(density_of(factored(20, 2)), n=3, random_seed=1)
    assert fitted.result.stop_reason == "unfinished: the iterations are used up"


def test_large_batches_reach_a_density_some_rows_at_a_time() -> None:
    seen = []

    def log_density(t):
        seen.append(len(t))
        return -0.5 * np.sum(t**2, axis=1)

    D = 2**16
    density = CountedDensity(CallableDensity(log_density, lambda t: -t, dimension=D))
    theta = np.random.default_rng(1).standard_normal((9, D))
    log_p, scores = density.log_density_gradient(theta)
    np.testing.assert_array_equal(scores, -theta)
    np.testing.assert_array_equal(density.log_density(theta), log_p)
    assert density.gradients == 9
    assert max(seen) == 3
    fresh = fresh_draws(
        LowRankGaussian.from_factor(np.zeros(D), np.zeros((D, 1)), np.ones(D)),
        density,
        np.random.default_rng(1),
        50,
    )
    assert fresh.ess == pytest.approx(50)


# ---- the rank --------------------------------------------------------------------------------


def test_the_rank_is_by_rule() -> None:
    assert resolved_rank(None, DENSE) is None
    ranks = [resolved_rank(None, D) for D in (DENSE + 1, 1000, 2000, 10_000, 1_000_000)]
    assert ranks == [32, 32, 16, 10, 10]
    assert resolved_rank(5, 7) == 5


@pytest.mark.parametrize("rank", [0, -1, True, 2.0])
def test_a_rank_below_one_is_refused(rank) -> None:
    with pytest.raises(ValueError, match="rank must be None or an integer >= 1"):
        BatchMatch(rank=rank)


def test_a_rank_beyond_the_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="at most the number of parameters, 4, got 5"):
        BatchMatch(rank=5).fit(density_of(factored(4, 1)), random_seed=1)
