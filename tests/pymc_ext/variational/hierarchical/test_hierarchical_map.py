"""The hierarchical map and its marginals: inverse, log density, pullback and moments, exactly."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, CountedDensity, DensityInCoordinates
from pymc_ext.maths.marginal import Marginal
from pymc_ext.variational.gaussian.numbers import antithetic
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.hierarchical.arrow_root import ArrowRoot
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.links import Links
from pymc_ext.variational.hierarchical.map import HierarchicalMap, Point
from pymc_ext.variational.hierarchical.moments import Moments, MomentSums
from pymc_ext.variational.hierarchical.roots import DenseRoot
from pymc_ext.variational.hierarchical.rows import slope_equations
from pymc_ext.variational.hierarchical.training import Training
from tests.tolerances import EXACT, NUMERIC

D, N, STEP = 5, 7, 1e-6


def differences(f, x):
    """Central differences of f (N, D) -> (N,), by coordinate, (N, D)."""
    moved = [(f(x + STEP * e) - f(x - STEP * e)) / (2 * STEP) for e in np.eye(x.shape[1])]
    return np.stack(moved, axis=-1)


@pytest.fixture(params=["dense", "arrow"])
def q(request):
    return a_map(request.param)


def a_map(form):
    """Arrow: two globals, a group of one and a group of two; dense: no zeros below the diagonal."""
    rng = np.random.default_rng(0)
    k = D if form == "dense" else 2
    low = np.tri(D, k, k=-1)
    C, H, Q = (low * rng.standard_normal((D, k)) * size for size in (0.4, 0.4, 0.1))
    tails = np.exp(0.3 * rng.standard_normal((2, D)))
    L = np.linalg.cholesky(np.eye(D) + 0.3)
    blocks = L[2:3, 2:3][None], L[3:, 3:][None]
    return HierarchicalMap(
        np.array([2, 0, 3, 1, 4]),
        rng.standard_normal(D),
        DenseRoot(L) if form == "dense" else ArrowRoot(L[:, :2], blocks),
        C, Q, H,
        0.5 * rng.standard_normal(D),
        0.5 * rng.standard_normal(D),
        Marginal(0.4 * rng.standard_normal(D), tails),
        np.array([1.0, -1.0, -1.0, 1.0, 1.0]),
    )  # fmt: skip


@pytest.fixture
def v():
    return np.random.default_rng(1).standard_normal((N, D))


def test_the_inverse_undoes_the_map(q, v) -> None:
    theta, log_q = q.forward(v)
    np.testing.assert_allclose(q.inverse(theta), v, atol=EXACT)
    np.testing.assert_allclose(q.log_density(theta), log_q, rtol=EXACT)


def test_points_beyond_all_numbers_have_no_density(q) -> None:
    far = np.array([-1e300, -1e160, 1e160, 1e300])[:, None] * np.ones(D)
    assert (q.log_density(far) < -1e6).all()  # −∞ or finite, never NaN, and no warning


def test_log_q_has_the_jacobian_of_the_map(q, v) -> None:
    jacobian = np.stack(
        [(q.forward(v + STEP * e)[0] - q.forward(v - STEP * e)[0]) / (2 * STEP) for e in np.eye(D)]
    )  # (D, N, D)
    log_det = np.linalg.slogdet(np.moveaxis(jacobian, 1, 0))[1]
    normal = -0.5 * np.sum(v**2, axis=1) - 0.5 * D * np.log(2 * np.pi)
    np.testing.assert_allclose(q.forward(v)[1], normal - log_det, rtol=NUMERIC)


def test_the_pullback_is_the_gradient_in_the_maps_coordinates(q, v) -> None:
    precision = 2 * np.eye(D) + 0.1
    density = CallableDensity(
        lambda t: -0.5 * np.sum(t @ precision * t, axis=1), lambda t: -t @ precision, dimension=D
    )
    seen = DensityInCoordinates(density, q)
    expected = differences(seen.log_density, v)
    np.testing.assert_allclose(seen.log_density_gradient(v)[1], expected, atol=NUMERIC)


def test_back_substitution_solves_with_the_transposed_jacobian(q, v) -> None:
    at = q.at(v)
    r = np.random.default_rng(2).standard_normal((N, D))

    def w(y):
        return q.at(q.marginal.inverse(y)).w

    jacobian = np.stack(
        [(w(at.y + STEP * e) - w(at.y - STEP * e)) / (2 * STEP) for e in np.eye(D)]
    )  # ∂w_i/∂y_j at (j, N, i)
    h = q.solve_jacobian_transposed(at, r)
    np.testing.assert_allclose(np.einsum("jni,ni->nj", jacobian, h), r, atol=NUMERIC)


def test_without_links_it_is_the_gaussian(v) -> None:
    cov = np.diag([1.0, 4.0, 9.0, 0.1, 1e-6]) + 1e-7
    mean, order = np.arange(5.0), np.array([3, 1, 0, 4, 2])
    q, gaussian = (
        HierarchicalMap.gaussian(mean, cov, order),
        Gaussian(mean, np.linalg.cholesky(cov)),
    )
    theta, log_q = q.forward(v)
    np.testing.assert_allclose(log_q, gaussian.log_density(theta), rtol=1e-8)
    assert q.is_gaussian
    np.testing.assert_allclose(q.as_gaussian().cov, cov, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(q.as_gaussian().mean, mean)


# ---- training --------------------------------------------------------------------------------


def test_a_moved_governor_takes_along_what_it_governs(q, v) -> None:
    scales, gated, squares = (x.copy() for x in (q.scales, q.gated, q.squares))
    for x in (scales, gated, squares):
        x[1], x[:, 2:] = 0.0, 0.0  # the first two places depend on none, and govern all others
    straight = replace(
        q, scales=scales, gated=gated, squares=squares, marginal=Marginal.identity(D)
    )
    shift, factor = np.array([0.3, -0.4, 0.0, 0.0, 0.0]), np.ones(D)
    factor[:2] = 0.5, 1.8
    found = straight.moved(shift, factor[: q.governors])
    theta, log_q = straight.forward(v * factor + shift)
    np.testing.assert_allclose(found.forward(v)[0], theta, rtol=EXACT)
    # the law of θ(f v + s): its density is of v, and has the factors' volume
    expected = log_q - 0.5 * np.sum(v**2 - (v * factor + shift) ** 2, axis=1) - np.log(0.9)
    np.testing.assert_allclose(found.forward(v)[1], expected, rtol=EXACT)


def test_a_stretched_chain_of_governors_keeps_its_law(q, v) -> None:
    straight = replace(q, squares=np.zeros_like(q.squares), marginal=Marginal.identity(D))
    factor = np.ones(D)
    factor[: q.governors] = np.linspace(0.5, 1.8, q.governors)
    found = straight.moved(np.zeros(D), factor[: q.governors])
    np.testing.assert_allclose(found.forward(v)[0], straight.forward(v * factor)[0], rtol=EXACT)


def test_a_map_in_a_funnels_neck_climbs_out() -> None:
    """t ~ N(0, 1), x_i ~ N(0, e^(2t)), from t around −3: its effects must widen with it."""
    effects = 8

    def both(x):
        t, z = x[:, :1], x[:, 1:] * np.exp(-x[:, :1])
        lp = -0.5 * t[:, 0] ** 2 - 0.5 * np.sum(z**2, axis=1) - effects * t[:, 0]
        by_t = np.sum(z**2, axis=1) - effects - t[:, 0]
        return lp, np.column_stack([by_t, -z * np.exp(-t)])

    density = CallableDensity(lambda x: both(x)[0], lambda x: both(x)[1], dimension=effects + 1)
    mean, sd = np.r_[-3.0, np.zeros(effects)], np.r_[0.25, np.full(effects, np.exp(-3))]
    start = HierarchicalMap.gaussian(mean, np.diag(sd**2), np.arange(effects + 1))
    links = np.zeros((effects + 1, effects + 1), dtype=bool)
    links[1:, 0] = True
    free = replace(Free.none(effects + 1, effects + 1), scales=links)
    training = Training(CountedDensity(density), start, free, np.random.default_rng(1))
    for training.since_restart in range(40):
        training.advance()
    assert abs(training.q.center[0]) < 0.7
    np.testing.assert_allclose(
        training.q.scales[1:, 0] / training.q.root.diagonal[0], 1.0, atol=0.35
    )


def test_where_few_places_are_linked_only_these_are_computed(v) -> None:
    """The same numbers as from the formula for all places."""
    q = a_map("dense")
    C, H, Q = np.zeros((3, D, D))
    C[2, 1], H[4, 2], Q[4, 0] = 0.4, 0.3, 0.1
    mean = np.where(np.arange(D) == 2, 0.7, 0.0)
    some, every = (replace(q, scales=C, gated=H, squares=Q, gated_mean=mean) for _ in range(2))
    every.__dict__["levels"] = [slice(0, 4), slice(4, 5)]
    assert some.levels == [slice(2, 3), slice(4, 5)] or len(some.levels[0]) == 2
    for field in fields(Point):
        if field.name != "bend":
            found, expected = (getattr(x.at(v), field.name) for x in (some, every))
            np.testing.assert_allclose(found, expected, rtol=EXACT, atol=1e-14)
    score = np.random.default_rng(3).standard_normal(v.shape)
    np.testing.assert_allclose(some.pullback(v, score), every.pullback(v, score), rtol=EXACT)
    theta, log_q, pullback = some.forward_with_pullback(v)
    for found, alone in zip((theta, log_q), some.forward(v), strict=True):
        np.testing.assert_array_equal(found, alone)
    np.testing.assert_array_equal(pullback(score), some.pullback(v, score))


def by_single_points(q, v, score):
    """θ, log q and the pullback, a point at a time, as chains ask for them."""
    theta, log_q, pullbacks = zip(*(q.forward_with_pullback(row[None]) for row in v), strict=True)
    pulled = [pullback(row[None]) for pullback, row in zip(pullbacks, score, strict=True)]
    return [np.concatenate(parts) for parts in (theta, log_q, pulled)]


@pytest.mark.parametrize("kind", ["all", "Gaussian", "no bends", "a mean alone"])
def test_one_point_at_a_time_is_as_rows_of_points(kind: str) -> None:
    q = a_map("dense")
    if kind == "Gaussian":
        q = HierarchicalMap.linear(q.order, q.center, q.root)
    elif kind == "no bends":
        q = replace(q, marginal=Marginal.identity(D))
    elif kind == "a mean alone":
        zero = np.zeros((D, D))
        mean = np.where(np.arange(D) == 2, 0.7, 0.0)
        q = replace(q, scales=zero, gated=zero, squares=zero, gated_mean=mean)
    rng = np.random.default_rng(4)
    v = rng.standard_normal((40, D)) * np.array([1.0, 5.0])[np.arange(40) % 2, None]
    score = rng.standard_normal(v.shape)
    found = by_single_points(q, v, score)
    expected = *q.forward(v), q.pullback(v, score)
    for one, rows in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, rows, rtol=1e-10, atol=1e-11)


def test_one_point_far_out_is_as_rows_of_points() -> None:
    """Gates as good as shut, tails beyond 30 sds, and no numbers at all."""
    q = replace(a_map("dense"), offset=np.array([0.0, -345.0, -200.0, 20.0, 1.0]))
    q = replace(q, scales=5 * q.scales)
    v = np.array([[-30.0, 30.0, -30.0, 30.0, -30.0], [np.nan, 0.0, 0.0, 0.0, 0.0], np.zeros(D)])
    score = np.ones_like(v)
    with np.errstate(all="ignore"):
        expected = *q.forward(v), q.pullback(v, score)
        found = by_single_points(q, v, score)
    assert np.isnan(found[1][1]) and np.isfinite(found[1][[0, 2]]).all()
    assert (q.scales @ q.at(v[:1]).w[0] + q.offset).min() < -350  # where a gate is held
    for one, rows in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, rows, rtol=1e-9, atol=1e-9)


def test_the_information_of_few_governors_is_that_of_many(monkeypatch) -> None:
    rng = np.random.default_rng(1)
    shut, opening, by_log_scale = rng.standard_normal((3, 6, 3))
    y, place = rng.standard_normal((6, 4)), np.array([[0, 2], [1, 3], [3, 0]])
    few = slope_equations(shut, opening, by_log_scale, y, place)
    monkeypatch.setattr("pymc_ext.variational.hierarchical.rows.FEW_GOVERNORS", 3)
    for found, expected in zip(
        few, slope_equations(shut, opening, by_log_scale, y, place), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=EXACT)


# ---- marginals -------------------------------------------------------------------------------


def test_a_marginal_is_monotone_and_smooth_through_its_seam() -> None:
    marginal = Marginal(np.array([0.4]), np.array([[0.6], [2.0]]))
    v = np.linspace(-5, 5, 100_001)[:, None]
    y, slope = marginal.forward(v)
    assert (np.diff(y[:, 0]) > 0).all()
    bend = np.diff(slope[:, 0]) / (v[1, 0] - v[0, 0])  # the second derivative has no jump
    assert np.abs(np.diff(bend)).max() < 1e-3
    np.testing.assert_allclose(marginal.forward(np.zeros((1, 1)))[0], 0, atol=1e-14)
    np.testing.assert_allclose(marginal.forward(np.zeros((1, 1)))[1], 1, rtol=EXACT)


def test_derivatives_of_a_marginal(q, v) -> None:
    marginal = q.marginal
    y, slope = marginal.forward(v)
    np.testing.assert_allclose(marginal.inverse(y), v, atol=EXACT)
    up, down = (marginal.forward(v + h)[0] for h in (STEP, -STEP))
    np.testing.assert_allclose(slope, (up - down) / (2 * STEP), rtol=NUMERIC)
    up, down = (np.log(marginal.forward(v + h)[1]) for h in (STEP, -STEP))
    np.testing.assert_allclose(marginal.slope_score(v), (up - down) / (2 * STEP), atol=NUMERIC)


@pytest.mark.parametrize("k", range(3))
def test_derivatives_of_a_marginal_in_its_numbers(q, v, k) -> None:
    def moved(h):
        skew, tails = q.marginal.skew.copy(), q.marginal.tails.copy()
        (skew if k == 0 else tails[k - 1])[...] += h
        return Marginal(skew, tails).forward(v)[0]

    expected = (moved(STEP) - moved(-STEP)) / (2 * STEP)
    np.testing.assert_allclose(q.marginal.by_parameters(v)[k], expected, atol=NUMERIC)


# ---- moments ---------------------------------------------------------------------------------


def test_third_moments_are_derivatives_of_the_curvature() -> None:
    """log p̃ = −|z|²/2 + c z₀ z₁²: E[∂₁² ∂₀ log p̃] = 2 c, E[r₀ (z₁² − 1)] = 2 c, all else 0."""
    c, rng = 0.1, np.random.default_rng(1)
    z = antithetic(rng, 200_000, 3)
    r = np.stack([c * z[:, 1] ** 2, 2 * c * z[:, 0] * z[:, 1], 0 * z[:, 0]], axis=1)
    moments = Moments.of(r, z)
    clipped = 0.1 * 2 * c  # rows beyond ten medians are shortened, and all of r is bent here
    expected = np.zeros((3, 3))
    expected[1, 0] = 2 * c
    off = ~np.eye(3, dtype=bool)  # the diagonal is no derivative
    assert np.all((np.abs(moments.scale - expected) < 4 * moments.scale_error + clipped)[off])
    expected = np.zeros((3, 3))
    expected[0, 1] = 2 * c
    assert np.all(np.abs(moments.square - expected) < 4 * moments.square_error + clipped)
    assert not moments.marginals.any()
    assert np.array_equal(np.argwhere(moments.scales), [[1, 0]])


def test_a_slope_in_the_middle_may_be_off_where_its_mean_is_not() -> None:
    """E[r₁ z₁ | z₀] = c (z₀³ − 3 z₀), whose slope at zero is −3 c, and E[r₁ z₁ z₀] = 0."""
    c, rng = 0.01, np.random.default_rng(1)
    z = antithetic(rng, 200_000, 2)
    f = c * (z[:, 0] ** 3 - 3 * z[:, 0])
    sums = MomentSums()
    sums.add(np.stack([0 * f, z[:, 1] * f], axis=1), z)
    moments = sums.moments()
    assert abs(moments.scale[1, 0]) < 4 * moments.scale_error[1, 0]
    assert moments.scale_off[1, 0] == pytest.approx(1.5 * c, rel=0.1)


def test_a_slope_that_differs_between_sides_is_not_known_better() -> None:
    """E[r₁ z₁ | z₀] = c (z₀² − 1) is twice a log scale's residual, whose slope at ±1 is ± c."""
    c, rng = 0.01, np.random.default_rng(1)
    z = antithetic(rng, 200_000, 2)
    sums = MomentSums()
    sums.add(np.stack([0 * z[:, 0], c * z[:, 1] * (z[:, 0] ** 2 - 1)], axis=1), z)
    assert sums.moments().scale_off[1, 0] == pytest.approx(2 * c, rel=0.1)


def test_a_links_slope_is_that_of_the_log_scale_in_the_middle(q) -> None:
    """There w is not zero where a governor has a bend or a governor itself, as place 1 has."""
    names = "abcde"
    slopes = {(link.governor, link.governed): link.slope for link in Links.of(q, None, names).links}
    v = np.zeros((2, D))
    v[:, 1] = -STEP, STEP
    at = q.at(v)
    expected = np.diff(at.log_scale[:, 2]) / np.diff(at.w[:, 1]) / q.root.diagonal[1]
    assert slopes[names[q.order[1]], names[q.order[2]]] == pytest.approx(expected[0], rel=NUMERIC)
    assert abs(at.w[0, 1]) > 0.03


def test_the_error_of_a_links_slope_grows_with_how_far_its_sides_differ(q) -> None:
    """A residual log scale of c (z₀² − 1)/2 has slopes of c and −c one sd to either side."""
    z, names, found = antithetic(np.random.default_rng(1), 100_000, D), "abcde", []
    linked = names[q.order[0]], names[q.order[2]]
    for c in (0.0, 0.02, 0.04):
        sums, r = MomentSums(q.governors), 0.001 * np.abs(z)
        r[:, 2] += c * z[:, 2] * (z[:, 0] ** 2 - 1)
        sums.add(r, z)
        links = Links.of(q, sums.moments(), names).links
        found += [link.error for link in links if (link.governor, link.governed) == linked]
    noise, *grown = np.array(found) * q.root.diagonal[0]
    np.testing.assert_allclose(grown, [2 * 0.02, 2 * 0.04], rtol=0.1)
    assert noise < 0.002


def test_moments_of_batches_add_up() -> None:
    rng = np.random.default_rng(2)
    batches = [(rng.standard_normal((8, 2)), antithetic(rng, 8, 2)) for _ in range(3)]
    sums = MomentSums()
    for r, z in batches:
        sums.add(r, z)
    halves = [
        np.concatenate([b[k][h * 4 : h * 4 + 4] for b in batches]) for k in (0, 1) for h in (0, 1)
    ]
    together = Moments.of(np.concatenate(halves[:2]), np.concatenate(halves[2:]))
    np.testing.assert_allclose(sums.moments().scale, together.scale, rtol=1e-9)
    np.testing.assert_allclose(sums.moments().tail_error, together.tail_error, rtol=1e-9)


def test_a_gaussian_has_no_moments_at_all() -> None:
    """Their even part is zero whatever the draws, so that nothing is ever linked."""
    rng = np.random.default_rng(3)
    z = antithetic(rng, 100, 4)
    moments = Moments.of(z @ rng.standard_normal((4, 4)), z)
    assert not moments.scales.any()
    assert not moments.squares.any()


# ---- training --------------------------------------------------------------------------------


def test_steps_leave_the_exact_map_where_it_is(q) -> None:
    """The target is q itself: the residual is zero, and no draw moves anything."""
    target = CallableDensity(
        q.log_density,
        lambda theta: np.stack([differences(q.log_density, row[None])[0] for row in theta]),
        dimension=D,
    )
    low = np.tri(D, q.governors, k=-1) > 0
    free = Free(low, low, low, np.tri(D, q.governors) > 0, np.ones(D, dtype=bool))
    training = Training(CountedDensity(target), q, free, np.random.default_rng(1))
    training.advance()
    for before, after in zip(Training.parameters(training), parameters_of(q), strict=True):
        np.testing.assert_allclose(before, after, atol=1e-4)


def parameters_of(q):
    return (
        q.center, q.scales, q.squares, q.gated, q.offset, q.gated_mean,
        q.marginal.skew, q.marginal.tails, *q.root.arrays,
    )  # fmt: skip
