"""Conditional laws of hierarchical models in the necks of funnels, and marginals from slices."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from posteriordb_cases.zoo.table import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.maths.marginal import Marginal
from pymc_ext.variational.core.defensive import defended
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from pymc_ext.variational.hierarchical import rows as rows_module
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.growth import Growth, with_other_law
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.necks import NeckTraining
from pymc_ext.variational.hierarchical.roots import DenseRoot
from pymc_ext.variational.hierarchical.rows import LONGEST_MEAN, mean_steps
from pymc_ext.variational.hierarchical.slices import PLACES, Slices, governors_of, lacking
from tests.tolerances import EXACT

Y, SIGMA = np.array([3.0, -1.0, 8.0]), np.array([4.0, 5.0, 3.0])
D = 2 + len(Y)


def conditional_law(t, mu):
    """Means and sds of x_j | μ, log τ = t, y_j ~ N(x_j, σ_j²), (N, J) each."""
    share = np.exp(2 * t) / (np.exp(2 * t) + SIGMA**2)
    return mu + share * (Y - mu), SIGMA * np.sqrt(share)


class Hierarchy:
    """log τ with any law, μ | τ whose sd has a governor too, x | μ, τ as in a normal hierarchy.

    The sd of μ falls to a ``floor`` in the neck, as a group mean's does, or rises to a ceiling.
    """

    dimension, unconstrained_names = D, ["t", "mu", *(f"x[{j}]" for j in range(len(Y)))]

    def __init__(self, exponential_tail=False, floor=False):
        self.exponential_tail, self.floor = exponential_tail, floor

    def log_density(self, theta):
        t, mu, x = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        mean, sd = conditional_law(t, mu)
        own = t[:, 0] - np.exp(t[:, 0]) if self.exponential_tail else -0.5 * (t[:, 0] - 0.3) ** 2
        spread = self.spread(t)
        lp = own - 0.5 * (mu[:, 0] - 1) ** 2 / spread[:, 0] ** 2 - np.log(spread[:, 0])
        return lp - np.sum(0.5 * ((x - mean) / sd) ** 2 + np.log(sd), axis=1)

    def spread(self, t):
        """sd of μ: √(g / g₀) with g = sigmoid(2 (t − 1)), or √(1 + e^(2t))."""
        if self.floor:
            return np.sqrt(1 + np.exp(2 * t))
        return np.sqrt((1 + np.exp(2)) / (1 + np.exp(-2 * (t - 1))))

    def log_density_gradient(self, theta):
        h = 1e-6
        score = [
            (self.log_density(theta + h * e) - self.log_density(theta - h * e)) / (2 * h)
            for e in np.eye(D)
        ]
        return self.log_density(theta), np.stack(score, axis=1)


def exact_map(floor=False):
    """q = p of `Hierarchy`: C = ±1 on log τ, ℓ = μ, whatever law μ has."""
    C, H, L = np.zeros((D, D)), np.zeros((D, D)), np.eye(D)
    offset, mean = np.r_[0.0, -1.0, -np.log(SIGMA)], np.zeros(D)
    offset[2:] += 0.3  # w of log τ is t − .3
    offset[1] += 0.3
    gate = 1 / (1 + np.exp(-2 * offset))
    C[1:, 0] = 1.0
    L[1, 1] = np.sqrt(gate[1] * (1 + np.exp(2)))  # sd of μ where the gate is half open
    sense = np.ones(D)
    if floor:  # 1 / g = 1 + e^(2t)
        sense[1], C[1, 0], offset[1] = -1.0, -1.0, -0.3
        L[1, 1] = np.sqrt(1 + np.exp(0.6))
    own = SIGMA * np.sqrt(gate[2:])
    np.fill_diagonal(L[2:, 2:], own)
    # x = μ + g (y − μ), μ = 1 + L₁₁ w₁
    L[2:, 1] = L[1, 1]
    H[2:, 1] = -L[1, 1] / own
    mean[2:] = (Y - 1) / own
    center = np.r_[0.3, 1.0, np.ones(len(Y))]
    none = np.zeros((D, D))
    identity = Marginal.identity(D)
    return HierarchicalMap(
        np.arange(D), center, DenseRoot(L), C, none, H, offset, mean, identity, sense
    )


@pytest.mark.parametrize("floor", [False, True])
def test_the_law_of_a_hierarchy_is_one_of_the_maps_to_the_bottom_of_its_neck(floor) -> None:
    """Log ratios are constant, with a group mean whose own scale is governed."""
    q, density = exact_map(floor), Hierarchy(floor=floor)
    v = np.random.default_rng(1).standard_normal((200, D))
    v[:50, 0] = -8.0  # τ = e^−7.7
    theta, log_q = q.forward(v)
    log_ratios = density.log_density(theta) - log_q
    np.testing.assert_allclose(log_ratios, log_ratios[0], atol=1e-8)


@pytest.mark.parametrize("floor", [False, True])
def test_what_moves_takes_all_that_depends_on_it_along(floor) -> None:
    """Another mean and scale of μ given log τ: x given μ is as before, in the neck as well."""
    q, density = exact_map(floor), Hierarchy(floor=floor)
    step = np.zeros((D, D))
    step[1, 0] = 0.2
    wider, one = np.r_[1.0, 1.1, np.ones(D - 2)], np.ones(D)
    v = np.random.default_rng(1).standard_normal((200, D))
    v[:50, 0] = -6.0
    for moved in (
        q.with_root(q.root.changed(wider, step), step + np.diag(wider - 1)),
        q.moved(0.3 * np.eye(D)[1], one),
        q.moved(0.2 * np.eye(D)[0], np.r_[1.3, one[1:]]),
    ):
        at = moved.at(v)
        scores = density.log_density_gradient(moved.theta(at))[1]
        r = moved.pullback_at(at, scores) + v
        assert np.abs(r[:, :2]).max() > 0.1
        np.testing.assert_allclose(r[:, 2:], 0.0, atol=1e-4)  # scores are differences


@pytest.mark.parametrize("floor", [False, True])
def test_a_law_turned_is_the_same_to_first_order(floor) -> None:
    q, rows = exact_map(floor), np.arange(D) == 1
    other = with_other_law(q, rows)
    assert (other.sense != q.sense)[1] and (other.sense == q.sense)[2:].all()
    v = 1e-4 * np.random.default_rng(1).standard_normal((50, D))
    difference = other.forward(v)[0] - q.forward(v)[0]
    assert 0 < np.abs(difference).max() < 1e-6


def spoilt(q):
    """The means of x as some hundred draws tell them: good to a hundredth of their sds."""
    rng = np.random.default_rng(2)
    noise = np.tril(0.02 * rng.standard_normal((D, D)), -1)
    noise[:2] = 0.0
    return replace(
        q, root=DenseRoot(q.root.as_matrix() + noise), gated=q.gated + noise * (q.gated != 0)
    )


def free_means(q):
    below = np.tri(D, k=-1) > 0
    rows = np.zeros((D, D), dtype=bool)
    rows[2:] = True
    return Free(
        q.scales != 0, below & False, below & rows, below | np.eye(D, dtype=bool), np.zeros(D) > 0
    )


def test_draws_far_out_tell_the_means_in_the_neck() -> None:
    q, density = spoilt(exact_map()), CountedDensity(Hierarchy())
    before = Slices.along(density, q, 0, np.random.default_rng(0))
    assert before.law_fails and before.mean[0] < before.mean[8] - 5
    training = NeckTraining(density, q, free_means(q), np.random.default_rng(1), elbo=-3.0)
    for training.since_restart in range(8):
        assert training.advance() == 3.0  # the ELBO that it was told
    after = Slices.along(density, training.q, 0, np.random.default_rng(0))
    assert not after.law_fails
    np.testing.assert_allclose(after.mean, after.mean[8], atol=0.02)
    np.testing.assert_array_equal(training.q.root.as_matrix()[0], q.root.as_matrix()[0])


def test_slices_tell_the_marginal_of_a_governor() -> None:
    """log τ with an exponential tail to zero: s(t) = log p(v_0 = t) − log φ(t) + log Z."""
    density, q = CountedDensity(Hierarchy(exponential_tail=True)), exact_map()
    found = Slices.along(density, q, 0, np.random.default_rng(0))
    t = PLACES + 0.3
    expected = t - np.exp(t) + 0.5 * PLACES**2
    difference = found.mean - expected
    np.testing.assert_allclose(difference, difference[0], atol=1e-8)
    assert found.lacks_tail
    assert density.values == 10 * len(PLACES) and density.gradients == 0

    fitted = found.fitted(q)
    z = np.random.default_rng(3).standard_normal((40_000, D))
    ess = {}
    for name, of in (("before", q), ("after", fitted)):
        theta, log_q = of.forward(z)
        w = np.exp(Hierarchy(exponential_tail=True).log_density(theta) - log_q)
        ess[name] = w.sum() ** 2 / (w**2).sum() / len(w)
    assert ess["before"] < 0.6 and ess["after"] > 0.95


def test_a_governor_with_the_right_tails_lacks_none() -> None:
    density, q = CountedDensity(Hierarchy()), exact_map()
    assert governors_of(q) == [0]
    assert lacking(density, q, np.random.default_rng(0)).shape == (0, D)
    lighter = replace(q, root=DenseRoot(q.root.as_matrix() @ np.diag([0.8, 1, 1, 1, 1])))
    lighter = replace(lighter, scales=0.8 * q.scales)
    np.testing.assert_array_equal(
        lacking(density, lighter, np.random.default_rng(0)), np.eye(D)[:1]
    )


def test_slices_beyond_an_edge_are_left_out() -> None:
    t = np.full(len(PLACES), -np.inf)
    t[:4] = 0.0
    assert Slices(0, t, np.zeros_like(t)).fitted(exact_map()) is None


def test_a_direction_that_is_known_is_defended_whatever_draws_show() -> None:
    q = DiagonalGaussian(np.zeros(2), np.ones(2))
    density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    fresh = replace(fresh, khat=0.1)  # of constant weights it is NaN
    assert defended(q, density, fresh, seed=1) == (None, None)
    proposal, found = defended(q, density, fresh, 1, np.array([[0.0, 1.0], [0.1, 0.995]]))
    np.testing.assert_array_equal(proposal.directions, [[0.0, 1.0]])  # the other is the same
    assert found.draws == fresh.draws


class Judged:
    """A candidate whose ELBO is known without error."""

    gap = 0.0

    def __init__(self, elbo):
        self.elbo = elbo

    def gain_over(self, other):
        return self.elbo - other.elbo, 0.0


def test_what_was_not_to_be_pinned_is_not_tried_again(monkeypatch) -> None:
    course = SimpleNamespace(offer=lambda q: Judged(0.0))
    growth = Growth(Hierarchy(), course, np.random.default_rng(1), exact_map(), moments=None)
    tried, worse, better = [], Judged(-1.0), Judged(1.0)
    monkeypatch.setattr(growth, "_pinned", lambda of: tried.append(of) or worse)
    first = growth.best
    growth._pin()
    growth._pin()
    assert growth.best is first and tried == [first]
    growth.best = another = Judged(0.5)
    monkeypatch.setattr(growth, "_pinned", lambda of: tried.append(of) or better)
    growth._pin()
    assert growth.best is better and tried == [first, another]


# ---- what one row solves ---------------------------------------------------------------------


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    n, R = 400, 3
    w = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
    gate = rng.uniform(0, 1, (n, R))
    precision = rng.uniform(0.5, 20.0, (n, R))
    place = np.array([[0, 1, 2], [0, 3, 0], [0, 2, 3]])
    real = np.array([[True, True, True], [True, True, False], [True, True, True]])
    straight, through = 0.1 * rng.standard_normal((2, R, 3)) * real
    own = w[:, place]
    error = np.einsum("nrp,rp->nr", own, straight) + gate * np.einsum("nrp,rp->nr", own, through)
    return precision * error, gate, precision, w, place, real, straight, through


def test_means_that_are_off_are_found_in_one_step(batch) -> None:
    *arguments, straight, through = batch
    found = mean_steps(*arguments)
    for part, expected in zip(found, (straight, through), strict=True):
        np.testing.assert_allclose(part, expected, atol=0.01)  # a ridge of RIDGE beside 1


def test_a_long_step_is_shortened_as_a_whole(batch) -> None:
    """In a neck two entries cancel, which they would not if each were cut by itself."""
    h, *arguments, _, _ = batch
    short, long = (np.concatenate(mean_steps(f * h, *arguments), axis=1) for f in (1, 100))
    assert np.abs(long).max() <= LONGEST_MEAN
    np.testing.assert_allclose(long / long[:, :1], short / short[:, :1], rtol=1e-9)


def test_rows_in_parts_are_the_same(batch, monkeypatch) -> None:
    *arguments, _, _ = batch
    whole = mean_steps(*arguments)
    monkeypatch.setattr(rows_module, "FEW_GOVERNORS", 0)  # each row's own columns, one at a time
    monkeypatch.setattr(rows_module, "NUMBERS_TOGETHER", 1)
    for part, expected in zip(mean_steps(*arguments), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=EXACT)


def test_many_means_are_solved_for_by_pairs(batch, monkeypatch) -> None:
    """Along one column alone both are the same."""
    h, gate, precision, w, *_ = batch
    place, real = np.array([[1], [2], [3]]), np.ones((3, 1), dtype=bool)
    together = mean_steps(h, gate, precision, w, place, real)
    monkeypatch.setattr(rows_module, "FEW_MEANS", 0)
    for pair, expected in zip(
        mean_steps(h, gate, precision, w, place, real), together, strict=True
    ):
        np.testing.assert_allclose(pair, expected, rtol=1e-9)


# ---- the whole -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_posterior_of_few_rows_is_one_of_the_maps(seed) -> None:
    """The scales of a regression's coefficients have no ceiling: of four rows sds came out half."""
    target = ZOO["regression-4"].make()
    fresh = Hierarchical().fit(target, random_seed=seed).result.fresh
    assert fresh.log_marginal_is - target.log_z == pytest.approx(0.0, abs=0.01)
    assert fresh.ess > 0.95 * fresh.draws


@pytest.mark.parametrize("name", ["groups-4", "groups-7", "schools-centred"])
def test_centred_hierarchies_of_few_groups(name) -> None:
    """Their neck holds 2 to 5 % of the mass, and a fifth of the variance of log τ."""
    target = ZOO[name].make()
    truth = target.draws(200_000, np.random.default_rng(0))[:, 1]
    below = np.log(0.1)
    for seed in (1, 2):
        fit = Hierarchical().fit(target, random_seed=seed)
        r = fit.proposal or fit.q
        z = np.random.default_rng(seed).standard_normal((20_000, r.latent_dimension))
        theta, log_r = r.forward(z)
        w = np.exp(target.log_density(theta) - log_r - target.log_z)
        assert w.sum() ** 2 / (w**2).sum() > 0.5 * len(w)
        assert np.log(w.mean()) == pytest.approx(0.0, abs=0.02)
        t = theta[:, 1]
        assert np.average(t < below, weights=w) > 0.6 * np.mean(truth < below)
        sd = np.sqrt(np.average((t - np.average(t, weights=w)) ** 2, weights=w))
        assert 0.9 < sd / truth.std() < 1.05
