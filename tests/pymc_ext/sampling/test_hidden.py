"""What a map hides: found by chains without it, and never where nothing is hidden."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.sampling import attempts
from pymc_ext.sampling.blocks import Chains
from pymc_ext.sampling.hidden import CHAINS, hidden_by
from pymc_ext.sampling.hmc import HMC
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from tests.needed import needs
from tests.pymc_ext.sampling.targets import Puppeteer, gaussian, require_moments

SHARE, FAR, WIDE = 0.12, 5.0, 2.0  # of a broad region beside N(0, I): its mass, middle and sds


class Squeezed:
    """θ₀ = v₀ up to 2; from there on it goes as the logarithm, so that 6 is at v₀ = 2 e⁴."""

    dimension = latent_dimension = 2

    def forward(self, z):
        x = z[:, 0]
        beyond = np.maximum(x, 2.0)
        theta = np.column_stack([np.where(x < 2, x, 2 + np.log(beyond / 2)), z[:, 1]])
        return theta, standard_normal_logp(z) + np.where(x < 2, 0.0, np.log(beyond))

    def inverse(self, theta):
        t = theta[:, 0]
        return np.column_stack([np.where(t < 2, t, 2 * np.exp(np.maximum(t, 2) - 2)), theta[:, 1]])

    def pullback(self, z, score):
        beyond = np.maximum(z[:, :1], 2.0)
        slope = np.where(z[:, :1] < 2, 1.0, 1 / beyond)
        of_det = np.where(z[:, :1] < 2, 0.0, -1 / beyond)
        return np.hstack([score[:, :1] * slope + of_det, score[:, 1:]])


def beside(share=SHARE):
    """(1 − share) N(0, I) + share N((FAR, 0), WIDE² I)."""
    middle = np.array([FAR, 0.0])

    def parts(x):
        bulk = np.log1p(-share) - 0.5 * (x**2).sum(1)
        broad = np.log(share) - 2 * np.log(WIDE) - 0.5 * ((x - middle) ** 2).sum(1) / WIDE**2
        return np.stack([bulk, broad])

    def gradient(x):
        logs = parts(x)
        of_bulk, of_broad = np.exp(logs - np.logaddexp(*logs))[..., None]
        return -of_bulk * x - of_broad * (x - middle) / WIDE**2

    return CallableDensity(lambda x: np.logaddexp(*parts(x)), gradient, dimension=2)


def chains_in(density, q, seed, draws=200):
    counted = CountedDensity(density)
    starts = np.random.default_rng(seed).standard_normal((8, density.dimension))
    found = Chains(HMC(density, q, starts, seed, Sampling()), counted, q)
    found.warm_up(np.inf)
    found.extend(draws)
    return counted, found


def test_the_map_of_the_test_is_a_map():
    z = np.random.default_rng(1).normal(0, 3, (20, 2))
    theta, log_q = Squeezed().forward(z)
    np.testing.assert_allclose(Squeezed().inverse(theta), z, rtol=1e-12)
    step = 1e-6 * np.array([1.0, 0.0])
    there, back = Squeezed().forward(z + step), Squeezed().forward(z - step)
    log_det = np.log((there[0] - back[0])[:, 0] / 2e-6)
    np.testing.assert_allclose(standard_normal_logp(z) - log_q, log_det, atol=1e-6)
    score = np.random.default_rng(2).normal(size=(20, 2))
    by_det = (standard_normal_logp(z + step) - there[1]) - (
        standard_normal_logp(z - step) - back[1]
    )
    slope = (score * (there[0] - back[0])).sum(1) / 2e-6 + by_det / 2e-6
    np.testing.assert_allclose(Squeezed().pullback(z, score)[:, 0], slope, atol=1e-6)


def test_a_region_that_the_map_squeezes_is_met_by_chains_without_it():
    """The region has 12 % of the mass, and chains in v all but none of their draws there."""
    met = []
    for seed in range(10):
        density, chains = chains_in(beside(), Squeezed(), seed)
        assert np.mean(chains.theta[..., 0] > FAR) < SHARE / 4
        before = density.gradients
        found = hidden_by(density, Squeezed(), chains, np.random.default_rng(seed))
        assert density.gradients - before == CHAINS * 129
        met.append(found is not None)
        assert found is None or (found[:, 0] > 2).all()
    assert sum(met) >= 8


@pytest.mark.parametrize(
    "density",
    [
        gaussian(np.zeros(2), np.eye(2)),
        gaussian(np.zeros(2), np.array([[4.0, 1.9], [1.9, 1.0]])),
        CallableDensity(  # t of five degrees of freedom in each coordinate
            lambda x: -3 * np.log1p(x**2 / 5).sum(1), lambda x: -6 * x / (5 + x**2), dimension=2
        ),
    ],
    ids=["normal", "correlated", "heavy"],
)
def test_nothing_is_hidden_where_draws_are_of_the_posterior(density):
    q, met = DiagonalGaussian(np.zeros(2), np.ones(2)), 0
    for seed in range(40):
        counted, chains = chains_in(density, q, seed)
        met += hidden_by(counted, q, chains, np.random.default_rng(seed)) is not None
    assert met <= 2  # of 40


def test_chains_go_on_without_a_map_that_hides_something():
    needs("nutpie")
    from pymc_ext.sampling.nutpie import NutpieNUTS

    q = Squeezed()
    found = sample(beside(), q, NutpieNUTS(), seed=1, in_step=True)
    assert found.trusted and not found.in_map, found.verdict
    assert "hide a region" in found.notes[0]
    mean = np.array([SHARE * FAR, 0.0])
    square = 1 - SHARE + SHARE * (WIDE**2 + np.array([FAR**2, 0.0]))
    require_moments(found.theta, mean, np.sqrt(square - mean**2))
    kept = sample(beside(), q, NutpieNUTS(), seed=1, in_step=True, fall_back=False)
    assert kept.in_map and not kept.trusted and attempts.HIDES in kept.verdict


def test_it_is_not_asked_of_a_q_that_is_nearly_right_nor_without_an_inverse(monkeypatch):
    monkeypatch.setattr("pymc_ext.sampling.run.hidden_by", lambda *args: pytest.fail("asked"))
    q = DiagonalGaussian(np.zeros(2), np.ones(2))
    found = sample(gaussian(np.zeros(2), np.eye(2)), q, Puppeteer(), seed=1, in_step=True)
    assert found.trusted and found.in_map
    monkeypatch.undo()

    class NoInverse(Squeezed):
        inverse = None

    counted, chains = chains_in(beside(), Squeezed(), 1)
    assert hidden_by(counted, NoInverse(), chains, np.random.default_rng(1)) is None


def test_an_interrupt_during_the_look_keeps_the_draws_which_are_not_trusted(monkeypatch):
    def pressed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("pymc_ext.sampling.run.hidden_by", pressed)
    q = DiagonalGaussian(np.zeros(2), np.full(2, 3.0))
    found = sample(gaussian(np.zeros(2), np.eye(2)), q, Puppeteer(), seed=1, in_step=True)
    assert found.in_map and not found.trusted and found.theta.shape[1] > 0
    assert found.stop_reason == attempts.INTERRUPTED
