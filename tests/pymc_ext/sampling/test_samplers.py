"""Samplers on any density: exact cases within Monte Carlo error, seeds, counts, failures."""

import threading
import time

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, DensityError
from pymc_ext.sampling.nutpie import NutpieChain, NutpieNUTS
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.pymc_nuts import PyMCNUTS
from pymc_ext.sampling.run import sample
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from tests.needed import needs
from tests.pymc_ext.sampling.targets import FunnelMap, failing, funnel, gaussian, require_moments

SAMPLERS = {"nutpie": NutpieNUTS, "pymc": PyMCNUTS}
MEAN = np.array([5.0, -1.0, 3000.0])
ROOT = np.array([[1e-3, 0, 0], [1.0, 2.0, 0], [-200.0, 50.0, 400.0]])
SD = np.sqrt((ROOT**2).sum(1))
needs("nutpie")


@pytest.fixture(params=list(SAMPLERS))
def sampler(request):
    return SAMPLERS[request.param]()


class Counted:
    """A density that counts its scores by itself."""

    def __init__(self, density):
        self.density, self.dimension, self.scores = density, density.dimension, 0

    def log_density(self, theta):
        return self.density.log_density(theta)

    def log_density_gradient(self, theta):
        self.scores += len(theta)
        return self.density.log_density_gradient(theta)


def test_a_badly_scaled_gaussian_in_its_own_coordinates(sampler):
    density, q = Counted(gaussian(MEAN, ROOT @ ROOT.T)), Gaussian(MEAN, ROOT)
    found = sample(density, q, sampler, seed=1)
    assert found.trusted and found.in_map and found.sampler == sampler.name
    require_moments(found.theta, MEAN, SD)
    assert found.gradient_evaluations == density.scores
    steps = int(found.statistics["n_steps"].sum())
    ahead = found.gradient_evaluations - found.warm_up_gradients - steps
    assert abs(ahead) < 4 * 32  # nutpie makes a draw ahead
    again = sample(density, q, sampler, seed=1)
    np.testing.assert_array_equal(found.theta, again.theta)
    assert again.gradient_evaluations == found.gradient_evaluations


def test_an_infinite_density_is_no_hard_edge(sampler):
    """Beyond 3.6 sds of one normal of two: two or three in ten thousand draws lie there."""

    def log_p(x):
        return np.where(x[:, 0] > 3.6, beyond, -0.5 * (x**2).sum(1))

    beyond, density = np.inf, CallableDensity(log_p, lambda x: -x, dimension=2)
    q = DiagonalGaussian(np.zeros(2), np.ones(2))
    found = sample(density, q, sampler, Sampling(ess=4000), seed=1)
    assert not found.diagnostics.diverges  # by which alone it would be trusted
    assert not found.trusted
    assert "log p̃ is +∞ at" in found.reasons[0] and "there is no posterior" in found.reasons[0]
    beyond = -np.inf
    assert sample(density, q, sampler, Sampling(ess=4000), seed=1).trusted


def test_a_funnel_in_the_coordinates_of_its_own_law(sampler):
    found = sample(funnel(), FunnelMap(), sampler, Sampling(ess=1000), seed=2)
    assert found.trusted and found.in_map and found.diagnostics.divergences == 0
    s, x = found.theta[..., :1], found.theta[..., 1:]
    require_moments(s, np.zeros(1), np.full(1, 1.5))
    require_moments(x * np.exp(-s), np.zeros(4), np.ones(4))


def test_it_adapts_by_itself_without_a_map(sampler):
    sd = np.array([0.1, 1.0, 10.0])
    found = sample(gaussian(MEAN / 1000, np.diag(sd**2)), None, sampler, seed=3)
    assert found.trusted and not found.in_map
    require_moments(found.theta, MEAN / 1000, sd)


def test_points_outside_the_support_are_rejected(sampler):
    exponential = CallableDensity(
        lambda x: np.where(x[:, 0] > 0, -x[:, 0], -np.inf),
        lambda x: np.where(x > 0, -1.0, np.nan), dimension=1,
    )  # fmt: skip
    q = DiagonalGaussian(np.ones(1), np.ones(1))
    found = sample(exponential, q, sampler, seed=4)
    assert (found.theta > 0).all()
    require_moments(found.theta, np.ones(1), np.ones(1))


def test_an_error_of_the_density_reaches_the_caller(sampler):
    density = failing(50, LookupError("no data here"))
    with pytest.raises(LookupError, match="no data here"):
        sample(density, DiagonalGaussian(np.zeros(2), np.ones(2)), sampler, seed=5)


def test_a_warm_up_ends_when_it_has_spent_the_budget(sampler):
    """30 starts of one's own take 100 transitions each, 10,000 gradients and more."""

    def slow(x):
        time.sleep(1e-3)
        return -x

    density = Counted(CallableDensity(lambda x: -0.5 * (x**2).sum(1), slow, dimension=2))
    starts = np.random.default_rng(6).normal(size=(30, 2))
    with pytest.raises(ValueError, match=r"budget of 300 gradients went before .* drawn anything"):
        sample(
            density, DiagonalGaussian(np.zeros(2), np.ones(2)), sampler, Sampling(budget=300),
            seed=6, extra_starts=starts,
        )  # fmt: skip
    assert density.scores < 5_000  # looked at each 0.1 s; each chain ends its transition


def test_a_thousand_dimensions_need_no_room_for_every_draw_there_might_be(sampler):
    """nutpie reserves what it is told of: 10⁷ draws would be 80 GB."""
    D = 1000
    density = CallableDensity(lambda t: -0.5 * (t**2).sum(1), lambda t: -t, dimension=D)
    q = DiagonalGaussian(np.zeros(D), np.ones(D))
    found = sample(density, q, sampler, Sampling(ess=50, chains=2), seed=1)
    assert found.in_map and found.theta.shape[-1] == D


def test_a_flat_density_is_refused_in_words():
    """nutpie's own refusal ends its thread, and at times the process that asks."""

    def log_density(x):
        return np.where(np.all(np.abs(x) < 3, axis=1), 0.0, -np.inf)

    box = CallableDensity(log_density, np.zeros_like, dimension=2)
    with pytest.raises(DensityError, match="the score is zero at and beside the start"):
        sample(box, None, NutpieNUTS(), seed=1)


@pytest.mark.parametrize("name", ["PanicException", "RuntimeError"])
def test_what_ends_nutpies_thread_does_not_end_the_process(name, monkeypatch):
    """pyo3's panic is a BaseException: it becomes a RuntimeError, without its stack."""
    kind = RuntimeError if name == "RuntimeError" else type(name, (BaseException,), {})

    class Panics:
        @property
        def is_finished(self):
            raise kind("bad initial gradient\n\nStack backtrace:\n   0: <unknown>\n   1: <unknown>")

    chain = NutpieChain.__new__(NutpieChain)
    chain._nutpie = Panics()
    with pytest.raises(RuntimeError, match="nutpie ended the chain: bad initial gradient"):
        chain._require_alive()


def test_a_chain_that_was_stopped_evaluates_no_more():
    """Others are about to evaluate the same density, which may not be entered by two threads."""
    calls = []

    def score(theta):
        calls.append(theta)
        time.sleep(0.02)
        return -theta

    density = CallableDensity(lambda theta: -0.5 * (theta**2).sum(1), score, dimension=2)
    chain = NutpieChain(density, np.ones(2), 10, 1, Sampling())
    try:
        chain.warm_up()
        drawn = threading.Thread(target=chain.draw, args=(10_000,))
        drawn.start()
        time.sleep(0.2)
        chain.stop()
        drawn.join(10)
        before = len(calls)
        time.sleep(0.2)
        assert not drawn.is_alive() and len(calls) == before > 10
    finally:
        chain.close()
