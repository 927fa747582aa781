import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.optimize import approx_fprime

import pymc_ext as px
from bridge import pymc_target
from pymc_ext.density import CountedDensity, DifferenceHessian
from pymc_ext.maths.trust_region import find_mode
from pymc_ext.variational.gaussian import modes
from pymc_ext.variational.gaussian.curvature import covariance_root, modified_root
from pymc_ext.variational.gaussian.empirical import LaplaceEvidence
from pymc_ext.variational.gaussian.modes import LaplaceSearch, ModeSearch
from tests.pymc_ext.variational.grouped import grouped
from tests.pymc_ext.variational.targets import (
    cauchy_location,
    eight_schools,
    ridge,
    ridge_log_evidence,
    two_gaussians,
    two_gaussians_kl,
)
from tests.tolerances import EXACT, NUMERIC, monte_carlo


def fit(model, **options):
    options = grouped({"random_seed": 1, **options}, search=px.ModeSearch)
    inference = px.LaplaceVI(model=model, **options)
    return pm.fit(method=inference, model=model, progressbar=False)


@pytest.fixture(scope="module")
def skewed():
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    with pm.Model() as model:
        slope, rate = pm.Normal("slope", 0, 1), pm.HalfNormal("rate", 2)
        pm.Poisson("y", rate * pt.exp(slope * x), observed=rng.poisson(1.5 * np.exp(0.4 * x)))
    return model


def at(density, theta):
    """log p̃ and its gradient at one point."""
    value, gradient = density.log_density_gradient(theta[None])
    return value[0], gradient[0]


def search_of(approx, **options):
    density = CountedDensity(approx.density)
    return LaplaceSearch(density, approx.group.start, ModeSearch(starts=1, **options), 1)


def test_gradient_and_hessians_against_finite_differences(skewed):
    density, theta = px.LaplaceVI(model=skewed).approx.density, np.array([0.3, -0.2])
    _, gradient = at(density, theta)
    numeric = approx_fprime(theta, lambda t: at(density, t)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5)
    rows = approx_fprime(theta, lambda t: at(density, t)[1], 1e-6)
    np.testing.assert_allclose(density.hessian(theta), rows, rtol=1e-5)
    np.testing.assert_allclose(DifferenceHessian(density)(theta), density.hessian(theta), rtol=1e-9)


def test_scores_of_hessians_are_counted(skewed):
    density = CountedDensity(px.LaplaceVI(model=skewed).approx.density)
    hessian = DifferenceHessian(density)
    hessian(np.array([0.3, -0.2]))
    assert density.gradients % 8 == 0 and density.gradients > 0  # 4 D scores, or that again
    before = density.gradients
    hessian(np.array([0.3, -0.2]))  # with the scale found before
    assert density.gradients == before + 8
    assert fit(skewed).result.gradient_evaluations > 8


def test_covariance_is_the_inverse_hessian_at_a_stationary_point(skewed):
    approx = fit(skewed)
    density, mode = approx.density, approx.mean.eval()
    value, gradient = at(density, mode)
    P, S = -density.hessian(mode), approx.cov.eval()
    assert gradient @ S @ gradient < 1e-20  # 1e-10 posterior standard deviations
    np.testing.assert_allclose(P @ S, np.eye(2), atol=1e-9)
    expected = value + np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(S)[1]
    assert approx.result.log_marginal_laplace == pytest.approx(expected, rel=EXACT)
    assert not approx.result.notes


def test_figure_1_target():
    assert two_gaussians_kl(fit(two_gaussians())) == pytest.approx(0.2446, abs=5e-5)


def test_evidence_of_a_gaussian_target_is_exact_and_that_of_a_skewed_one_corrected(skewed):
    _, X, y = ridge(np.random.default_rng(3))
    with pm.Model() as known:
        w = pm.Normal("w", 0, 2.0, shape=5)
        pm.Normal("y", X @ w, 0.7, observed=y)
    result = fit(known).result
    exact = ridge_log_evidence(X, y, 0.25, 0.7)
    assert result.log_marginal_laplace == pytest.approx(exact, rel=1e-9)
    assert result.log_marginal_is == pytest.approx(exact, rel=1e-8)
    approx = fit(skewed)
    grid = np.stack(np.meshgrid(np.linspace(-1, 2, 301), np.linspace(-2, 2, 401)), -1)
    lp = approx.log_p(grid.reshape(-1, 2))
    truth = np.log(np.sum(np.exp(lp - lp.max())) * 1e-4) + lp.max()
    fresh = approx.result.fresh
    assert abs(fresh.log_marginal_is - truth) < monte_carlo(fresh.log_marginal_is_se)


def test_regression_on_raw_units_is_found_from_the_default_start():
    """Earnings against height in the data's units: intercept −6e4, sd 2e4, first sigma 1."""
    rng = np.random.default_rng(4)
    height = rng.normal(66.6, 3.8, size=1192)
    earn = -61_000 + 1_262 * height + 18_000 * rng.normal(size=1192)
    with pm.Model() as model:
        beta, sigma = pm.Flat("beta", shape=2), pm.HalfFlat("sigma")
        pm.Normal("y", beta[0] + beta[1] * height, sigma, observed=earn)
    approx = fit(model)
    X = np.stack([np.ones(1192), height], 1)
    ols = np.linalg.lstsq(X, earn, rcond=None)[0]
    np.testing.assert_allclose(approx.mean.eval()[:2], ols, rtol=1e-7)
    rss = np.sum((earn - X @ ols) ** 2)
    assert np.exp(approx.mean.eval()[2]) == pytest.approx(np.sqrt(rss / 1191), rel=1e-9)  # Jacobian
    assert approx.result.fresh.ess > 0.9 * approx.result.fresh.draws


def test_loss_history_is_the_winning_climb_on_the_scale_of_the_evidence(skewed):
    approx = fit(skewed, starts=4)
    density = approx.density
    shift = at(density, approx.mean.eval())[0] + approx.hist[-1]
    assert approx.hist[-1] == pytest.approx(-approx.result.log_marginal_laplace, rel=EXACT)
    assert 3 < len(approx.hist) < approx.result.iterations
    start = at(density, approx.group.start)[0]
    assert np.all(np.diff(approx.hist) <= 1e-9) and approx.hist[0] < shift - start


def test_mode_without_the_mass_is_reported(caplog):
    approx = fit(eight_schools(centred=False))
    (told,) = [r.getMessage() for r in caplog.records if "not to be trusted" in r.getMessage()]
    assert "laplace" in told and approx.result.verdict in told and "HierarchicalVI" in told
    assert approx.result.fresh.elbo < -40  # log evidence −31.31
    assert "the mode is not where the mass is" in approx.result.notes[-1]


def test_bounded_variable_whose_posterior_piles_up_at_its_end_is_reported():
    with pm.Model() as model:
        pm.Beta("p", 1.0, 6.0)
        pm.Gamma("scale", 0.05, 1.0)
    notes = fit(model).result.notes
    assert any("log scale hardly falls towards its lower end" in note for note in notes)
    assert not any("logodds p" in note for note in notes)


@pytest.mark.parametrize("alpha", [-0.3, 0.4])
def test_gradient_of_the_laplace_evidence_in_a_hyperparameter(alpha):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3))
    y = (rng.random(40) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 2.0)
        w = pm.StudentT("w", nu=5, mu=0, sigma=scale, shape=3)
        pm.Bernoulli("y", logit_p=X @ w, observed=y)
    approx = px.LaplaceVI(hyperparameters=["scale"], model=model).approx
    evidence = LaplaceEvidence(search_of(approx))
    _, gradient = evidence.value_and_gradient(np.array([alpha]), 100)
    up, down = (evidence.value_and_gradient(np.array([alpha + h]), 100)[0] for h in (1e-4, -1e-4))
    assert gradient[0] == pytest.approx((up - down) / 2e-4, rel=NUMERIC)


def test_empirical_bayes_maximises_the_exact_evidence_of_a_conjugate_model():
    model, X, y = ridge(np.random.default_rng(0))
    approx = fit(model, hyperparameters=["alpha", "sigma"])
    values = approx.hyperparameters
    best = ridge_log_evidence(X, y, values["alpha"], values["sigma"])
    assert approx.result.log_marginal_laplace == pytest.approx(best, rel=1e-9)
    for factor in (0.98, 1.02):
        assert ridge_log_evidence(X, y, factor * values["alpha"], values["sigma"]) < best
        assert ridge_log_evidence(X, y, values["alpha"], factor * values["sigma"]) < best


def flat():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        drift = pm.Flat("drift")
        pm.Normal("y", x.sum() + 0 * drift, 1, observed=1.0)
    return model


def improper():
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("rise", 2 * x)
    return model


def separated():
    with pm.Model() as model:
        b = pm.Flat("b")
        pm.Bernoulli("y", logit_p=b * np.array([1.0, 2.0, -1.0]), observed=[1, 1, 0])
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (flat, r"flat, or has a kink, along \['drift'\].*ModeSearch\(indefinite='modify'\)"),
        (improper, "no mode found .* along x"),
        (separated, "no mode found|is flat"),
        (lambda: eight_schools(centred=True), "along log tau = .*mode at infinity.*non-centred"),
    ],
    ids=["flat", "improper", "separated", "centred eight schools"],
)
def test_densities_without_a_mode_are_refused(model, message):
    with pytest.raises(px.NoModeError, match=message):
        fit(model())


def test_flat_directions_are_widened_on_request_and_it_says_so():
    approx = fit(flat(), indefinite="modify", starts=1)
    assert "drift" in approx.result.notes[0] and "modified" in approx.result.notes[0]
    names = approx.parameter_names()
    sd = dict(zip(names, approx.std.eval(), strict=True))
    assert sd["drift"] > 100 * sd["x[0]"]


def test_roots_of_badly_scaled_and_indefinite_hessians():
    s = np.array([1e-5, 1.0, 1e6])
    H = -np.array([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 1]]) / np.outer(s, s)
    C, inverse = covariance_root(H)
    np.testing.assert_allclose((C @ C.T @ -H) * np.outer(1 / s, s), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(inverse @ C, np.eye(3), atol=1e-12)
    assert covariance_root(np.diag([-1.0, 0.5])) is None
    C, inverse = modified_root(np.diag([-1.0, 0.25]))
    np.testing.assert_allclose(C @ C.T, np.diag([1.0, 4.0]), rtol=EXACT)
    np.testing.assert_allclose(inverse @ C, np.eye(2), atol=1e-12)


def test_support_violated_at_the_start_is_refused():
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("log", pt.log(x))
    with pytest.raises(px.NoModeError, match="not finite at the start"):
        fit(model, start={"x": -1.0}, starts=1)


def test_a_mode_whose_elbo_is_infinite_has_not_converged():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Potential("wall", pt.switch(x > -2.0, 0.0, -np.inf))
    result = fit(model).result
    assert result.fresh.outside > 0 and result.elbo == -np.inf
    assert not result.converged and "Newton decrement" in result.stop_reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": 0}, "starts must be an integer >= 1, got 0"),
        ({"indefinite": "abs"}, "'refuse' or 'modify', got 'abs'"),
        ({"hyperparameters": ["nope"]}, "must be free variables"),
        ({"start": {"slop": 1.0}}, r"got 'slop'; the model has \['slope', 'rate'\]"),
        ({"start": {"slope": np.zeros(3)}}, r"start of 'slope' must have shape \(\), got \(3,\)"),
    ],
)
def test_bad_options(skewed, options, message):
    with pytest.raises(ValueError, match=message):
        px.LaplaceVI(model=skewed, **grouped(options, search=px.ModeSearch))


def test_too_few_iterations_are_not_taken_for_a_missing_mode(skewed):
    inference = px.LaplaceVI(search=px.ModeSearch(starts=1), model=skewed, start={"slope": 50.0})
    with pytest.raises(
        px.NoModeError, match=r"limit of 2 iterations, n of pm.fit or less: no mode found"
    ):
        pm.fit(2, method=inference, model=skewed, progressbar=False)


def test_starts_after_the_first_mode_get_ten_times_its_iterations(skewed, monkeypatch):
    """From log p̃ = −1e14 a climb can gain a millionth a step, for ever."""
    limits = []

    def spy(*arguments, max_iterations, **options):
        limits.append(max_iterations)
        return find_mode(*arguments, max_iterations=max_iterations, **options)

    monkeypatch.setattr(modes, "find_mode", spy)
    approx = px.LaplaceVI(model=skewed).approx
    search = search_of(approx)
    far, improper = np.array([3.0, 9.0]), np.array([np.nan, 0.0])
    (fit,) = search.modes(10_000, starts=[improper, search.starts[0], far, far])
    assert limits[:3] == [10_000, 10_000, 100] and 100 < limits[3] < 1000
    assert fit.mode.iterations < 10
    assert "1 of 4 starts reached no mode" in search.notes[0]


def test_other_modes_are_mentioned_and_the_highest_returned():
    approx = fit(cauchy_location(), starts=20)
    mode = approx.mean.eval()[0]
    x = np.linspace(-4, 4, 8001)
    assert mode == pytest.approx(x[np.argmax(approx.log_p(x[:, None]))], abs=1e-3)
    assert "1 other mode(s) found" in approx.result.notes[0]


def test_constrained_draws_follow_the_transformed_gaussian(skewed):
    approx = fit(skewed)
    rate = approx.sample(4000, random_seed=8).posterior["rate"].values.ravel()
    expected = stats.lognorm(s=approx.std.eval()[1], scale=np.exp(approx.mean.eval()[1]))
    assert stats.kstest(rate, expected.cdf).pvalue > 1e-3


def test_restart_fits_new_data_without_compiling_again():
    with pm.Model() as model:
        y = pm.Data("y_data", np.array([1.0, 2.0, 4.0]))
        mu = pm.Normal("mu", 0, 10)
        pm.Normal("y", mu, 1, observed=y)
    for method in (px.LaplaceVI, px.DiagonalVI):
        inference = method(model=model, random_seed=1)
        first = pm.fit(method=inference, model=model, progressbar=False).mean.eval()[0]
        with model:
            pm.set_data({"y_data": np.array([-5.0, -6.0, -7.0])})
        inference.restart()
        second = pm.fit(method=inference, model=model, progressbar=False)
        assert first == pytest.approx(7 / 3.01, rel=1e-6)
        assert second.mean.eval()[0] == pytest.approx(-18 / 3.01, rel=1e-6)
        assert second.result.compile_seconds < 0.01
        with model:
            pm.set_data({"y_data": np.array([1.0, 2.0, 4.0])})


def test_a_callback_may_stop_the_search(skewed):
    calls = []

    def enough(approx, losses, i):
        calls.append(i)
        raise StopIteration

    approx = pm.fit(
        method=px.LaplaceVI(model=skewed, random_seed=1),
        model=skewed, callbacks=[enough], progressbar=False,
    )  # fmt: skip
    assert calls == [1]
    assert any(note.startswith("stopped by a callback after 1 of") for note in approx.result.notes)


def test_densities_on_a_circle_are_refused():
    with pm.Model() as model:
        pm.VonMises("angle", 0, 1)
        pm.Normal("x")
    with pytest.raises(ValueError, match=r"angle is on a circle, .* use pm\.sample"):
        px.LaplaceVI(model=model)
    with pytest.raises(ValueError, match="angle is on a circle"):
        pymc_target(model)


def test_single_precision_is_refused(skewed):
    with pytensor.config.change_flags(floatX="float32"):
        for family in (px.LaplaceVI, px.BernsteinVI):
            with pytest.raises(ValueError, match=r"works in double precision: .* got 'float32'"):
                family(model=skewed)
