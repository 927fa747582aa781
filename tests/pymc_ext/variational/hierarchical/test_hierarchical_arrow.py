"""Maps of arrow form: against dense ones of the same numbers, structure found, large models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.maths.marginal import Marginal
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.hierarchical.algorithm import NO_ARROW, Hierarchical
from pymc_ext.variational.hierarchical.arrow import arrow_gaussian, in_order_of_governors
from pymc_ext.variational.hierarchical.arrow_root import ArrowRoot, globals_root
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.growth import means_into_gate
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.roots import DenseRoot
from pymc_ext.variational.hierarchical.structure import Structure, find_structure
from pymc_ext.variational.hierarchical.training import Training
from tests.pymc_ext.variational.hierarchical.test_hierarchical import normal_hierarchy
from tests.tolerances import NUMERIC

K, SIZES = 2, ((1, 3), (2, 2), (3, 1))
D = K + sum(size * groups for size, groups in SIZES)
EXACT = 1e-10


@pytest.fixture
def pair():
    """A map of arrow form and the dense one of the same numbers."""
    rng = np.random.default_rng(1)
    low = np.tri(D, K, k=-1)
    C, Q, H = (low * rng.standard_normal((D, K)) * size for size in (0.4, 0.1, 0.4))
    C[[4, 7]] = 0.0  # not all are linked
    left = np.tri(D, K) * (0.5 * rng.standard_normal((D, K)) + np.eye(D, K))
    blocks = tuple(
        np.tri(size) * (0.3 * rng.standard_normal((groups, size, size)) + np.eye(size))
        for size, groups in SIZES
    )
    matrix, first = np.zeros((D, D)), K
    matrix[:, :K] = left
    for block in blocks:
        for root in block:
            rows = slice(first, first + len(root))
            matrix[rows, rows], first = root, rows.stop
    marginal = Marginal(0.3 * rng.standard_normal(D), np.exp(0.2 * rng.standard_normal((2, D))))
    offset, mean = 0.5 * rng.standard_normal((2, D))
    order, center = rng.permutation(D), rng.standard_normal(D)
    rest = offset, mean, marginal, rng.choice([-1.0, 1.0], D)
    arrow = HierarchicalMap(order, center, ArrowRoot(left, blocks), C, Q, H, *rest)
    wide = [np.pad(x, ((0, 0), (0, D - K))) for x in (C, Q, H)]
    return arrow, HierarchicalMap(order, center, DenseRoot(matrix), *wide, *rest)


@pytest.fixture
def v():
    return np.random.default_rng(2).standard_normal((6, D))


def smooth(dimension):
    """A density that is no Gaussian."""
    return CallableDensity(
        lambda t: -np.sum(np.log(np.cosh(t)), axis=1) - 0.1 * np.sum(t, axis=1) ** 2,
        lambda t: -np.tanh(t) - 0.2 * np.sum(t, axis=1, keepdims=True),
        dimension=dimension,
    )


# ---- the same numbers, the same values --------------------------------------------------------


def test_draws_inverse_and_log_q_are_those_of_the_dense_map(pair, v) -> None:
    arrow, dense = pair
    (theta, log_q), (expected, expected_log_q) = arrow.forward(v), dense.forward(v)
    np.testing.assert_allclose(theta, expected, atol=EXACT)
    np.testing.assert_allclose(log_q, expected_log_q, atol=EXACT)
    np.testing.assert_allclose(arrow.inverse(theta), v, atol=EXACT)
    np.testing.assert_allclose(arrow.log_density(theta + 0.1), dense.log_density(theta + 0.1))


def test_the_pullback_is_that_of_the_dense_map(pair, v) -> None:
    arrow, dense = pair
    score = np.random.default_rng(3).standard_normal(v.shape)
    np.testing.assert_allclose(arrow.pullback(v, score), dense.pullback(v, score), atol=EXACT)
    at = arrow.at(v)
    np.testing.assert_allclose(
        arrow.solve_jacobian_transposed(at, score),
        dense.solve_jacobian_transposed(dense.at(v), score),
        atol=EXACT,
    )


def test_a_step_of_training_is_that_of_the_dense_map(pair) -> None:
    arrow, dense = pair
    free = replace(Free.of(arrow), root=np.tri(D, K) > 0, gated=arrow.gated != 0)
    wide = {
        name: np.pad(getattr(free, name), ((0, 0), (0, D - K)))
        for name in ("scales", "squares", "gated")
    }
    both = []
    for q, own in (
        (arrow, free),
        (dense, Free(root=dense.root.matrix != 0, marginal=free.marginal, **wide)),
    ):
        training = Training(CountedDensity(smooth(D)), q, own, np.random.default_rng(4))
        training.advance()
        both.append((training.q, training.moments.moments()))
    (one, moments), (other, expected) = both
    theta, other_theta = (q.forward(np.eye(D))[0] for q in (one, other))
    np.testing.assert_allclose(theta, other_theta, atol=EXACT)
    np.testing.assert_allclose(one.scales, other.scales[:, :K], atol=EXACT)
    np.testing.assert_allclose(moments.scale, expected.scale[:, :K], atol=EXACT)
    np.testing.assert_allclose(moments.skew, np.diag(expected.square), atol=EXACT)


def test_a_shift_is_that_of_the_dense_map(pair, v) -> None:
    shift = 0.5 * np.random.default_rng(5).standard_normal(D)
    one, other = (q.moved(shift, np.ones(q.governors)) for q in pair)
    np.testing.assert_allclose(one.forward(v)[0], other.forward(v)[0], atol=EXACT)
    np.testing.assert_allclose(one.root.product(np.eye(D)), other.root.matrix.T, atol=EXACT)
    assert not np.array_equal(one.root.left, pair[0].root.left)


def test_means_go_into_the_gate_as_in_the_dense_map(pair) -> None:
    one, other = (means_into_gate(q, Free.of(q))[0] for q in pair)
    np.testing.assert_allclose(one.gated_mean, other.gated_mean, atol=EXACT)
    np.testing.assert_allclose(one.root.coupling, other.root.coupling[:, :K], atol=EXACT)
    assert not np.array_equal(one.gated_mean, pair[0].gated_mean)


def test_another_order_of_globals_leaves_the_covariance(pair) -> None:
    root = pair[0].root
    places = np.array([1, 0])
    other = np.concatenate([places, np.arange(K, D)])
    cov = root.product(root.product(np.eye(D)).T)
    new = root.reordered(places)
    np.testing.assert_allclose(
        new.product(new.product(np.eye(D)).T), cov[np.ix_(other, other)], atol=EXACT
    )
    turn = globals_root(root.left)
    np.testing.assert_allclose(turn @ turn.T, np.eye(K), atol=EXACT)
    np.testing.assert_allclose(root.std, np.sqrt(np.diag(cov)), atol=EXACT)


# ---- the structure ---------------------------------------------------------------------------


def grouped(groups, members, rng):
    """Precision of two globals and of groups without zeros in theirs, in random places."""
    D = 2 + groups * members
    place = rng.permutation(D)
    P = np.zeros((D, D))
    P[:2] = P[:, :2] = 0.1 * rng.standard_normal()
    for g in range(groups):
        rows = slice(2 + g * members, 2 + (g + 1) * members)
        P[rows, rows] = 0.4
    np.fill_diagonal(P, 1.0)
    P[:2, :2] = np.eye(2) * D
    P = P[np.ix_(place, place)]
    return P, np.sort(np.argsort(place)[:2])


@pytest.mark.parametrize("members", [1, 2, 3])
def test_globals_and_groups_are_found(members) -> None:
    P, globals_ = grouped(200, members, np.random.default_rng(members))
    dimension = len(P)
    density = CountedDensity(
        CallableDensity(
            lambda t: -0.5 * np.sum(t @ P * t, axis=1), lambda t: -t @ P, dimension=dimension
        )
    )
    q = LowRankGaussian.from_factor(np.zeros(dimension), np.zeros((dimension, 1)), 1 / np.diag(P))
    found = find_structure(density, q, np.random.default_rng(1))
    np.testing.assert_array_equal(found.globals, globals_)
    assert found.sizes == [(members, 200)]
    for group in found.groups[0]:
        assert np.all(P[np.ix_(group, group)] != 0)
    assert sorted(found.order) == list(range(dimension))
    assert density.gradients < 400


def test_the_gaussian_of_arrow_form_is_the_low_rank_one_where_that_has_the_form() -> None:
    """Locals that are independent given two globals: Λ of two columns, which the globals are."""
    rng = np.random.default_rng(1)
    factor, variance = rng.standard_normal((7, 2)), np.exp(rng.standard_normal(7))
    variance[:2] = 1e-12
    q = LowRankGaussian.from_factor(rng.standard_normal(7), factor, variance)
    structure = Structure(np.array([0, 1]), (np.array([[2], [4], [5]]), np.array([[3, 6]])))
    cov = arrow_gaussian(q, structure).as_gaussian().cov
    np.testing.assert_allclose(cov, q.cov, rtol=1e-5, atol=1e-8)


# ---- the algorithm ---------------------------------------------------------------------------


def test_a_large_hierarchy_is_linked_to_its_scale() -> None:
    density = normal_hierarchy(400, 0.7, 8.0, seed=3)
    gaussian = BatchMatch().fit(density, random_seed=1).result
    fitted = Hierarchical().fit(density, random_seed=1)
    result = fitted.result
    assert isinstance(fitted.q.root, ArrowRoot)
    assert fitted.q.order[0] == 401  # log tau
    linked = [link for link in result.links.links if link.governor == "log_tau"]
    assert len([link for link in linked if link.governed.startswith("theta")]) > 390
    assert result.elbo > gaussian.elbo + 0.3
    assert result.elbo <= result.log_marginal_is + NUMERIC


def test_links_that_the_first_block_does_not_show_are_found_by_a_later_one(monkeypatch) -> None:
    density = normal_hierarchy(1000, 0.7, 2.5, seed=3)
    monkeypatch.setattr("pymc_ext.variational.hierarchical.arrow.SEEKING_BLOCK", 4)
    result = Hierarchical().fit(density, random_seed=1).result
    linked = [link for link in result.links.links if link.governor == "log_tau"]
    assert len(linked) > 900
    assert result.fresh.ess > 0.99 * result.fresh.draws


def test_many_weak_links_count_that_together_gain_something() -> None:
    """A scale known to 2 %: no link gains more than 1e-4 nats, all together gain a hundredth."""
    density = normal_hierarchy(1000, 0.7, 2.0, seed=3)
    fitted = Hierarchical().fit(density, random_seed=1)
    assert len(fitted.result.links) > 300
    linked = [link for link in fitted.result.links.links if link.governor == "log_tau"]
    assert len(linked) > 0.99 * len(fitted.result.links)
    gain = (fitted.q.root.diagonal[0] * np.array([link.slope for link in linked])) ** 2
    assert np.median(gain) < 1e-4
    assert fitted.result.fresh.ess > 0.97 * fitted.result.fresh.draws


def test_governors_come_first() -> None:
    density = CountedDensity(normal_hierarchy(40, 0.7, 1.0, seed=1))
    q = BatchMatch(rank=3).fit(density.density, random_seed=1).q
    structure = Structure(np.array([40, 41]), (np.arange(40)[:, None],))
    found = in_order_of_governors(density, arrow_gaussian(q, structure), np.random.default_rng(1))
    np.testing.assert_array_equal(found.order[:2], [41, 40])


def test_where_all_depend_on_all_the_low_rank_gaussian_remains_and_a_note_says_so() -> None:
    dimension = 310
    P = np.eye(dimension) + 0.1 * np.cos(np.subtract.outer(*2 * [np.arange(dimension)]))
    density = CallableDensity(
        lambda t: -0.5 * np.sum(t @ P * t, axis=1), lambda t: -t @ P, dimension=dimension
    )
    fitted = Hierarchical().fit(density, random_seed=1)
    assert isinstance(fitted.q, LowRankGaussian)
    assert NO_ARROW in fitted.result.notes
    assert len(fitted.result.links) == 0


def test_a_fit_goes_on_from_its_state() -> None:
    density = normal_hierarchy(310, 0.7, 2.0, seed=3)
    first = Hierarchical(rounds=1).fit(density, random_seed=1)
    second = Hierarchical().fit(density, random_seed=2, state=first.state)
    assert isinstance(second.q.root, ArrowRoot)
    assert second.result.elbo > first.result.elbo - 0.05
