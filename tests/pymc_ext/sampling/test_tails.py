"""Marginals by Laplace's method, and draws that miss a tail of what governs others' scales."""

from dataclasses import replace

import numpy as np
import pytest

from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.sampling.attempts import INTERRUPTED
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample
from pymc_ext.sampling.tails import (
    LEAST_SD,
    UNSEEN,
    marginal_of,
    tails_not_reached,
    with_tails,
)
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from tests.pymc_ext.sampling.targets import Puppeteer, gaussian

QUADRATURE = 0.02  # of an sd by places half an sd and more from one another


def funnel(groups: int = 4) -> CallableDensity:
    """log τ ~ N(0, 1), x_i | τ ~ N(0, τ²): given τ a normal, so that the method is exact."""

    def log_density(t):
        z = t[:, 1:] * np.exp(-t[:, :1])
        return -0.5 * t[:, 0] ** 2 - groups * t[:, 0] - 0.5 * (z**2).sum(axis=1)

    def score(t):
        z = t[:, 1:] * np.exp(-t[:, :1])
        by_scale = (z**2).sum(axis=1) - groups - t[:, 0]
        return np.column_stack([by_scale, -z * np.exp(-t[:, :1])])

    return CallableDensity(log_density, score, dimension=1 + groups, names=["log_tau", *"abcd"])


def draws_of_funnel(count: int = 4000, lowest: float = -np.inf) -> np.ndarray:
    rng = np.random.default_rng(1)
    log_tau = rng.standard_normal(4 * count)
    log_tau = log_tau[log_tau > lowest][:count]
    x = np.exp(log_tau)[:, None] * rng.standard_normal((len(log_tau), 4))
    return np.column_stack([log_tau, x])


@pytest.mark.parametrize("lowest", [-np.inf, -1.0])
def test_it_is_exact_where_the_others_are_normal_given_the_governor(lowest) -> None:
    """From draws of the upper half, too: places go on as far as there is mass."""
    found = marginal_of(CountedDensity(funnel()), draws_of_funnel(lowest=lowest), 0)
    assert abs(found.mean) < QUADRATURE and abs(found.sd - 1) < QUADRATURE
    assert found.places[0] < -3.5 and found.places[-1] > 3.5


def test_of_a_correlated_gaussian_each_marginal_is_its_own() -> None:
    rng = np.random.default_rng(2)
    root = np.tril(rng.normal(size=(5, 5))) + 3 * np.eye(5)
    target = gaussian(np.arange(5.0), root @ root.T)
    draws = np.arange(5.0) + rng.standard_normal((2000, 5)) @ root.T
    for j in range(5):
        found = marginal_of(CountedDensity(target), draws, j)
        sd = np.linalg.norm(root[j])
        assert abs(found.mean - j) < QUADRATURE * sd and abs(found.sd / sd - 1) < QUADRATURE


def test_draws_without_the_neck_are_doubted_and_those_with_it_are_not() -> None:
    density = CountedDensity(funnel())
    q = Hierarchical().fit(funnel(), random_seed=1).q
    assert tails_not_reached(density, q, draws_of_funnel()) == ()
    (sentence,) = tails_not_reached(density, q, draws_of_funnel(lowest=-0.8))
    assert sentence.startswith("the draws miss a tail of log_tau (sd 0.7")
    assert "by Laplace's method 1)" in sentence and "non-centred" in sentence
    assert 0.65 < draws_of_funnel(lowest=-0.8)[:, 0].std() < LEAST_SD


def test_what_is_no_map_or_too_large_is_not_looked_at(monkeypatch) -> None:
    density, short = CountedDensity(funnel()), draws_of_funnel(lowest=-0.8)
    assert tails_not_reached(density, Gaussian(np.zeros(5), np.eye(5)), short) == ()
    assert tails_not_reached(density, None, short) == ()
    q = Hierarchical().fit(funnel(), random_seed=1).q
    monkeypatch.setattr("pymc_ext.sampling.tails.MOST_DIMENSIONS", 4)
    assert tails_not_reached(density, q, short) == () and density.gradients == 0


def test_chains_that_miss_a_tail_are_not_trusted_and_the_look_is_counted() -> None:
    target = funnel()
    q = Hierarchical().fit(target, random_seed=1).q
    found = sample(target, q, Puppeteer(), Sampling(ess=50), seed=1)
    short = draws_of_funnel(lowest=-0.8)[: found.theta[..., 0].size]
    found = replace(found, theta=short.reshape(found.theta.shape), trusted=True, reasons=())
    told = with_tails(found, target, q)
    assert not told.trusted and told.reasons[0].startswith("the draws miss a tail of log_tau")
    assert 100 < told.gradient_evaluations - found.gradient_evaluations < 1500


def test_ctrl_c_during_the_look_keeps_the_draws_and_errors_far_out_end_a_side(monkeypatch) -> None:
    target = funnel()
    q = Hierarchical().fit(target, random_seed=1).q
    found = sample(target, q, Puppeteer(), Sampling(ess=50), seed=1)

    def pressed(*_):
        raise KeyboardInterrupt

    def raising(t):
        if t[:, 0].min() < -2:
            raise OverflowError("math range error")
        return target.log_density(t)

    cut = CallableDensity(raising, lambda t: target.log_density_gradient(t)[1], dimension=5)
    marginal = marginal_of(CountedDensity(cut), draws_of_funnel(), 0)
    assert marginal.places[0] >= -2 and marginal.sd < 1
    interrupted = replace(found, stop_reason=INTERRUPTED)
    assert with_tails(interrupted, target, q) is interrupted
    monkeypatch.setattr("pymc_ext.sampling.tails.marginal_of", pressed)
    told = with_tails(replace(found, trusted=True, reasons=()), target, q)
    assert told.theta is found.theta and not told.trusted and told.reasons == (UNSEEN,)


@pytest.mark.parametrize("name", ["groups-4", "groups-7", "schools-centred"])
def test_exact_draws_of_hierarchies_are_not_doubted(name) -> None:
    target = ZOO[name].make()
    q = Hierarchical().fit(target, random_seed=1).q
    draws = target.draws(4000, np.random.default_rng(1))
    assert tails_not_reached(CountedDensity(target), q, draws) == ()
