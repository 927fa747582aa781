"""Contracts of every update rule and evidence formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import pymc_ext as px
from pymc_ext.gp.errors import ConvergenceError
from pymc_ext.gp.likelihoods import StudentT
from pymc_ext.gp.likelihoods.likelihood import Expectations
from pymc_ext.gp.solver import Solver
from tests.pymc_ext.gp.problems import (
    LIKELIHOODS,
    RULES,
    covariance,
    observations,
    prior,
    solver_of,
    sparse,
)
from tests.tolerances import EXACT, NUMERIC

NAMES = tuple(LIKELIHOODS)
each_rule = pytest.mark.parametrize("rule", RULES)
each_likelihood = pytest.mark.parametrize("name", NAMES)


@pytest.mark.parametrize("rule", [r for r in RULES if r != "jaakkola"])
def test_gaussian_likelihood_makes_every_rule_exact_regression(rule: str) -> None:
    X, m, K = prior(8)
    likelihood, phi, y = observations("gaussian", X)
    solver = solver_of(rule, likelihood)
    C = K + phi[0] ** 2 * np.eye(8)
    solution = solver.solve(y, phi, (m, K))
    assert solution.value == pytest.approx(stats.multivariate_normal(m, C).logpdf(y), rel=EXACT)
    post = solution.fixed_point.posterior
    np.testing.assert_allclose(post.mean, m + K @ np.linalg.solve(C, y - m), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(post.variance, np.diag(K - K @ np.linalg.solve(C, K)), rtol=1e-9)
    by_sigma, by_mean, by_K = solver.gradient(y, phi, (m, K))
    a = np.linalg.solve(C, y - m)
    by_C = 0.5 * (np.outer(a, a) - np.linalg.inv(C))
    np.testing.assert_allclose(by_mean, a, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(by_K, by_C, rtol=1e-7, atol=1e-8)
    assert by_sigma[0] == pytest.approx(2 * phi[0] * np.trace(by_C), rel=1e-8)


@pytest.mark.parametrize("rule", [r for r in RULES if r != "jaakkola"])
@pytest.mark.parametrize("noise", [1e-1, 1e-3])
def test_precise_observations_far_from_the_mean_lose_no_digits(rule: str, noise: float) -> None:
    """Sites of precision 1e6 at 300 prior sds: the evidence keeps a Cholesky factor's accuracy."""
    X = np.linspace(0, 5, 30)[:, None]
    r = np.sqrt(5) * np.abs(X - X.T) / 3.4
    K = 30.0 * (1 + r + r**2 / 3) * np.exp(-r)
    y = 300 + np.sin(2 * X[:, 0]) + noise * np.random.default_rng(0).normal(size=30)
    solution = solver_of(rule, px.gp.Gaussian()).solve(y, np.array([noise]), (np.zeros(30), K))
    C = K + noise**2 * np.eye(30)
    L = np.linalg.cholesky(C)
    z = np.linalg.solve(L, y)
    exact = -0.5 * z @ z - np.sum(np.log(np.diag(L))) - 15 * np.log(2 * np.pi)
    assert solution.value == pytest.approx(exact, abs=2e-6)


@pytest.mark.parametrize("rule", ["laplace", "ep", "power-ep", "cvi", "hybrid"])
@pytest.mark.parametrize("name", NAMES)
def test_a_latent_without_prior_variance_is_its_mean(rule: str, name: str) -> None:
    """As of a linear kernel at its centre: log p(y|m) of that row is added, the rest is apart."""
    X, m, _ = prior(6)
    likelihood, phi, y = observations(name, X)
    solver = solver_of(rule, likelihood)
    x = np.array([-1.0, -0.5, 0.0, 0.4, 0.8, 1.3])
    K = np.outer(x, x) + 0.2 * np.diag(x**2)
    others = np.arange(6) != 2
    part = solver_of(rule, likelihood).solve(y[others], phi, (m[others], K[np.ix_(others, others)]))
    at_mean = likelihood.log_prob(m[2:3], y[2:3], phi)[0]
    whole = solver.solve(y, phi, (m, K))
    assert whole.value == pytest.approx(part.value + at_mean, rel=1e-8)
    assert whole.fixed_point.residual < 1e-6
    post = whole.fixed_point.posterior
    np.testing.assert_allclose(post.mean[others], part.fixed_point.posterior.mean, atol=1e-7)
    slope = likelihood.derivatives(m[2:3], y[2:3], phi)[0][0]
    by_mean = solver.gradient(y, phi, (m, K))[-2]
    assert by_mean[2] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.1])
@pytest.mark.parametrize(
    ("likelihood", "phi", "extreme"),
    [(px.gp.StudentT(), [4.0, 0.05], 20.0), (px.gp.Poisson(), [], 100.0)],
    ids=["student-t", "poisson"],
)
def test_ep_with_one_narrow_prior_of_any_width(likelihood, phi, extreme, power) -> None:
    """Where the digits of its tilted moments run out: the evidence is smooth in the width."""
    m, y = np.array([0.2, -0.1, 0.4, 0.0, 0.1]), np.array([0.0, 1.0, extreme, 0.0, 1.0])
    K = 0.5 + 0.5 * np.eye(5)
    solver, phi = Solver(likelihood, px.gp.EP(power=power)), np.array(phi)
    for log_sd in np.arange(-7.0, -2.0, 0.25):
        sds = np.array([1.0, 1.0, 10**log_sd, 1.0, 1.0])
        value = solver.solve(y, phi, (m, K * np.outer(sds, sds))).value
        by_K = solver.gradient(y, phi, (m, K * np.outer(sds, sds)))[-1]
        slope = 2 * np.sum(by_K[2] * K[2] * sds) * sds[2]  # in log sd
        moved = sds * np.where(np.arange(5) == 2, 1 + 1e-3, 1.0)
        other = solver.solve(y, phi, (m, K * np.outer(moved, moved))).value
        assert other - value == pytest.approx(slope * np.log1p(1e-3), rel=0.02, abs=1e-8)


@pytest.mark.parametrize("variance", [1e-8, 1.0, 1e8])
def test_one_precise_observation_under_any_prior(variance: float) -> None:
    solution = solver_of("ep", px.gp.Gaussian()).solve(
        np.array([0.7]), np.array([0.1]), (np.zeros(1), np.array([[variance]]))
    )
    exact = stats.norm(0, np.sqrt(variance + 0.01)).logpdf(0.7)
    assert solution.value == pytest.approx(exact, rel=1e-10)


@each_likelihood
@each_rule
@pytest.mark.parametrize("kind", ["full", "sparse"])
def test_gradients_match_differences(name: str, rule: str, kind: str) -> None:
    X, m, K = prior(8)
    likelihood, phi, y = observations(name, X)
    solver = solver_of(rule, likelihood)
    if solver is None:
        with pytest.raises(ValueError, match=r"use|bounds"):
            Solver(likelihood, *RULES[rule])
        return
    Z = np.random.default_rng(4).normal(size=(4, 2))
    inputs = (phi, m, K) if kind == "full" else (phi, *sparse(X, m, Z))
    bars = solver.gradient(y, inputs[0], inputs[1:])
    rng, h = np.random.default_rng(7), 1e-4
    for i, (x, bar) in enumerate(zip(inputs, bars, strict=True)):
        if not x.size:
            continue
        d = rng.uniform(0.5, 1, size=x.shape)
        d = d + d.T if d.ndim == 2 and d.shape[0] == d.shape[1] else d
        values = []
        for step in (2 * h, h, -h, -2 * h):
            moved = [*inputs[:i], x + step * d, *inputs[i + 1 :]]
            values.append(solver.solve(y, moved[0], tuple(moved[1:])).value)
        slope = (-values[0] + 8 * values[1] - 8 * values[2] + values[3]) / (12 * h)
        assert np.sum(bar * d) == pytest.approx(slope, rel=NUMERIC, abs=2e-6 * (1 + abs(values[1])))


@pytest.mark.parametrize("kind", ["full", "sparse"])
@pytest.mark.parametrize("rule", ["matching", "matching-elbo", "cvi"])
def test_gradients_of_more_classes_match_differences(rule: str, kind: str) -> None:
    X, m, K = prior(8)
    y, none = np.array([0.0, 1, 2, 2, 1, 0, 0, 2]), np.empty(0)
    solver = Solver(px.gp.Categorical(3), *RULES[rule])
    inputs = (m, K) if kind == "full" else sparse(X, m, X[:3] + 0.1)
    bars = solver.gradient(y, none, inputs)[1:]
    rng, h = np.random.default_rng(7), 1e-4
    for i, (x, bar) in enumerate(zip(inputs, bars, strict=True)):
        d = rng.uniform(0.5, 1, size=x.shape)
        d = d + d.T if d.ndim == 2 and d.shape[0] == d.shape[1] else d
        up, down = (
            solver.solve(y, none, (*inputs[:i], x + s * h * d, *inputs[i + 1 :])).value
            for s in (1, -1)
        )
        assert np.sum(bar * d) == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


def grid_truth(likelihood, phi, y, m, K, points=241, reach=8.0):
    """log Z, means and variances by a dense grid over two latents."""
    sd = np.sqrt(np.diag(K))
    axes = [np.linspace(m[i] - reach * sd[i], m[i] + reach * sd[i], points) for i in (0, 1)]
    f = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = stats.multivariate_normal(m, K).logpdf(f)
    log_p += likelihood.log_prob(f, y, phi).sum(axis=1)
    cell = np.prod([a[1] - a[0] for a in axes])
    w = np.exp(log_p - log_p.max())
    Z = w.sum()
    mean = w @ f / Z
    return log_p.max() + np.log(Z * cell), mean, w @ (f - mean) ** 2 / Z


@each_likelihood
def test_two_points_against_dense_quadrature(name: str) -> None:
    X, m, K = prior(2)
    likelihood, phi, y = observations(name, X)
    log_Z, mean, variance = grid_truth(likelihood, phi, y, m, K)
    ep = solver_of("ep", likelihood).solve(y, phi, (m, K))
    post = ep.fixed_point.posterior
    # EP is accurate, not exact: errors seen are 1e-6 (probit) to 3e-2 (Student-t with outliers)
    loose = 0.06 if name == "student-t" else 3e-3
    assert ep.value == pytest.approx(log_Z, abs=loose)
    np.testing.assert_allclose(post.mean, mean, atol=5 * loose)
    np.testing.assert_allclose(post.variance, variance, rtol=5 * loose)
    for rule in ("cvi", "jaakkola", "laplace-elbo", "matching-elbo"):
        solver = solver_of(rule, likelihood)
        if solver is not None:
            assert solver.solve(y, phi, (m, K)).value <= log_Z + 1e-9  # lower bounds
    if name != "gaussian":
        hybrid = solver_of("hybrid", likelihood).solve(y, phi, (m, K)).value
        elbo = solver_of("cvi", likelihood).solve(y, phi, (m, K)).value
        assert abs(hybrid - log_Z) < abs(elbo - log_Z)


@each_likelihood
def test_one_point_makes_ep_exact(name: str) -> None:
    X, m, K = prior(1)
    likelihood, phi, y = observations(name, X)
    solution = solver_of("ep", likelihood).solve(y, phi, (m, K))
    truth = likelihood.tilted(m, np.diag(K), y, phi)  # itself checked against quadrature
    post = solution.fixed_point.posterior
    assert solution.value == pytest.approx(truth.log_normaliser[0], rel=1e-9)
    assert post.mean[0] == pytest.approx(truth.mean[0], rel=1e-8)
    assert post.variance[0] == pytest.approx(truth.variance[0], rel=1e-8)


@pytest.mark.parametrize("name", ["probit", "logit", "poisson"])
def test_laplace_is_the_textbook_formula(name: str) -> None:
    from scipy.optimize import minimize

    X, m, K = prior(5)
    likelihood, phi, y = observations(name, X)
    Ki = np.linalg.inv(K)

    def negative(f):
        return 0.5 * (f - m) @ Ki @ (f - m) - likelihood.log_prob(f, y, phi).sum()

    f = minimize(negative, m, method="BFGS", options={"gtol": 1e-9}).x
    W = -likelihood.derivatives(f, y, phi)[1]
    log_Z = -negative(f) - 0.5 * np.linalg.slogdet(np.eye(5) + K * W)[1]
    solution = solver_of("laplace", likelihood).solve(y, phi, (m, K))
    np.testing.assert_allclose(solution.fixed_point.posterior.mean, f, atol=1e-5)
    assert solution.value == pytest.approx(log_Z, rel=1e-8)


@pytest.mark.parametrize("name", ["probit", "logit", "student-t"])
def test_variational_optimum_beats_every_gaussian_near_it(name: str) -> None:
    X, m, K = prior(3)
    likelihood, phi, y = observations(name, X)
    solution = solver_of("cvi", likelihood).solve(y, phi, (m, K))
    post, rng, Ki = solution.fixed_point.posterior, np.random.default_rng(0), np.linalg.inv(K)

    def bound(mu, S):
        value = likelihood.expectations(mu, np.diag(S), y, phi).value.sum()
        d = mu - m
        kl = np.trace(Ki @ S) + d @ Ki @ d - 3 - np.linalg.slogdet(Ki @ S)[1]
        return value - 0.5 * kl

    assert bound(post.mean, post.S) == pytest.approx(solution.value, rel=1e-9)
    for _ in range(20):
        L = np.linalg.cholesky(post.S) @ (np.eye(3) + 0.05 * rng.normal(size=(3, 3)))
        near = bound(post.mean + 0.05 * rng.normal(size=3), L @ L.T)
        assert near < solution.value


@each_likelihood
@each_rule
def test_order_of_the_observations_does_not_matter(name: str, rule: str) -> None:
    X, m, K = prior(8)
    likelihood, phi, y = observations(name, X)
    solver = solver_of(rule, likelihood)
    if solver is None:
        return
    order = np.random.default_rng(2).permutation(8)
    value = solver.solve(y, phi, (m, K)).value
    other = solver_of(rule, likelihood)
    shuffled = other.solve(y[order], phi, (m[order], K[np.ix_(order, order)])).value
    assert shuffled == pytest.approx(value, rel=1e-8)


@each_likelihood
@each_rule
def test_sparse_with_all_inputs_is_the_full_model(name: str, rule: str) -> None:
    X, m, K = prior(8)
    likelihood, phi, y = observations(name, X)
    if (solver := solver_of(rule, likelihood)) is None:
        return
    full = solver.solve(y, phi, (m, K)).value
    same = solver_of(rule, likelihood).solve(y, phi, sparse(X, m, X)).value
    assert same == pytest.approx(full, rel=1e-6)


@pytest.mark.parametrize("sparsely", [False, True])
def test_laplace_reaches_the_mode_in_few_factorisations(sparsely: bool) -> None:
    """Newton's steps alone take five: steps with old factors take the place of two."""
    X, m, K = prior(40)
    likelihood, phi, y = observations("logit", X)
    inputs = sparse(X, 9 * m, X[:15]) if sparsely else (9 * m, 9 * K)
    found = solver_of("laplace", likelihood).solve(y, phi, inputs).fixed_point
    slope = likelihood.derivatives(found.posterior.mean, y, phi)[0] - found.posterior.alpha
    np.testing.assert_allclose(slope, 0, atol=1e-9)
    assert found.iterations <= 4


@pytest.mark.parametrize("rule", ["laplace", "ep", "cvi", "hybrid", "matching", "jaakkola"])
def test_duplicated_inputs_and_one_class_are_handled(rule: str) -> None:
    X, m, K = prior(6)
    X[3:], m[3:] = X[:3], m[:3]
    likelihood = px.gp.BernoulliLogit()
    K = np.tile(K[:3, :3], (2, 2))
    for y in (np.array([0.0, 1, 1, 1, 1, 0]), np.ones(6)):
        solution = solver_of(rule, likelihood).solve(y, np.empty(0), (m, K))
        assert np.isfinite(solution.value)
        np.testing.assert_allclose(
            solution.fixed_point.posterior.mean[:3], solution.fixed_point.posterior.mean[3:],
            rtol=1e-7, atol=1e-8,
        )  # fmt: skip


@pytest.mark.parametrize("y", [2.0, 6.0])
def test_laplace_takes_the_higher_of_two_modes(y: float) -> None:
    """An outlier's posterior has a mode at it and one at the prior's mean; a grid tells which."""
    phi, grid = np.array([3.0, 0.1]), np.linspace(-1, 7, 80_001)
    solver = Solver(px.gp.StudentT(nu=3, sigma=0.1), px.gp.Laplace())
    mode = solver.solve(np.array([y]), phi, (np.zeros(1), np.eye(1))).fixed_point.posterior.mean
    joint = stats.t.logpdf(y, 3, grid, 0.1) + stats.norm.logpdf(grid)
    np.testing.assert_allclose(mode, grid[np.argmax(joint)], atol=1e-4)


@pytest.mark.parametrize("rule", ["laplace", "ep", "cvi"])
def test_student_t_keeps_negative_site_precisions(rule: str) -> None:
    X, m, K = prior(12)
    likelihood, phi, y = observations("student-t", X)
    sites = solver_of(rule, likelihood).solve(y, phi, (m, K)).fixed_point.sites
    assert (sites.precision < 0).any()


@pytest.mark.parametrize("variance", [1e2, 1e6])
def test_variational_fixed_point_of_huge_prior_variances(variance: float) -> None:
    """Separable classes: rounding hides the last digits of the sites, not those of the evidence."""
    X, m, _ = prior(40, dims=3)
    y, K = (X[:, 0] > 0).astype(float), variance * covariance(X, X, 1.0)
    solver = solver_of("cvi", px.gp.BernoulliProbit())
    solution = solver.solve(y, np.empty(0), (m, K))
    assert solution.fixed_point.residual < 1e-5
    slope = np.sum(solver.gradient(y, np.empty(0), (m, K))[2] * K)
    up, down = (solver.solve(y, np.empty(0), (m, K * (1 + h))).value for h in (1e-3, -1e-3))
    assert slope == pytest.approx((up - down) / 2e-3, rel=1e-3)


@pytest.mark.parametrize("rate", [1.0, 1e4])
@pytest.mark.parametrize("variance", [60.0, 1e4])
def test_variational_search_for_counts_under_wide_priors(rate: float, variance: float) -> None:
    """E exp(f) of the prior is beyond any number there: the search must not start from it."""
    X = np.linspace(0, 5, 20)[:, None]
    y = np.random.default_rng(0).poisson(rate * np.exp(np.sin(X[:, 0]))).astype(float)
    prior_inputs = np.zeros(20), covariance(X, X, variance)
    found = solver_of("cvi", px.gp.Poisson()).solve(y, np.empty(0), prior_inputs)
    energy = solver_of("ep", px.gp.Poisson()).solve(y, np.empty(0), prior_inputs)
    assert found.fixed_point.iterations < 60
    assert energy.value - 0.5 < found.value < energy.value


def test_implicit_gradients_of_which_little_is_left() -> None:
    """Large counts: the right side of the sites' system is rounding of terms a million times it."""
    x = np.linspace(-3, 3, 80)
    y = np.random.default_rng(0).poisson(np.exp(6 + np.sin(2 * x))).astype(float)

    def solved(log_variance: float) -> tuple[Solver, tuple]:
        K = covariance(x[:, None], x[:, None], np.exp(log_variance))
        return Solver(px.gp.Poisson(), px.gp.CVI(tolerance=1e-11), "ep"), (y, [], (0 * x, K))

    def value(log_variance: float) -> float:
        solver, (y, phi, inputs) = solved(log_variance)
        return solver.solve(y, np.array(phi), inputs).value

    at, h = np.log(100.0), 1e-3
    solver, (y, phi, inputs) = solved(at)
    by_K = solver.gradient(y, np.array(phi), inputs)[2]
    difference = (value(at + h) - value(at - h)) / (2 * h)
    assert np.sum(by_K * inputs[1]) == pytest.approx(difference, rel=1e-6)


def test_evidence_beyond_numbers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    X, m, K = prior(6)
    likelihood, phi, y = observations("probit", X)
    monkeypatch.setattr(type(likelihood), "expectations", _infinite)
    with pytest.raises(px.gp.ConvergenceError, match="by learning='elbo' is -inf at the sites of"):
        Solver(likelihood, px.gp.Laplace(), "elbo").solve(y, phi, (m, K))
    mean = Solver(likelihood, px.gp.Laplace(), "elbo").posterior(y, phi, (m, K)).mean
    assert np.isfinite(mean).all()  # predictions ask for no evidence


def _infinite(self, mean: np.ndarray, *args: object, **kwargs: object) -> Expectations:
    return Expectations(np.full_like(mean, -np.inf), np.zeros((4, len(mean))), np.zeros((0, 3, 6)))


def test_errors_of_the_quadrature_do_not_stop_the_variational_search() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 1))
    y = 1.5 * np.sin(2 * X[:, 0]) + 0.1 * rng.standard_t(3, 60)
    K = covariance(X, X, 2.0)
    solver = solver_of("cvi", StudentT())
    solution = solver.solve(y, np.array([3.0, 0.05]), (np.zeros(60), K))
    assert solution.fixed_point.residual < 1e-9


@pytest.mark.parametrize("seed", [8, 13, 26])
def test_variational_search_ends_where_its_bound_is_flat(seed: int) -> None:
    """A scale of .02 against values of 1: the sites still move where differences of the ELBO are
    quadrature errors, and the largest of their moves need not fall on the way to the maximum."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 10, 60))[:, None]
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.standard_t(2, 60)
    r = np.sqrt(5) * np.abs(X - X.T)
    K = (1 + r + r**2 / 3) * np.exp(-r)
    solver = Solver(StudentT(), px.gp.CVI(tolerance=1e-8))
    solution = solver.solve(y, np.array([3.0, 0.02]), (np.zeros(60), K))
    assert solution.fixed_point.residual < 1e-5


@pytest.mark.parametrize("name", ["probit", "logit", "poisson", "student-t"])
def test_ep_extrapolates_its_updates(name: str) -> None:
    """Updates with a share .2 of the old sites alone gain less than a factor 5 each."""
    X, m, K = prior(30, dims=3)
    likelihood, phi, y = observations(name, X)
    found = Solver(likelihood, px.gp.EP(tolerance=1e-9)).solve(y, phi, (m, K)).fixed_point
    assert found.residual < 1e-9
    assert found.iterations < 9 / np.log10(5)


@pytest.mark.parametrize(("rule", "method"), [("ep", "tilted"), ("cvi", "expectations")])
def test_an_update_that_cannot_be_integrated_is_shortened(
    rule: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, m, K = prior(12)
    likelihood, phi, y = observations("probit", X)
    expected = solver_of(rule, likelihood).solve(y, phi, (m, K)).value
    integrate, calls = getattr(likelihood, method), iter(range(1000))

    def fails_once(*args: object, **kwargs: object) -> object:
        if next(calls) == 1:
            raise px.gp.ConvergenceError("their mean is not finite")
        return integrate(*args, **kwargs)

    monkeypatch.setattr(likelihood, method, fails_once)
    assert solver_of(rule, likelihood).solve(y, phi, (m, K)).value == pytest.approx(expected)


def test_ep_ends_where_rounding_hides_its_tolerance() -> None:
    X, m, K = prior(12)
    likelihood, phi, y = observations("logit", X)
    found = Solver(likelihood, px.gp.EP(tolerance=1e-18)).solve(y, phi, (m, K))
    usual = Solver(likelihood, px.gp.EP()).solve(y, phi, (m, K))
    assert found.fixed_point.residual < 1e-6
    assert found.fixed_point.iterations < 200
    assert found.value == pytest.approx(usual.value, rel=EXACT)


def test_ep_that_does_not_converge_says_why() -> None:
    X, m, K = prior(12)
    likelihood, phi, y = observations("student-t", X)
    with pytest.raises(px.gp.ConvergenceError, match=r"EP did not converge: 3 updates .* Raise"):
        Solver(likelihood, px.gp.EP(max_iterations=3)).solve(y, phi, (m, K))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: px.gp.EP(power=0), r"power must be in \(0, 1\]"),
        (lambda: px.gp.EP(damping=1.0), r"damping must be in \[0, 1\)"),
        (lambda: px.gp.CVI(rho=0), r"rho must be in \(0, 1\]"),
        (lambda: px.gp.CVI(tolerance=0.0), "tolerance must be > 0, got 0.0"),
        (lambda: px.gp.EP(tolerance=np.nan), "tolerance must be > 0, got nan"),
        (lambda: px.gp.Laplace(max_iterations=0), "max_iterations must be >= 1, got 0"),
        (lambda: px.gp.Matching("mode"), "mode"),
        (lambda: px.gp.Matching(alpha=-1), "alpha must be positive"),
        (lambda: Solver(px.gp.BernoulliLogit(), px.gp.EP(), "elbo"), "EP learns by ep"),
        (lambda: Solver(px.gp.BernoulliLogit(), px.gp.CVI(), "best"), "learning must be one of"),
        (lambda: Solver(px.gp.Categorical(3), px.gp.EP()), "use rule=CVI"),
        (lambda: Solver(px.gp.Categorical(3), px.gp.CVI(), "ep"), "learns by elbo or sites"),
        (lambda: Solver(StudentT(), px.gp.Matching()), "no Gaussian stands for StudentT"),
    ],
)
def test_bad_choices_are_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("rule", ["laplace", "ep", "cvi", "matching"])
def test_covariances_that_are_none_are_refused(rule: str) -> None:
    """1 on the diagonal, 2 beside it: its eigenvalue −1 is hidden from sites of low precision."""
    K, y = np.full((4, 4), 2.0) - np.eye(4), np.array([0.0, 1, 1, 0])
    with pytest.raises(ValueError, match="K is not positive definite: its smallest eigenvalue is"):
        solver_of(rule, px.gp.BernoulliLogit()).solve(y, np.empty(0), (np.zeros(4), K))
    K[0, 1] = 1.0
    with pytest.raises(ValueError, match="K is not symmetric"):
        solver_of(rule, px.gp.BernoulliLogit()).solve(y, np.empty(0), (np.zeros(4), K))


def test_nan_covariance_and_parameters_are_refused() -> None:
    X, m, K = prior(3)
    likelihood, phi, y = observations("gaussian", X)
    K[0, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        solver_of("cvi", likelihood).solve(y, phi, (m, K))
    with pytest.raises(ValueError, match=r"sigma must be positive and finite, got -1.0"):
        solver_of("cvi", likelihood).solve(y, np.array([-1.0]), prior(3)[1:])


@pytest.mark.parametrize("variance", [1e-10, 1e-13, 1e-20])
@pytest.mark.parametrize(
    ("likelihood", "phi", "y"),
    [
        (px.gp.BernoulliLogit(), [], [0.0, 1.0]),
        (px.gp.Poisson(), [], [0.0, 3.0]),
        (px.gp.StudentT(3.0, 0.5), [3.0, 0.5], [-1.0, 2.0]),
    ],
)
def test_ep_gives_back_a_prior_without_variance(likelihood, phi, y, variance: float) -> None:
    phi, y = np.array(phi), np.array(y)
    inputs = np.zeros(2), variance * np.eye(2)
    solution = Solver(likelihood, px.gp.EP()).solve(y, phi, inputs)
    slope, _, _ = likelihood.derivatives(np.zeros(2), y, phi)
    np.testing.assert_allclose(solution.fixed_point.posterior.mean, variance * slope, rtol=1e-5)
    assert solution.value == pytest.approx(likelihood.log_prob(np.zeros(2), y, phi).sum(), abs=1e-8)


def test_an_elbo_beyond_any_number_is_told() -> None:
    """E exp(f) of a prior whose variance the inducing inputs leave almost whole."""
    inputs = np.zeros(3), 1e4 * np.eye(1), np.full((3, 1), 1e2), np.full(3, 1e4)
    with pytest.raises(ConvergenceError, match="ELBO is -inf, latents of variance 1e\\+04 are too"):
        Solver(px.gp.Poisson(), px.gp.CVI()).solve(np.arange(3.0), np.empty(0), inputs)
