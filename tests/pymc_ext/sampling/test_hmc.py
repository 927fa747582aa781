"""Chains in step: exact cases, what they count and keep, and when they are handed on."""

from __future__ import annotations

import math
import signal

import numpy as np
import pytest

from pymc_ext.density import CallableDensity
from pymc_ext.maths.hamiltonian import ENERGY_LOST
from pymc_ext.sampling import attempts
from pymc_ext.sampling.hmc import GOLDEN, HMC, QUARTER, SPREAD, WARM_UP
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from tests.pymc_ext.sampling.targets import (
    FunnelMap,
    Puppeteer,
    failing,
    funnel,
    gaussian,
    require_moments,
    two_modes,
)

UNIT = DiagonalGaussian(np.zeros(2), np.ones(2))
NORMAL = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
MEAN = np.array([5.0, -1.0, 3000.0])
ROOT = np.array([[1e-3, 0, 0], [1.0, 2.0, 0], [-200.0, 50.0, 400.0]])


def in_step(density, q, options=None, seed=1, told=None, **others):
    return sample(density, q, told or Puppeteer(), options, seed=seed, in_step=True, **others)


def test_a_badly_scaled_gaussian_in_its_own_coordinates():
    calls = 0

    def score(x):
        nonlocal calls
        calls += len(x)
        return target.log_density_gradient(x)[1]

    target, q = gaussian(MEAN, ROOT @ ROOT.T), Gaussian(MEAN, ROOT)
    density = CallableDensity(target.log_density, score, dimension=3)
    found = in_step(density, q, Sampling(ess=2000))
    assert found.trusted and found.in_map and found.sampler == "hmc"
    assert found.theta.shape[0] == attempts.CHAINS_IN_STEP
    require_moments(found.theta, MEAN, np.sqrt((ROOT**2).sum(1)))
    np.testing.assert_allclose(
        found.lp.ravel(), density.log_density(found.theta.reshape(-1, 3)), rtol=1e-12
    )
    made = found.statistics["n_steps"].sum()
    assert found.gradient_evaluations == calls == found.warm_up_gradients + made
    again = in_step(density, q, Sampling(ess=2000))
    np.testing.assert_array_equal(found.theta, again.theta)
    other = in_step(density, q, Sampling(ess=2000), seed=2)
    assert not np.array_equal(found.theta[:, :10], other.theta[:, :10])


def test_lengths_are_an_even_share_of_a_quarter_period_and_steps_accept_as_asked():
    D = 50
    density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=D)
    q = DiagonalGaussian(np.zeros(D), np.ones(D))
    for rate in (0.7, 0.95):
        found = in_step(density, q, Sampling(ess=1000, target_accept=rate)).statistics
        # a whole number of steps is a shorter step, so that more are accepted
        assert rate - 0.03 < found["acceptance_rate"].mean() < rate + 0.13
        lengths = (found["step_size"] * found["n_steps"])[0]
        draws = np.arange(len(lengths)) + WARM_UP + 1
        np.testing.assert_allclose(
            lengths, QUARTER * (1 + SPREAD * (2 * (draws * GOLDEN % 1) - 1)), rtol=1e-12
        )
        even = np.quantile(lengths / QUARTER, [0.01, 0.25, 0.5, 0.75, 0.99])
        np.testing.assert_allclose(even, [0.51, 0.75, 1, 1.25, 1.49], atol=0.05)


def test_a_law_that_is_not_the_maps_is_left_as_it_is():
    """x⁴/4 + |y| in coordinates of N(0, 2²): all moments known."""

    def log_p(x):
        return -(x[:, 0] ** 4) / 4 - np.abs(x[:, 1])

    density = CallableDensity(
        log_p, lambda x: np.column_stack([-(x[:, 0] ** 3), -np.sign(x[:, 1])]), dimension=2
    )
    q = DiagonalGaussian(np.zeros(2), np.full(2, 2.0))
    found = in_step(density, q, Sampling(ess=1500))
    sd = np.sqrt([2 * math.gamma(0.75) / math.gamma(0.25), 2])
    assert found.sampler == "hmc" and found.trusted
    require_moments(found.theta, np.zeros(2), sd)


def test_a_funnel_in_the_coordinates_of_its_own_law():
    found = in_step(funnel(), FunnelMap(), Sampling(ess=1000), seed=2)
    assert found.trusted and found.in_map and found.diagnostics.divergences == 0
    s, x = found.theta[..., :1], found.theta[..., 1:]
    require_moments(s, np.zeros(1), np.full(1, 1.5))
    require_moments(x * np.exp(-s), np.zeros(4), np.ones(4))


def test_points_outside_the_support_are_rejected():
    exponential = CallableDensity(
        lambda x: np.where(x[:, 0] > 0, -x[:, 0], -np.inf),
        lambda x: np.where(x > 0, -1.0, np.nan), dimension=1,
    )  # fmt: skip
    chains = HMC(
        exponential, DiagonalGaussian(np.ones(1), np.ones(1)), np.zeros((8, 1)), 4, Sampling()
    )
    chains.warm_up(np.inf)
    found = chains.draw(2000)
    assert (1 + found.points > 0).all() and chains.infinite == 0
    require_moments(1 + found.points, np.ones(1), np.ones(1))
    # at the edge they turn back, which is told as NUTS tells it
    assert 0.1 < found.statistics["diverging"].mean() < 0.9
    moved = np.diff(found.points[..., 0], axis=1) != 0
    assert not moved[found.statistics["diverging"][:, 1:]].any()


def test_points_of_an_infinite_density_are_counted():
    """Beyond 3.6 sds of one normal of two: two or three in ten thousand draws lie there."""
    density = CallableDensity(
        lambda x: np.where(x[:, 0] > 3.6, np.inf, -0.5 * (x**2).sum(1)), lambda x: -x, dimension=2
    )
    chains = HMC(density, UNIT, np.zeros((8, 2)), 1, Sampling())
    chains.warm_up(np.inf)
    found = chains.draw(1000)
    assert chains.infinite >= found.statistics["diverging"].sum() > 0
    assert found.points[..., 0].max() < 3.6


def test_an_overflow_after_a_kick_is_a_divergence():
    """Numbers overflow where a score of 10²⁰⁰ throws a chain; of p̃ that says nothing."""
    far = np.array([1e100])
    density = CallableDensity(
        lambda x: np.where(np.abs(x[:, 0]) > far, np.inf, -0.5 * (x**2).sum(1)),
        lambda x: np.where(np.abs(x[:, :1] - 2) < 0.01, 1e200, -x), dimension=2,
    )  # fmt: skip
    chains = HMC(density, UNIT, np.zeros((8, 2)), 1, Sampling())
    chains.warm_up(np.inf)
    found = chains.draw(1000)
    assert found.statistics["diverging"].any() and chains.infinite == 0
    assert np.abs(found.points).max() < 6


def test_a_direction_too_long_for_one_length_is_handed_on(monkeypatch):
    monkeypatch.setattr(attempts, "MOST_IN_STEP", 4_000)
    monkeypatch.setattr("pymc_ext.sampling.run.hidden_by", lambda *args: None)  # of told chains
    long = DiagonalGaussian(np.zeros(2), np.array([1.0, 30.0]))
    density = gaussian(np.zeros(2), np.diag([1.0, 30.0**2]))
    found = in_step(density, UNIT, told=(told := Puppeteer()))
    assert found.sampler == "told" and len(told.made) == attempts.CHAINS
    assert found.theta.shape[0] == attempts.CHAINS and found.in_map
    spent = sum(chain.gradients for chain in told.made)
    assert 4_000 < found.gradient_evaluations - spent < 12_000
    assert found.warm_up_gradients > 4_000  # what HMC took is part of what came before these draws
    served = in_step(density, long, told=(told := Puppeteer()))
    assert served.sampler == "hmc" and not told.made


def test_chains_that_diverge_are_handed_on():
    """A wall of 10⁴ nats on 2 % of the way, which no step passes."""

    def log_p(x):
        return -0.5 * (x**2).sum(1) - np.where(np.abs(x[:, 0] - 1) < 0.02, 1e4, 0)

    assert 1e4 > ENERGY_LOST
    density = CallableDensity(log_p, lambda x: -x, dimension=2)
    rates = []

    class Asked(Puppeteer):
        def chain(self, density, start, *, options, **others):
            rates.append(options.target_accept)
            return super().chain(density, start, options=options, **others)

    found = in_step(density, UNIT, told=Asked())
    assert found.sampler == "told" and rates == [0.8] * attempts.CHAINS


def test_chains_from_other_modes_are_held_to_the_same_rhat():
    found = in_step(two_modes(), UNIT, extra_starts=np.array([[12.0, 0.0]]))
    assert found.theta.shape[0] == attempts.CHAINS_IN_STEP + 1 and found.sampler == "hmc"
    assert not found.trusted and found.diagnostics.rhat > 1.1
    assert found.stop_reason == attempts.APART


def test_as_many_chains_as_were_asked_for():
    found = in_step(NORMAL, UNIT, Sampling(chains=3))
    assert found.theta.shape[0] == 3 and found.sampler == "hmc" and found.trusted


def test_of_a_map_that_is_given_up_four_chains_go_on():
    """Two modes, in q's own coordinates as far apart as no chain goes."""
    q = DiagonalGaussian(np.array([6.0, 0.0]), np.array([6.0, 1.0]))
    found = in_step(two_modes(), q, told=(told := Puppeteer()))
    assert not found.in_map and len(told.made) == attempts.CHAINS
    assert np.abs(np.array(told.starts)[:, 1]).max() < 6 and found.warm_up_gradients > 8_000


def test_an_error_of_the_density_reaches_the_caller():
    with pytest.raises(LookupError, match="no data here"):
        in_step(failing(50, LookupError("no data here")), UNIT)


def test_a_warm_up_ends_when_it_has_spent_the_budget():
    with pytest.raises(ValueError, match=r"budget of 100 gradients went before .* drawn anything"):
        in_step(NORMAL, UNIT, Sampling(budget=100, ess=50))


def test_an_interrupt_keeps_what_is_drawn_and_says_that_it_is_short():
    density = failing(399, KeyboardInterrupt)
    found = in_step(density, UNIT, Sampling(ess=100_000, budget=10**6))
    assert found.stop_reason == attempts.INTERRUPTED and not found.trusted
    assert found.verdict.startswith(f"not trusted: interrupted, {found.theta.shape[1]} draws")
    assert 100 < found.theta.shape[1] < 400


def test_an_interrupt_that_python_raised_where_nobody_hears_it_ends_the_chains():
    before = signal.signal(signal.SIGINT, lambda *_: None)

    def score(x):
        signal.raise_signal(signal.SIGINT) if len(seen) == 300 else None
        seen.append(0)
        return -x

    seen = []
    density = CallableDensity(NORMAL.log_density, score, dimension=2)
    found = in_step(density, UNIT, Sampling(ess=100_000, budget=10**6))
    signal.signal(signal.SIGINT, before)
    assert found.stop_reason == attempts.INTERRUPTED and found.theta.shape[1] > 50
