"""The robust Gaussian: its three parts on exact cases, and input that no Gaussian fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.gaussian import batch_match
from pymc_ext.variational.gaussian.batch_match import BatchMatch, new_course
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.natural_gradient import NaturalGradient
from pymc_ext.variational.gaussian.numbers import inverse_root, shorten_outliers
from pymc_ext.variational.gaussian.path import Path, best_of
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.gaussian.score_matching import divergence, matched
from tests.tolerances import NUMERIC, monte_carlo


def gaussian(mean, cov):
    """log N(mean, cov) and its score."""
    precision, constant = np.linalg.inv(cov), -0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]

    def both(t):
        off = (t - mean) @ precision
        return constant - 0.5 * np.sum(off * (t - mean), axis=1), -off

    return CallableDensity(lambda t: both(t)[0], lambda t: both(t)[1], dimension=len(mean))


def badly_scaled(D, seed=1):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((D, D))
    sd = 10.0 ** rng.uniform(-3, 3, D)
    return rng.standard_normal(D), np.outer(sd, sd) * (A @ A.T / D + np.eye(D))


def one_sided(density=lambda x: np.where(x > 0, -x, -np.inf)):
    """An exponential law on its own scale: a hard edge at 0."""
    return CallableDensity(lambda t: density(t[:, 0]), lambda t: -np.ones_like(t), dimension=1)


# ---- the steps -------------------------------------------------------------------------------


def test_a_match_solves_its_quadratic_equation() -> None:
    rng = np.random.default_rng(1)
    D, B, lam = 4, 7, 3.0
    root = np.tril(rng.standard_normal((D, D))) + 3 * np.eye(D)
    q = Gaussian(rng.standard_normal(D), root)
    z, g = rng.standard_normal((2, B, D))
    new = matched(q, z, g, lam)
    z_mean, g_mean = z.mean(axis=0), g.mean(axis=0)
    shrunk = lam / (1 + lam)
    U = lam * np.cov(g.T, bias=True) + shrunk * np.outer(g_mean, g_mean)
    V = q.cov + lam * np.cov(z.T, bias=True) + shrunk * np.outer(q.mean - z_mean, q.mean - z_mean)
    np.testing.assert_allclose(new.cov @ U @ new.cov + new.cov, V, rtol=1e-8, atol=1e-8)
    mean = q.mean / (1 + lam) + shrunk * (new.cov @ g_mean + z_mean)
    np.testing.assert_allclose(new.mean, mean, rtol=1e-9)


def test_a_heavy_match_on_a_gaussian_finds_it_at_once() -> None:
    mean, cov = np.array([3.0, -1.0, 0.5]), np.diag([0.5, 1.0, 4.0]) + 0.3
    density, q = gaussian(mean, cov), Gaussian(mean + 1, np.eye(3))
    theta, _ = q.forward(np.random.default_rng(2).standard_normal((20, 3)))
    found = matched(q, theta, density.log_density_gradient(theta)[1], 1e8)
    np.testing.assert_allclose(found.mean, mean, atol=1e-5)
    np.testing.assert_allclose(found.cov, cov, atol=1e-5)


def test_scores_as_large_as_numbers_go_are_no_match_and_no_warning() -> None:
    rng = np.random.default_rng(1)
    z, g = rng.standard_normal((2, 8, 3))
    g[0] = 1e200
    with pytest.raises(np.linalg.LinAlgError, match="too large"):
        matched(Gaussian(np.zeros(3), np.eye(3)), z, g, 1.0)
    cut = shorten_outliers(g)
    np.testing.assert_array_equal(cut[0], 0)
    np.testing.assert_array_equal(cut[1:], g[1:])


def test_the_divergence_is_that_of_two_gaussians() -> None:
    rng = np.random.default_rng(3)
    new, old = (
        Gaussian(rng.standard_normal(2), np.tril(rng.standard_normal((2, 2))) + 2 * np.eye(2))
        for _ in range(2)
    )
    theta, log_new = new.forward(rng.standard_normal((400_000, 2)))
    gap = log_new - old.log_density(theta)
    assert abs(divergence(new, old) - gap.mean()) < monte_carlo(gap.std() / np.sqrt(len(gap)))


def test_a_step_of_the_elbo_leaves_the_posterior_as_it_is() -> None:
    mean, cov = badly_scaled(4)
    density = CountedDensity(gaussian(mean, cov))
    steps = NaturalGradient(
        density, Gaussian(mean, np.linalg.cholesky(cov)), np.random.default_rng(1)
    )
    steps.advance()
    np.testing.assert_allclose(steps.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(steps.root @ steps.root.T, cov, rtol=1e-8)


@pytest.mark.parametrize("size", [0.1, 3.0], ids=["as it is", "cut"])
def test_the_root_of_a_bounded_step_is_that_of_its_eigenvalues(size) -> None:
    A = np.random.default_rng(1).standard_normal((6, 6))
    change = size * (A + A.T) / 12
    values, axes = np.linalg.eigh(change)
    assert (values.max() > 0.5 or values.min() < -1) == (size > 1)
    root = inverse_root(change, -1.0, 0.5)
    expected = (axes / (1 - np.clip(values, -1.0, 0.5))) @ axes.T
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(root, np.tril(root))


def test_the_batch_kept_for_moments_is_in_mirrored_pairs() -> None:
    mean, cov = badly_scaled(3)
    q = Gaussian(mean, np.linalg.cholesky(cov))
    steps = NaturalGradient(CountedDensity(gaussian(mean, cov)), q, np.random.default_rng(1))
    for _ in range(3):
        steps.advance()
    batch = steps.batch(q)
    half = len(batch.theta) // 2
    assert half == 3 * 25
    middle = (batch.theta[:half] + batch.theta[half:]) / 2
    np.testing.assert_allclose(middle, np.broadcast_to(mean, middle.shape), rtol=1e-6, atol=1e-9)


# ---- the algorithm ---------------------------------------------------------------------------


@pytest.mark.parametrize("D", [1, 5, 30])
def test_a_gaussian_whose_scales_differ_by_a_million_is_found(D) -> None:
    mean, cov = badly_scaled(D)
    fitted = BatchMatch().fit(gaussian(mean, cov), random_seed=1)
    sd = np.sqrt(np.diag(cov))
    assert fitted.result.converged
    np.testing.assert_allclose((fitted.q.mean - mean) / sd, 0, atol=1e-3)
    np.testing.assert_allclose(fitted.q.std, sd, rtol=NUMERIC * 100)
    assert fitted.result.gradient_evaluations < 2_000
    assert abs(fitted.result.elbo) < 1e-3  # log Z = 0


def skew_normal():
    """y ~ N(0, 1) seen through x = y − log cosh(y) / 2: skew, no Gaussian."""
    from scipy.special import log_ndtr

    def value(t):
        return np.sum(-0.5 * t**2 + log_ndtr(3 * t), axis=1)

    def score(t):
        ratio = np.exp(-4.5 * t**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(3 * t))
        return -t + 3 * ratio

    return CallableDensity(value, score, dimension=2)


def test_the_elbo_is_that_of_the_best_gaussian() -> None:
    """Against L-BFGS on the ELBO by Gauss–Hermite quadrature, a factor at a time."""
    from scipy.optimize import minimize

    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    density = skew_normal()

    def loss(x):
        theta = x[0] + np.exp(x[1]) * nodes
        both = density.log_density(np.stack([theta, np.zeros_like(theta)], axis=1))
        return -(weights @ both + x[1] + 0.5 + 0.5 * np.log(2 * np.pi) + np.log(2))

    best = minimize(loss, [0.8, -0.5], tol=1e-10)
    fitted = BatchMatch().fit(density, random_seed=2)
    slack = monte_carlo(fitted.result.elbo_se) + 0.004  # two gains that do not pay
    assert abs(fitted.result.elbo + 2 * best.fun) < slack
    np.testing.assert_allclose(fitted.q.mean, best.x[0], atol=0.05)
    np.testing.assert_allclose(fitted.q.std, np.exp(best.x[1]), rtol=0.05)


def test_a_path_whose_draws_differ_widely_does_not_count_as_good() -> None:
    """From the origin of a funnel the mode is at −445, where draws of its Gaussian have no mass."""
    q = LowRankGaussian.from_factor(np.zeros(1), np.zeros((1, 1)), np.ones(1))

    def path(elbo, error):
        return Path(q, elbo, error, np.zeros(1))

    good = path(70.0, 2.0)
    assert best_of([path(-1e197, 3e197), good]) is good
    first = path(68.0, 2.0)
    assert best_of([first, good]) is first  # within the error of their difference
    assert best_of([path(60.0, 2.0), good]) is good


def test_without_the_finish_it_ends_with_batches() -> None:
    fitted = BatchMatch(finish=None).fit(skew_normal(), random_seed=1)
    assert fitted.result.stop_reason == "batches no longer raise the ELBO"
    assert fitted.result.gradient_evaluations < 1_000


def test_a_callback_that_stops_it_leaves_the_best_so_far() -> None:
    calls = []

    def stop(approx, losses, i):
        calls.append(i)
        if i == 12:
            raise StopIteration

    mean, cov = badly_scaled(4)
    density = CountedDensity(gaussian(mean, cov))
    with Monitor(None, [stop], 0, 100, False) as monitor:
        fitted = BatchMatch().run(density, np.zeros(4), seed=1, budget=100, monitor=monitor)
    assert calls[-1] == 12
    assert not fitted.result.converged
    assert "stopped by a callback" in fitted.result.stop_reason


def test_an_interrupt_leaves_the_best_so_far() -> None:
    mean, cov = badly_scaled(4)
    exact, rows = gaussian(mean, cov), [0]

    def score(t):
        before, rows[0] = rows[0], rows[0] + len(t)
        if before <= 400 < rows[0]:
            raise KeyboardInterrupt
        return exact.log_density_gradient(t)[1]

    density = CallableDensity(exact.log_density, score, dimension=4)
    fitted = BatchMatch().fit(density, random_seed=1)
    assert not fitted.result.converged
    assert fitted.result.stop_reason == "unfinished: KeyboardInterrupt"
    assert np.isfinite(fitted.result.elbo)


def test_a_fit_whose_last_block_gained_nats_is_not_called_converged(monkeypatch) -> None:
    mean, cov = badly_scaled(4)
    root = np.linalg.cholesky(cov)
    found = batch_match.in_doubling_blocks
    for gain, converged in ((0.5, True), (3500.0, False)):
        monkeypatch.setattr(
            batch_match,
            "in_doubling_blocks",
            lambda *a, gain=gain: replace(found(*a), gain=gain, error=0.1),
        )
        fitted = BatchMatch().fit(gaussian(mean, cov), random_seed=1, state=Gaussian(mean, root))
        assert fitted.result.converged is converged


def test_few_iterations_are_said_to_be_unfinished() -> None:
    fitted = BatchMatch().fit(skew_normal(), n=3, random_seed=1)
    assert fitted.result.stop_reason == "unfinished: the iterations are used up"


# ---- what no Gaussian fits -------------------------------------------------------------------


def test_a_flat_coordinate_is_named() -> None:
    density = CallableDensity(
        lambda t: -0.5 * t[:, 0] ** 2,
        lambda t: np.stack([-t[:, 0], np.zeros(len(t))], axis=1),
        dimension=2,
        names=["x", "free"],
    )
    with pytest.raises(ValueError, match=r"free.*improper"):
        BatchMatch().fit(density, random_seed=1)


def test_a_flat_direction_between_coordinates_is_refused() -> None:
    """Two copies of one coordinate: only their sum is known."""
    density = CallableDensity(
        lambda t: -0.5 * t.sum(axis=1) ** 2,
        lambda t: -np.broadcast_to(t.sum(axis=1, keepdims=True), t.shape),
        dimension=2,
        names=["a", "b"],
    )
    with pytest.raises(ValueError, match=r"a.*b.*improper"):
        BatchMatch().fit(density, random_seed=1)


def test_a_cauchy_law_is_said_not_to_fit() -> None:
    density = CallableDensity(
        lambda t: -np.log1p(t**2).sum(axis=1), lambda t: -2 * t / (1 + t**2), dimension=20
    )
    fitted = BatchMatch().fit(density, random_seed=1)
    assert np.all(fitted.q.std < 10)
    assert any("no Gaussian fits it" in note for note in fitted.result.notes)


def test_a_few_draws_beyond_an_edge_do_not_make_a_bad_fit_better() -> None:
    """N(0, 1) cut at −3: q = N(0, 1) has draws beyond it, q = N(5, 1) hardly any."""
    density = CallableDensity(
        lambda t: np.where(t[:, 0] > -3, -0.5 * t[:, 0] ** 2, -np.inf), lambda t: -t, dimension=1
    )
    course = new_course(CountedDensity(density), 1, 10, Monitor.silent())
    good, bad = (course.candidate(Gaussian(np.array([m]), np.eye(1))) for m in (0.0, 5.0))
    assert not good.inside.all()
    assert good.beats(bad)
    assert not bad.beats(good)
    share = np.mean(good.inside)
    np.testing.assert_allclose(good.elbo, 0.5 * np.log(2 * np.pi) + np.log(share), rtol=1e-9)
    assert course.candidate(Gaussian(np.array([-5.0]), np.eye(1))).elbo == -np.inf


def test_the_noisiest_elbo_is_not_what_a_fit_hands_back() -> None:
    """q with an sd of 1.1 lacks .005 nats, and its ELBO on 500 draws is .03 above by chance."""
    density = CallableDensity(lambda t: -0.5 * t[:, 0] ** 2, lambda t: -t, dimension=1)
    exact, wide = (Gaussian(np.zeros(1), np.full((1, 1), sd)) for sd in (1.0, 1.1))
    for seed in range(20):
        course = new_course(CountedDensity(density), seed, 10, Monitor.silent())
        last = course.offer(exact)
        if course.offer(wide).elbo > last.elbo:
            break
    else:
        raise AssertionError("no seed favours the wrong one: the test shows nothing")
    assert course.best is not None and course.best.q is wide
    assert course.settled(last) is last
    assert course.settled(course.candidate(wide)).q is wide  # nothing to choose from
    poor = course.candidate(Gaussian(np.full(1, 3.0), np.eye(1)))  # its weights know nothing
    assert course.settled(poor).q is wide


def test_a_hard_edge_is_named() -> None:
    fitted = BatchMatch().fit(one_sided(), np.ones(1), random_seed=1)
    assert any("hard edges" in note for note in fitted.result.notes)


def test_scores_that_are_finite_nowhere_are_refused() -> None:
    density = CallableDensity(
        lambda t: np.where(np.abs(t[:, 0] - 1) < 1e-12, 0.0, np.nan),
        lambda t: np.zeros_like(t),
        dimension=1,
    )
    with pytest.raises(ValueError, match="finite at fewer than half of the draws"):
        BatchMatch().fit(density, np.ones(1), random_seed=1)


@pytest.mark.parametrize(
    "option", [{"paths": 0}, {"paths": True}, {"paths": 2.0}, {"finish": "yes"}]
)
def test_options_out_of_range_are_refused(option) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        BatchMatch(**option)


def test_too_few_factors_are_said_to_be_what_is_missing() -> None:
    cov = np.array([[2.0, 1.5, 1.0], [1.5, 2.0, -0.9], [1.0, -0.9, 3.0]]) + 0.1 * np.eye(3)
    notes = BatchMatch(rank=1).fit(gaussian(np.zeros(3), cov), random_seed=1).result.notes
    assert any("give a larger rank" in note for note in notes), notes
    assert not BatchMatch().fit(gaussian(np.zeros(3), cov), random_seed=1).result.notes
