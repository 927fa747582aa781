"""A fit of one mode for all that are its images, where the evidence and the modes are known."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp

import bridge
from bridge.methods.images import images_of
from bridge.methods.method import WeightedDraws
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS
from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity
from pymc_ext.sampling.symmetry import Change, Symmetry
from pymc_ext.sampling.symmetry_search import find_symmetry

CENTRES = np.array([-6.0, 0.0, 7.0])
LOG_Z = np.log(6) + 1.5 * np.log(2 * np.pi)


def labels():
    """All orders of three labels: six Gaussians, not normalised."""
    places = np.array([CENTRES[list(order)] for order in permutations(range(3))])

    def squares(x):
        return ((x[:, None] - places) ** 2).sum(axis=2)

    def score(x):
        log_w = -0.5 * squares(x)
        return np.exp(log_w - logsumexp(log_w, axis=1, keepdims=True)) @ places - x

    return CallableDensity(
        lambda x: logsumexp(-0.5 * squares(x), axis=1), score, dimension=3
    )  # fmt: skip


@pytest.fixture(scope="module")
def of_one():
    """A fit of one mode, and the changes that make the others."""
    problem = as_problem(labels(), None)
    fit = METHODS["batch-match"].run(problem, 2_000, 1)
    return fit, find_symmetry(problem.target, fit.theta[0]), problem


def test_its_density_is_that_of_all_images(of_one) -> None:
    fit, symmetry, problem = of_one
    found = images_of(fit, symmetry).run(problem, 2_000, 1)
    theta = found.theta[0]
    assert len(np.unique(np.argsort(theta, axis=1), axis=0)) == 1  # judged in one order
    for image in symmetry.images(theta):
        np.testing.assert_allclose(found.log_q(image), found.lq[0], atol=1e-8)
    np.testing.assert_allclose(found.lq, fit.lq - np.log(6), atol=1e-3)  # they hardly touch
    ratios = found.lp - found.lq
    assert abs(logsumexp(ratios) - np.log(ratios.size) - LOG_Z) < 0.01
    assert found.gradient_evaluations == 0
    more = found.more(4_000)
    assert more.theta.shape == (1, 4_000, 3) and more.symmetry is symmetry
    everywhere = found.at_random(theta, 1)
    counts = np.unique(np.argsort(everywhere, axis=1), axis=0, return_counts=True)[1]
    assert len(counts) == 6 and np.ptp(counts) <= 1
    np.testing.assert_allclose(found.log_q(everywhere), found.lq[0], atol=1e-8)


def test_its_law_is_there_where_images_are_linear(of_one) -> None:
    fit, symmetry, problem = of_one
    found = images_of(fit, symmetry).run(problem, 2_000, 1)
    theta = symmetry.at_random(found.theta[0], np.random.default_rng(1))
    np.testing.assert_allclose(found.q.log_density(theta), found.log_q(theta), atol=1e-8)
    drawn, log_q = found.q.forward(np.random.default_rng(1).standard_normal((500, 4)))
    assert len(np.unique(np.argsort(drawn, axis=1), axis=0)) == 6
    np.testing.assert_allclose(found.log_q(drawn), log_q, atol=1e-8)
    about_a_half = Symmetry(
        problem.target, [Change(reflected=(("theta", "complement"),))], [(0, 0)],
        symmetry.mean, symmetry.sd,
    )  # fmt: skip
    assert about_a_half.matrices(found.theta[0]) is None
    unknown = images_of(replace(fit, q=None, more=None), symmetry)
    assert unknown.run(problem, 2_000, 1).q is None


def test_a_proposal_is_of_all_images_too_or_left_out(of_one) -> None:
    fit, symmetry, problem = of_one
    wide = WeightedDraws(fit.theta, fit.lp, fit.lq, fit.log_q)
    found = images_of(replace(fit, proposal=wide, more=None), symmetry).run(problem, 2_000, 1)
    np.testing.assert_allclose(found.proposal.lq, found.lq)
    unknown = replace(fit, proposal=replace(wide, log_q=None))
    unknown = replace(unknown, more=lambda draws: unknown)
    found = images_of(unknown, symmetry).run(problem, 2_000, 1)
    assert found.proposal is None and found.more is None


def test_images_of_another_log_density_are_refused(of_one) -> None:
    """A change that is none, of the sign: no draws are handed out."""
    fit, symmetry, problem = of_one
    wrong = Change(reflected=(("theta", "sign"),))
    broken = Symmetry(problem.target, [wrong], [(0, 0)], symmetry.mean, symmetry.sd)
    with pytest.raises(ValueError, match="the other modes are no images of that one"):
        images_of(fit, broken).run(problem, 2_000, 1)


def test_orders_of_labels_are_trusted_for_the_cost_of_one() -> None:
    one, all_of_them = (
        bridge.fit(labels(), methods="batch-match", random_seed=1),
        bridge.fit(labels(), random_seed=1),
    )
    for advice in (one, all_of_them):
        assert (advice.trusted, advice.method) == (True, "images"), advice.reasons
        assert advice.attempts[-1].gradients == 0
        log_z, error = advice.log_evidence
        assert abs(log_z - LOG_Z) < 5 * error + 1e-3
        theta = advice.draws.values["theta"].reshape(-1, 3)
        counts = np.unique(np.argsort(theta, axis=1), axis=0, return_counts=True)[1]
        assert len(counts) == 6 and np.ptp(counts) <= 1
        lp = labels().log_density(theta)
        np.testing.assert_allclose(advice.draws.statistics["lp"].ravel(), lp, atol=1e-8)


def test_two_branches_of_a_ridge_are_images_of_each_other() -> None:
    """x y ≈ 1: no chain goes from one branch to the other, and a map of one serves for both."""
    density = ZOO["product"].make()
    advice = bridge.fit(density, random_seed=1)
    assert (advice.trusted, advice.method) == (True, "images"), advice.reasons
    theta = advice.draws.values["theta"].reshape(-1, 2)
    exact = density.draws(20_000, np.random.default_rng(1))
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        ours, known = (np.quantile(x[:, 0], q) for x in (theta, exact))
        share = np.mean(exact[:, 0] < ours)  # 400 effective draws at least know q so well
        assert abs(share - q) < 4 * np.sqrt(q * (1 - q) / 400), (q, ours, known)


def test_a_mixture_of_pymc_has_both_orders_with_its_names() -> None:
    y = np.concatenate([np.full(20, 2), np.full(15, 12), [1, 0, 3, 10, 14, 9, 4]])
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        w = pm.Dirichlet("w", np.ones(2), dims="group")
        rate = pm.Gamma("rate", 1, 0.1, dims="group")
        pm.Mixture("y", w=w, comp_dists=pm.Poisson.dist(rate, shape=(2,)), observed=y)
    advice = bridge.fit(model, random_seed=1, progressbar=False)
    assert (advice.trusted, advice.method) == (True, "images"), advice.reasons
    posterior = advice.idata["posterior"]
    assert posterior["rate"].dims == ("chain", "draw", "group")
    rates, weights = (posterior[name].values.reshape(-1, 2) for name in ("rate", "w"))
    assert np.mean(rates[:, 0] < rates[:, 1]) == pytest.approx(0.5, abs=1e-3)
    # the weight goes with the rate: 24 of 42 rows are of the smaller
    smaller = np.take_along_axis(weights, rates.argmin(axis=1)[:, None], axis=1)
    assert abs(smaller.mean() - 25 / 44) < 0.03
    raw = advice.unresampled
    assert raw["posterior"]["rate"].dims == ("chain", "draw", "group")
    assert 0.4 < np.mean(raw["posterior"]["rate"].values[..., 0] < 6) < 0.6
