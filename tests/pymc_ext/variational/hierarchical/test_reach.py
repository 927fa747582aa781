"""Weights that reach the tails of governors which a map lacks."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from posteriordb_cases.zoo import ZOO
from posteriordb_cases.zoo.schools import Groups
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.maths.psis import psislw
from pymc_ext.variational.core.attributes import attributes_of
from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.hierarchical import reach
from pymc_ext.variational.hierarchical.algorithm import LAW_SERVES, Hierarchical, note_on
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.maxima import quadratic_part
from pymc_ext.variational.hierarchical.others import Others
from pymc_ext.variational.hierarchical.reach import (
    Reached,
    governors,
    is_of_all,
    joined,
    law_of_crossing,
    law_of_governors,
    missed_in_scans,
    reaching,
    scanned_spreads,
)
from pymc_ext.variational.hierarchical.scan import Middle
from tests.pymc_ext.variational.hierarchical.funnels import draws_of_funnel, funnel

LOG_Z = 2.5 * np.log(2 * np.pi)


def narrow_map():
    """The funnel's map with a third of the sd of log τ, and all that it governs."""
    q = Hierarchical(necks=False).fit(funnel(), random_seed=1).q
    factor = np.ones(q.governors)
    factor[q.place[0]] = 0.33
    return q.moved(np.zeros(5), factor)


def test_weights_of_a_map_without_the_neck_have_it() -> None:
    q, density = narrow_map(), CountedDensity(funnel())
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    reached = reaching(q, density, fresh, None, None, seed=1)
    assert isinstance(reached.proposal, PosteriorMixture) and reached.proposal.components[0] is q
    assert reached.fresh.khat < 0.5 < fresh.khat  # q's own draws were a bad sample of the neck
    assert reached.missed.startswith("a tail of log_tau (sd 0.") and "method 1)" in reached.missed
    error = 1 / np.sqrt(reached.fresh.ess)
    assert abs(reached.fresh.log_marginal_is - LOG_Z) < 4 * error
    z = np.random.default_rng(2).standard_normal((8192, reached.proposal.latent_dimension))
    theta, log_q = reached.proposal.forward(z)
    w = np.exp(psislw(funnel().log_density(theta) - log_q)[0])
    mean = w @ theta[:, 0]
    sd = np.sqrt(w @ (theta[:, 0] - mean) ** 2)
    error = 1 / np.sqrt(1 / (w @ w))
    assert abs(mean) < 4 * error and abs(sd - 1) < 4 * error / np.sqrt(2)


def test_of_a_map_that_has_the_neck_nothing_is_changed_but_the_law_is_known() -> None:
    fitted = Hierarchical().fit(funnel(), random_seed=1)
    assert fitted.proposal is None
    assert list(fitted.result.law.governors) == [0]
    assert fitted.result.law.sd_along == pytest.approx(1, abs=0.02)


def test_who_does_not_look_has_no_law_and_spends_nothing() -> None:
    fitted = Hierarchical(necks=False).fit(funnel(), random_seed=1)
    looked = Hierarchical().fit(funnel(), random_seed=1)
    assert fitted.result.law is None
    spent = looked.result.gradient_evaluations - fitted.result.gradient_evaluations
    assert 40 < spent < 1500


def test_beyond_a_hundred_dimensions_nothing_is_looked_at(monkeypatch) -> None:
    q, density = narrow_map(), CountedDensity(funnel())
    monkeypatch.setattr(reach, "MOST_DIMENSIONS", 4)
    assert law_of_governors(density, q, draws_of_funnel()) is None and density.gradients == 0


def test_ctrl_c_while_a_law_is_looked_for_keeps_the_map_and_says_so(monkeypatch) -> None:
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(reach, "nested_laplace", pressed)
    fitted = Hierarchical().fit(funnel(), random_seed=1)
    assert fitted.result.law is None and not fitted.result.converged
    assert fitted.result.stop_reason.startswith("unfinished")


def test_training_ends_early_where_weights_of_a_law_serve(without_fields) -> None:
    """Twelve groups of four rows: half the scores, and the evidence all the same."""
    target = ZOO["rows-12"].make()
    whole = Hierarchical().fit(target, random_seed=1).result
    fitted = Hierarchical(early=True).fit(target, random_seed=3)
    result = fitted.result
    assert result.stop_reason == LAW_SERVES and result.converged and result.links.links
    assert result.gradient_evaluations < 0.6 * whole.gradient_evaluations
    assert result.khat < 0.5 and result.fresh_proposal.ess > 0.5 * result.fresh_proposal.draws
    error = result.fresh_proposal.log_marginal_is_se
    assert abs(result.log_marginal_is - target.log_z) < 4 * error


def test_governors_that_multiply_one_another_are_not_taken_together() -> None:
    """y ~ N(e^(t + s) z, 1): moved together they do more than the sum; t and s of a funnel each do
    not."""

    def density(cross: float) -> CountedDensity:
        def log_density(x):
            t, s, z, v = x.T
            seen = np.exp(t + cross * s) * z
            return -0.5 * (t**2 + s**2 + (3 - seen) ** 2 + z**2 + v**2 * np.exp(-2 * s)) - s

        return CountedDensity(CallableDensity(log_density, np.zeros_like, dimension=4))

    q = HierarchicalMap.gaussian(np.zeros(4), np.eye(4), np.arange(4))
    scales = np.zeros((4, 4))
    scales[2:, :2] = 0.5
    q = replace(q, scales=scales)
    draws = np.random.default_rng(1).standard_normal((100, 4))
    assert governors(q, density(1.0), draws) == [0]
    assert governors(q, density(0.0), draws) == [0, 1]


def test_draws_that_miss_a_tail_are_not_called_usable() -> None:
    """Though their own weights look well: `missed` is in what a file and ArviZ data hold."""
    fitted = Hierarchical().fit(ZOO["rows-12"].make(), random_seed=1)
    told = replace(fitted.result, missed="a tail of log tau")
    attributes = attributes_of(told, "")
    assert attributes["usable"] == 0
    assert str(attributes["verdict"]).startswith("its draws miss a tail of log tau; ")
    assert attributes_of(replace(told, missed=None), "")["usable"] == int(told.fresh.usable)


def correlated_effects(groups: int = 12) -> CallableDensity:
    """(x_j, y_j) ~ N(0, Σ(t, s, r)), seen with noise: scales whose terms do not add up, and a
    correlation that is governed."""
    seen = np.random.default_rng(4).normal(0, 1.05, (groups, 2))

    def log_density(theta):
        (t, s, r), effects = theta[:, :3].T, theta[:, 3:].reshape(len(theta), groups, 2)
        rho = np.tanh(r)
        x, y = effects[..., 0] * np.exp(-t)[:, None], effects[..., 1] * np.exp(-s)[:, None]
        rest = (y - rho[:, None] * x) ** 2 / (1 - rho**2)[:, None]
        prior = -np.exp(t) - np.exp(s) + t + s - 0.5 * r**2
        spread = groups * (t + s + 0.5 * np.log(1 - rho**2))
        fit = ((effects - seen) ** 2).sum(axis=(1, 2))
        return prior - spread - 0.5 * ((x**2 + rest).sum(axis=1) + fit)

    def score(theta):
        """By complex steps, so that zeros of the Hessian are zeros."""
        steps = 1e-20j * np.eye(theta.shape[1])
        return np.stack([log_density(theta + e).imag for e in steps], axis=1) * 1e20

    names = ["t", "s", "r", *(f"x{k}" for k in range(2 * groups))]
    return CallableDensity(log_density, score, dimension=3 + 2 * groups, names=names)


def test_draws_without_the_neck_of_correlated_effects_are_doubted() -> None:
    """No law is of both scales, and each is looked at with all that is not governed held."""
    density, D = CountedDensity(correlated_effects()), 27
    q = HierarchicalMap.gaussian(np.zeros(D), np.eye(D), np.arange(D))
    scales = np.zeros((D, D))
    scales[3:, 0] = scales[3:, 1] = scales[2, 0] = 0.5  # r is governed, too
    q = replace(q, scales=scales)
    rng = np.random.default_rng(1)
    theta = np.concatenate([[-1.0, -1.0, 0.0], np.zeros(24)]) + 0.3 * rng.standard_normal((2000, D))
    spreads = {j: (own, sd) for j, own, sd in scanned_spreads(density, q, theta)}
    assert set(spreads) == {0, 1}
    for own, sd in spreads.values():  # an exponential tail below, as log scales have
        assert own == pytest.approx(0.3, abs=0.03) and 0.5 < sd < 1.5
    assert not is_of_all(None, q)
    assert missed_in_scans(density, q, theta).startswith("a tail of t (sd 0.3 where the rest is")
    wide = theta.copy()
    wide[:, :2] *= 4
    assert missed_in_scans(density, q, wide) is None


def test_a_density_that_raises_far_out_ends_a_look_and_no_fit() -> None:
    """A solver may: no sum of governors is known there, and nothing of who is quadratic."""
    target = funnel()

    def raising(x):
        if np.abs(x).max() > 3:
            raise OverflowError("math range error")
        return target.log_density(x)

    density = CountedDensity(
        CallableDensity(raising, lambda x: target.log_density_gradient(x)[1], dimension=5)
    )
    q = HierarchicalMap.gaussian(np.zeros(5), np.eye(5), np.arange(5))
    scales = np.zeros((5, 5))
    scales[2:, :2] = 0.5
    q = replace(q, scales=scales)
    draws = np.clip(np.random.default_rng(1).standard_normal((100, 5)), -2, 2)
    assert governors(q, density, draws) == [0]
    at, others = np.full(5, 2.5), Others.all_coupled(np.array([4, 3, 2]))
    kept = quadratic_part(density, at, np.ones(3), others, np.random.default_rng(0))
    assert list(kept.places) == [4, 3, 2]


def test_a_law_of_hundreds_of_effects_takes_few_scores(without_fields) -> None:
    """One effect of 150 looks like a governor by chance, which a look along it settles."""
    rng = np.random.default_rng(1)
    sigma = rng.uniform(0.5, 2, 150)
    y = rng.normal(0, 0.2, 150) + rng.normal(0, sigma) + rng.normal()
    target = Groups(True, y, sigma, 10.0, 1.0)
    result = Hierarchical(early=True).fit(target, random_seed=1).result
    assert result.stop_reason == LAW_SERVES and list(result.law.governors) == [1]
    exact = target.draws(20_000, rng)[:, 1].std()
    assert abs(result.law.sd_along[0] / exact - 1) < 0.1
    found = result.fresh_proposal
    assert found.khat < 0.5 and found.ess > 0.4 * found.draws
    assert abs(found.log_marginal_is - target.log_z) < 4 * found.log_marginal_is_se


def test_weights_are_not_advised_where_a_tail_never_ends() -> None:
    """As under a flat prior of a log scale: its proposal has no more of such a tail than q."""
    closed, opened = (SimpleNamespace(open_ends=ends) for ends in ((), ((0, -6.5),)))
    said = [note_on(Reached(law, None, None, "a tail of t"))[0] for law in (closed, opened)]
    assert "weights of its proposal have it" in said[0]
    assert "the posterior is improper" in said[1] and "weights" not in said[1]
    assert note_on(Reached(None, None, None)) == ()


@pytest.mark.parametrize("cross", [False, True])
def test_something_is_left_to_move_though_every_mode_is_shifted(monkeypatch, cross) -> None:
    """As of three parameters each of which narrows the others: there is no law of none."""
    monkeypatch.setattr(
        reach, "with_shifted_modes", lambda density, found: np.sort(found.others.places)
    )
    monkeypatch.setattr(
        reach, "crossings", lambda density, theta, along: np.full((len(along),) * 2, cross)
    )
    density, theta = CountedDensity(funnel(2)), draws_of_funnel(2000, groups=2)
    start = Middle.of(density, theta, [0], np.array([2]))
    assert joined(density, start, theta, [0]) == [0]
    q = Hierarchical(necks=False).fit(funnel(2), random_seed=1).q
    assert law_of_crossing(density, q, theta) is None


def test_beyond_most_dimensions_draws_are_not_held_at_once(monkeypatch) -> None:
    """There is no law to hold them to; in ten thousand dimensions they took half a gigabyte."""
    q, density = narrow_map(), CountedDensity(funnel())
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    monkeypatch.setattr(reach, "MOST_DIMENSIONS", q.dimension - 1)
    monkeypatch.setattr(reach, "DrawnAgain", None)
    assert reaching(q, density, fresh, None, None, seed=1) == Reached(None, None, None)
