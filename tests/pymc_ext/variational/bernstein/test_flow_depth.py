"""A flow is trained for as long as that pays over its base, and no longer."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.special import gammaln

import pymc_ext as px
from pymc_ext.density import CallableDensity
from pymc_ext.variational.bernstein import algorithm, whitening
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.base import Affine, Hierarchy
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.bernstein.training.depth import FIRST_BLOCK, Depth
from pymc_ext.variational.bernstein.training.loops import DensityLoop
from pymc_ext.variational.core.course import LEAST_GAIN, Candidate
from pymc_ext.variational.core.defensive import DefensiveMixture
from pymc_ext.variational.core.steps import NonFiniteError, StepOptions
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from tests.pymc_ext.variational.bernstein.test_flow_base import funnel
from tests.tolerances import EXACT

SMALL = FlowShape(order=10, hidden=(6, 6))


def gaussian():
    """N((3, −1), [[1, .9], [.9, 4]]), unnormalised: log Z is half log det 2πΣ."""
    mean, precision = np.array([3.0, -1.0]), np.linalg.inv([[1.0, 0.9], [0.9, 4.0]])
    return CallableDensity(
        lambda x: -0.5 * np.einsum("nd,de,ne->n", x - mean, precision, x - mean),
        lambda x: -(x - mean) @ precision,
        dimension=2,
    )


def log_gamma(shape: float = 1.5, dimension: int = 2):
    """Logs of independent Gamma(shape) variables: skew, with log Z = 0."""
    return CallableDensity(
        lambda x: (shape * x - np.exp(x)).sum(1) - dimension * gammaln(shape),
        lambda x: shape - np.exp(x),
        dimension=dimension,
    )


def poisson(rows: int = 500, dimension: int = 10):
    """A regression of counts on covariates of sd 2: at N(0, I) the ELBO is −1e13."""
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(rows), 2 * rng.standard_normal((rows, dimension - 1))])
    y = rng.poisson(np.exp(X @ np.r_[1.0, 0.15 * rng.standard_normal(dimension - 1)]))
    return CallableDensity(
        lambda b: (y * (b @ X.T) - np.exp(b @ X.T)).sum(1) - (b**2).sum(1) / 50,
        lambda b: (y - np.exp(b @ X.T)) @ X - b / 25,
        dimension=dimension,
    )


# ---- how long --------------------------------------------------------------------------------


def test_of_a_gaussian_the_base_is_exact_and_no_step_is_taken():
    fitted = Bernstein(SMALL).fit(gaussian(), random_seed=1)
    base = BatchMatch().fit(gaussian(), random_seed=1)
    assert fitted.result.iterations == 0 and fitted.result.converged
    assert fitted.result.stop_reason.startswith("the base leaves")
    log_z = np.log(2 * np.pi) + 0.5 * np.log(4.0 - 0.81)
    np.testing.assert_allclose(fitted.result.elbo, log_z, atol=LEAST_GAIN)
    assert isinstance(fitted.q.base, Affine)
    theta, _ = fitted.q.forward(np.random.default_rng(1).standard_normal((50_000, 2)))
    np.testing.assert_allclose(theta.mean(axis=0), base.q.mean, atol=0.05)
    assert fitted.result.gradient_evaluations < 2_000


def test_of_a_funnel_the_map_is_exact_and_the_flow_adds_nothing():
    fitted = Bernstein(SMALL).fit(funnel(), random_seed=1)
    base = Hierarchical().fit(funnel(), random_seed=1)
    assert isinstance(fitted.q.base, Hierarchy)
    assert fitted.result.iterations <= 2 * FIRST_BLOCK
    assert fitted.result.elbo > base.result.elbo - 3 * base.result.elbo_se
    assert abs(fitted.result.elbo) < 0.01  # log Z is 0


def test_a_flow_is_trained_where_it_gains_and_stops_where_it_no_longer_does():
    base = BatchMatch().fit(log_gamma(), random_seed=1)
    assert base.result.elbo < -0.05
    fitted = Bernstein(SMALL, base="match").fit(log_gamma(), random_seed=1)
    result = fitted.result
    assert result.converged and f"{result.iterations} steps in all" in result.stop_reason
    doublings = np.log2(result.iterations / FIRST_BLOCK)
    assert doublings == int(doublings) and result.iterations < 20_000
    assert -0.01 < result.elbo < 3 * result.elbo_se
    assert result.gradient_evaluations == base.result.gradient_evaluations + 10 * result.iterations


@pytest.mark.parametrize(
    ("elbos", "blocks", "converged"),
    [
        # a base that has draws far out in a tail: the first steps lose there, and it comes back
        ([-0.4, -0.7, -0.5, -0.015, -0.0151], 4, True),
        ([-0.4, -5.0, -2.5, -0.45, -0.015, -0.0151], 5, True),
        ([-0.4, -5.0, -4.9], 2, False),  # at this pace it would not
        ([-0.4, -5.0, -5.5], 2, False),
        ([-0.01, -0.02, -0.02], 2, True),  # little was to be gained
        ([-0.4, -0.1, -0.1005, -0.1005], 3, True),  # two that gain nothing: it is level
    ],
)
def test_a_flow_goes_on_while_it_comes_back_to_its_base(elbos, blocks, converged, monkeypatch):
    """Judged at given ELBOs, log Z = 0, with a spread of draws that is nearly the same in all."""
    values = iter(elbos)

    def candidate(self, x):
        elbo = next(values)
        spread = np.random.default_rng(1).choice([-1.0, 1.0], 2000) * np.sqrt(-2 * elbo)
        return Candidate(SimpleNamespace(x=x), elbo + spread - np.mean(spread))

    monkeypatch.setattr(Depth, "candidate", candidate)
    loop = SimpleNamespace(vector=np.zeros(1))
    trainer = SimpleNamespace(loop=loop, block=lambda count: None)
    depth = Depth(trainer, None, np.zeros((2000, 1)))
    level, why = depth.run(20_000, [np.zeros(1)])
    assert level is converged
    assert why.endswith(f"{FIRST_BLOCK * 2 ** (blocks - 1)} steps in all")


def test_the_same_seed_chooses_the_same():
    first, again, other = (
        Bernstein(SMALL, base="match").fit(log_gamma(), random_seed=seed) for seed in (1, 1, 2)
    )
    assert first.result.stop_reason == again.result.stop_reason
    np.testing.assert_array_equal(first.q.x, again.q.x)
    assert not np.array_equal(first.q.x, other.q.x)


def test_no_more_steps_are_taken_than_n():
    result = Bernstein(SMALL, base="match").fit(log_gamma(), n=300, random_seed=1).result
    assert result.iterations == 300
    assert not result.converged
    first, why = result.stop_reason.split("; ")
    assert first.startswith("the last 50 steps gained ") and first.endswith(" nats")
    assert why == "all 300 steps done before the ELBO levelled off: raise n"


@pytest.mark.parametrize("brought", ["steps", "parameters"])
def test_who_brings_steps_or_parameters_of_their_own_has_all_of_n(brought):
    shift = pytensor.shared(0.0, "shift")
    own = {
        "steps": {"obj_optimizer": pm.adam(learning_rate=0.01)},
        "parameters": {"more_obj_params": [shift]},
    }
    with pm.Model():
        pm.Normal("x", shift, 1.0)
        method = px.BernsteinVI(SMALL, base="match", polish=None, random_seed=1)
        approx = pm.fit(30, method=method, progressbar=False, **own[brought])
    assert approx.result.iterations == 30


def test_a_callback_that_stops_leaves_what_is_best_so_far():
    def stop(approx, losses, i):
        if i == FIRST_BLOCK + 20:
            raise StopIteration("enough")

    with pm.Model():
        pm.Exponential("x", 1.0)
        base = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
        method = px.BernsteinVI(SMALL, base=base.q, polish=None, random_seed=1)
        approx = pm.fit(5000, method=method, callbacks=[stop], progressbar=False)
    assert approx.result.iterations == FIRST_BLOCK + 20
    assert "enough" in approx.result.stop_reason
    assert approx.result.elbo > base.result.elbo


def test_a_flow_that_cannot_be_its_base_is_trained_too():
    shape = FlowShape(order=10, hidden=(6, 6), latent="logistic")
    fitted = Bernstein(shape, base="match").fit(log_gamma(), random_seed=1)
    assert fitted.result.converged and fitted.result.elbo > -0.02


@pytest.mark.parametrize(("base", "rate"), [("match", 0.0025), ("identity", 0.005)])
def test_steps_from_a_base_of_many_coordinates_are_smaller(base, rate, monkeypatch):
    seen = []

    def run(self, steps, rate, weight):
        seen.append(rate)
        return np.zeros(steps)

    monkeypatch.setattr(DensityLoop, "run", run)
    Bernstein(SMALL, base=base, polish=None).fit(log_gamma(dimension=20), n=300, random_seed=1)
    np.testing.assert_allclose(max(seen), rate, rtol=EXACT)


# ---- training that fails ---------------------------------------------------------------------


def test_a_training_that_ran_away_leaves_the_base(monkeypatch):
    def away(self, count):
        self.losses.extend([0.0] * count)
        self.loop.vector = self.loop.vector + 3.0

    monkeypatch.setattr(algorithm.Trainer, "block", away)
    base = BatchMatch().fit(log_gamma(), random_seed=1)
    fitted = Bernstein(SMALL, base=base.q, polish=None).fit(log_gamma(), random_seed=1)
    assert "worse than its base" in fitted.result.notes[0]
    assert not fitted.result.converged  # the base leaves .06 nats
    assert fitted.result.iterations == 2 * FIRST_BLOCK  # one more block may make up for the first
    z = np.random.default_rng(1).standard_normal((100, 2))
    np.testing.assert_allclose(fitted.q.forward(z)[1], base.q.forward(z)[1], rtol=EXACT, atol=EXACT)


def test_a_training_without_finite_losses_leaves_the_base(monkeypatch):
    def nowhere(self, count):
        self.losses.extend([np.nan] * count)
        raise NonFiniteError("the loss was not finite")

    monkeypatch.setattr(algorithm.Trainer, "block", nowhere)
    fitted = Bernstein(SMALL, base="match", polish=None).fit(log_gamma(), random_seed=1)
    assert "the loss was not finite" in fitted.result.stop_reason
    assert not fitted.result.converged
    assert "worse than its base" in fitted.result.notes[0]


def test_a_base_that_was_kept_can_be_refined(monkeypatch):
    """The flow that changes nothing has no gradient: steps go on from one that nearly does."""

    def none(self, budget, starts):
        self._offer(next(iter(starts)))
        self.settle()
        return True, "kept"

    algorithm_ = Bernstein(SMALL, base="match", polish=None)
    with monkeypatch.context() as here:
        here.setattr(Depth, "run", none)
        kept = algorithm_.fit(log_gamma(), random_seed=1)
    np.testing.assert_array_equal(kept.q.x, kept.q.identity())
    refined = algorithm_.fit(log_gamma(), random_seed=1, state=kept.state)
    assert refined.result.elbo > kept.result.elbo + 0.02


@pytest.mark.parametrize("rate", [0.005, 0.1])
def test_a_flow_that_ran_away_from_the_start_is_the_start_again(rate):
    """Exponentiated, a few draws far out make most of the ELBO, of its gradient, and of errors."""
    density, n = poisson(), {0.005: 20, 0.1: 1000}[rate]
    step = StepOptions(learning_rate=rate)
    fitted = Bernstein(base="identity", polish=None, step=step).fit(density, n=n, random_seed=1)
    assert "worse than its base" in fitted.result.notes[0]
    assert "base='hierarchical'" in fitted.result.notes[1]
    assert fitted.result.usable is False
    z = np.random.default_rng(0).standard_normal((50, 10))
    np.testing.assert_allclose(fitted.q.forward(z)[0], z, rtol=EXACT, atol=EXACT)
    mended = Bernstein(SMALL).fit(density, n=n, random_seed=1).result
    assert mended.usable and mended.elbo > 0


# ---- the base by default ---------------------------------------------------------------------


def test_an_order_of_ones_own_or_a_noisy_density_starts_from_the_start():
    with pm.Model():
        pm.Normal("a")
        pm.Normal("b", 0, 1, shape=2)
        shape = FlowShape(order=3, hidden=(4,), ordering=["b", "a"])
        approx = pm.fit(
            5, method=px.BernsteinVI(shape, polish=None, random_seed=1), progressbar=False
        )
    assert approx.result.iterations == 5
    assert approx.q.base.factor is None
    with pm.Model():
        mu = pm.Normal("mu")
        batch = pm.Minibatch(np.arange(100.0) / 50, batch_size=10)
        pm.Normal("y", mu, 1.0, observed=batch, total_size=100)
        method = px.BernsteinVI(SMALL, random_seed=1)
        approx = pm.fit(5, method=method, progressbar=False)
    assert approx.result.iterations == 5


def test_without_a_map_the_base_is_the_start_and_it_says_so(monkeypatch, caplog):
    def none(*_):
        raise ValueError("no path")

    monkeypatch.setattr(whitening, "_fit", none)
    with caplog.at_level(logging.WARNING):
        fitted = Bernstein(SMALL, polish=None).fit(gaussian(), n=5, random_seed=1)
    note = "base identity, as there is no hierarchical map: no path"
    assert note in caplog.text and fitted.result.notes[0] == note
    assert fitted.result.iterations == 5


def test_an_improper_posterior_is_named_and_not_fitted():
    flat = CallableDensity(
        lambda x: -0.5 * x[:, 0] ** 2,
        lambda x: np.column_stack([-x[:, 0], 0 * x[:, 1]]),
        dimension=2,
    )
    with pytest.raises(ValueError, match="improper"):
        Bernstein(SMALL).fit(flat, random_seed=1)


# ---- for weights -----------------------------------------------------------------------------


def test_a_proposal_with_heavier_tails_lies_beside_a_flow_that_needs_it():
    with pm.Model():
        pm.StudentT("x", nu=2.5, mu=0.0, sigma=1.0, shape=2)
        shape = FlowShape(order=5, hidden=(6, 6), tails="linear")
        approx = pm.fit(
            method=px.BernsteinVI(shape, base="match", random_seed=1), progressbar=False
        )
    assert isinstance(approx.proposal, DefensiveMixture)
    assert approx.result.khat < approx.result.fresh.khat
    theta, _, lq = approx.weighted_draws(2000, random_seed=1)
    assert theta.shape == (2000, 2)
    of_q = approx.q.log_density(theta) + approx.proposal.log_ratio(approx.q.inverse(theta))
    np.testing.assert_allclose(of_q, lq, atol=1e-6)


# ---- how gains are known ---------------------------------------------------------------------


def candidates(width: float, mean: float = 0.0, draws: int = 400, seed: int = 1):
    """q = N(mean, width²) for N(0, 1), its ELBO, and N(0, 1.2²) on the same normals."""
    z = np.random.default_rng(seed).standard_normal((draws // 2, 1))
    z = np.concatenate([z, -z])

    def made(mean, width):
        x = mean + width * z[:, 0]
        return Candidate(
            DiagonalGaussian(np.array([mean]), np.array([width])),
            -0.5 * x**2 + 0.5 * z[:, 0] ** 2 + np.log(width),
        )

    return made(mean, width), made(0.0, 1.2)


def test_a_gain_known_by_weights_has_the_same_mean_and_less_noise():
    truth = (0.5 * (1.2**2 - 1) - np.log(1.2)) - (0.5 * (1.1**2 - 1 + 0.2**2) - np.log(1.1))
    by_weights, plain = [], []
    for seed in range(200):
        better, worse = candidates(1.1, 0.2, seed=seed)
        by_weights.append(better.gain_by_weights(worse))
        plain.append(better.gain_over(worse))
    for found in (np.array(by_weights), np.array(plain)):
        error = found[:, 0].std() / np.sqrt(200)
        assert abs(found[:, 0].mean() - truth) < 4 * error + 1e-3
        np.testing.assert_allclose(found[:, 1].mean(), found[:, 0].std(), rtol=0.25)
    assert np.std(by_weights, axis=0)[0] < 0.7 * np.std(plain, axis=0)[0]


def test_where_weights_know_nothing_it_is_the_difference_of_elbos():
    far, wide = candidates(1.0, 3.0)
    assert far.gain_by_weights(wide) == far.gain_over(wide)
    holed = Candidate(wide.q, np.where(np.arange(400) == 3, -np.inf, wide.log_ratios))
    assert holed.gain_by_weights(wide) == holed.gain_over(wide)
    assert wide.gain_by_weights(wide) == (0.0, 0.0)
