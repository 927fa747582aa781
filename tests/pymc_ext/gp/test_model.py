"""PyMC's verbs: the evidence term, its gradient, learning, prediction, refusals."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr
from scipy.special import ndtr

import pymc_ext as px
from pymc_ext.gp.search_space import box_of
from tests.tolerances import EXACT, NUMERIC, monte_carlo


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """The graphs around our Ops are PyMC's own: compiling them to C takes ten times the tests."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


N = 14
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
LABELS = (X[:, 0] + 0.5 * RNG.normal(size=N) > 0).astype(int)
REAL = X[:, 0] + 0.2 * RNG.normal(size=N)
REAL[::5] += 4
NEW = RNG.normal(size=(5, 2))


def build(likelihood=None, y=LABELS, sparse=False, **kwargs):
    with pm.Model(coords={"row": np.arange(N)}) as model:
        ls = pm.InverseGamma("ls", 3, 3, shape=2)
        scale = pm.LogNormal("scale", 0.5, 0.5)
        slope = pm.Normal("slope", 0, 1)
        if likelihood is None:
            likelihood = px.gp.BernoulliProbit()
        elif callable(likelihood):
            likelihood = likelihood(pm.HalfNormal("sigma", 1))
        gp = px.gp.Approximate(
            mean_func=pm.gp.mean.Linear(coeffs=pm.math.stack([slope, 0.0])),
            cov_func=scale**2 * pm.gp.cov.Matern52(2, ls=ls),
            likelihood=likelihood,
            **kwargs,
        )
        Xu = pm.Normal("Xu", 0, 1, shape=(4, 2), initval=X[:4]) if sparse else None
        gp.marginal_likelihood("y", X=X, y=y, Xu=Xu, dims="row")
    return model, gp


@pytest.mark.parametrize(
    "kwargs",
    [
        {"rule": px.gp.CVI(tolerance=1e-12), "learning": "ep"},
        {"rule": px.gp.Laplace(), "likelihood": px.gp.BernoulliLogit(), "sparse": True},
        {
            "rule": px.gp.EP(tolerance=1e-11), "y": REAL,
            "likelihood": lambda s: px.gp.StudentT(nu=3.0, sigma=s),
        },
    ],
    ids=["hybrid", "laplace sparse", "ep student-t"],
)  # fmt: skip
def test_gradient_of_the_model_matches_differences(kwargs) -> None:
    model, _ = build(**kwargs)
    logp, dlogp = model.compile_logp(sum=True), model.compile_dlogp()
    point = model.initial_point()
    flat = dlogp(point)
    rng, at = np.random.default_rng(3), 0
    for value in model.value_vars:  # in the order of dlogp
        d, h = rng.normal(size=point[value.name].shape), 1e-4
        values = [logp(point | {value.name: point[value.name] + s * h * d}) for s in (2, 1, -1, -2)]
        slope = (-values[0] + 8 * values[1] - 8 * values[2] + values[3]) / (12 * h)
        got = np.sum(flat[at : at + d.size] * np.ravel(d))
        assert got == pytest.approx(slope, rel=NUMERIC, abs=1e-6)
        at += d.size


def test_gaussian_likelihood_is_pymcs_marginal_gp() -> None:
    model, gp = build(likelihood=px.gp.Gaussian(0.4), y=REAL)
    with pm.Model() as other:
        ls = pm.InverseGamma("ls", 3, 3, shape=2)
        scale, slope = pm.LogNormal("scale", 0.5, 0.5), pm.Normal("slope", 0, 1)
        theirs = pm.gp.Marginal(
            mean_func=pm.gp.mean.Linear(coeffs=pm.math.stack([slope, 0.0])),
            cov_func=scale**2 * pm.gp.cov.Matern52(2, ls=ls),
        )
        theirs.marginal_likelihood("y", X=X, y=REAL, sigma=0.4, jitter=0.0)
    point = model.initial_point()
    assert model.compile_logp()(point) == pytest.approx(other.compile_logp()(point), rel=1e-9)
    at = {"ls": np.array([0.8, 1.3]), "scale": 1.2, "slope": 0.4}
    for noise in (False, True):
        ours = gp.predict(NEW, point=at, diag=True, pred_noise=noise, model=model)
        expected = theirs.predict(
            NEW, point=at, diag=True, pred_noise=noise, jitter=0.0, model=other
        )
        np.testing.assert_allclose(ours, expected, rtol=1e-7)
    full = gp.predict(NEW, point=at, model=model)[1]
    expected = theirs.predict(NEW, point=at, jitter=0.0, model=other)[1]
    np.testing.assert_allclose(full, expected, rtol=1e-6, atol=1e-9)


@pytest.fixture(scope="module")
def fitted():
    model, gp = build(rule=px.gp.CVI(), learning="ep")
    with model:
        fit = px.gp.fit_hyperparameters(gp)
    return model, gp, fit


@pytest.mark.filterwarnings("ignore:.find_MAP. will:FutureWarning")  # PyMC 6: a choice there
def test_find_map_and_fit_agree(fitted) -> None:
    model, _, fit = fitted
    assert fit.converged and not fit.active_bounds and fit.method == "l-bfgs"
    found = pm.find_MAP(model=model, progressbar=False)
    for name in ("ls", "scale", "slope"):
        np.testing.assert_allclose(found[name], fit.point[name], rtol=2e-3, atol=2e-4)
    total = model.compile_logp(jacobian=False)(
        {v.name: fit.point[v.name] for v in model.value_vars}
    )
    assert fit.objective == pytest.approx(total, rel=1e-7)


def test_active_bounds_are_reported() -> None:
    model, gp = build(rule=px.gp.Laplace())
    with model:
        fit = px.gp.fit_hyperparameters(gp, bounds={"scale": (0.1, 0.2)})
    assert fit.active_bounds == ("scale_log__",)
    assert fit.point["scale"] == pytest.approx(0.2)


def test_predictions_agree_with_each_other(fitted) -> None:
    model, gp, fit = fitted
    with model:
        mean, variance = gp.predict(NEW, point=fit.point, diag=True)
        p, spread = gp.predict(NEW, point=fit.point, diag=True, pred_noise=True)
        q = gp.quantiles(NEW, [0.1, 0.5], point=fit.point)
        log_p = gp.log_predictive(NEW, [1, 0, 1, 0, 1], point=fit.point)
        draws = gp.sample_predictions(NEW, point=fit.point, draws=4000, random_seed=5)
    np.testing.assert_allclose(p, ndtr(mean / np.sqrt(1 + variance)), rtol=1e-10)
    np.testing.assert_allclose(spread, p * (1 - p), rtol=1e-10)
    np.testing.assert_allclose(q[1], ndtr(mean), rtol=1e-9)
    np.testing.assert_allclose(np.exp(log_p), np.where([1, 0, 1, 0, 1], p, 1 - p), rtol=1e-9)
    sampled = draws.posterior_predictive
    assert sampled["y"].shape == (1, 4000, 5)
    for name in ("y", "mean"):
        x = sampled[name].values[0]
        assert np.all(np.abs(x.mean(axis=0) - p) < monte_carlo(1) * x.std(axis=0) / np.sqrt(4000))
    below = (sampled["mean"].values[0] < q[0]).mean(axis=0)
    assert np.all(np.abs(below - 0.1) < monte_carlo(np.sqrt(0.09 / 4000)))


@pytest.mark.slow
def test_sampling_the_hyperparameters_and_predicting() -> None:
    model, gp = build(rule=px.gp.Laplace())
    with model:
        trace = pm.sample(
            15, tune=15, chains=1, cores=1, progressbar=False, random_seed=1,
            compute_convergence_checks=False,
        )  # fmt: skip
        out = gp.sample_predictions(NEW, trace, random_seed=2)
        approx = pm.fit(5, method="advi", progressbar=False, random_seed=4)
        gp.conditional("f_new", NEW)
        also = pm.sample_posterior_predictive(
            trace, var_names=["f_new"], progressbar=False, random_seed=3
        )
        prior = pm.sample_prior_predictive(4, var_names=["y"], random_seed=1)
    assert trace.observed_data["y"].dims == ("row",)
    assert out.posterior_predictive["f"].shape == (1, 15, 5)
    assert also.posterior_predictive["f_new"].shape == (1, 15, 5)
    assert np.isfinite(approx.hist).all()
    assert set(np.unique(prior.prior_predictive["y"])) <= {0.0, 1.0}


def test_softmax_matching_and_variational_agree_on_easy_classes() -> None:
    x = np.linspace(-2, 2, 21)[:, None]
    y = np.digitize(x[:, 0], [-0.7, 0.7])
    values = {}
    for rule, learning in ((px.gp.Matching(), "elbo"), (px.gp.CVI(tolerance=1e-7), None)):
        with pm.Model() as model:
            ls = pm.InverseGamma("ls", 3, 3)
            gp = px.gp.Approximate(
                cov_func=9 * pm.gp.cov.ExpQuad(1, ls=ls), rule=rule, learning=learning,
                likelihood=px.gp.Categorical(3),
            )  # fmt: skip
            gp.marginal_likelihood("y", X=x, y=y)
        values[learning] = model.compile_logp(vars=model.observed_RVs)(model.initial_point())
        p, _ = gp.predict(x, point={"ls": 1.0}, diag=True, pred_noise=True, model=model)
        assert p.shape == (21, 3)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-9)
        assert (p.argmax(axis=1) == y).mean() > 0.9
        mean, variance = gp.predict(x[:4], point={"ls": 1.0}, diag=True, model=model)
        _, covariance = gp.predict(x[:4], point={"ls": 1.0}, model=model)
        assert mean.shape == (4, 3)
        np.testing.assert_allclose(variance, np.diagonal(covariance, 0, 1, 2).T, rtol=1e-9)
        out = gp.sample_predictions(x[:4], point={"ls": 1.0}, draws=6, model=model)
        assert dict(out.posterior_predictive.sizes) == {
            "chain": 1, "draw": 6, "y_new": 4, "class": 3
        }  # fmt: skip
        assert out.posterior_predictive["mean"].dims == ("chain", "draw", "y_new", "class")
        assert out.posterior_predictive["y"].dims == ("chain", "draw", "y_new")
    assert values["elbo"] <= values[None]  # the variational optimum is the best of both


@pytest.mark.parametrize(
    ("X_", "y_", "message"),
    [
        (X, 2 * LABELS - 1, r"got -1 and 1: pass \(y \+ 1\) / 2"),
        (X, LABELS[:-1], "X has 14 rows, y has 13 entries"),
        (X[:, 0], LABELS, r"X must be 2-D \(n, d\), got \(14,\); use X\[:, None\]"),
        (np.where(X == X[3, 1], np.nan, X), LABELS, "X must be finite, got nan in row 3"),
        (X, np.where(np.arange(N) == 2, np.nan, LABELS), "y must be finite, got nan in row 2"),
        (X[:, :1], LABELS, "cov_func has input_dim=2, X has 1 columns"),
        (X[:0], LABELS, r"X must have at least one row, got shape \(0, 2\)"),
    ],
)
def test_bad_data_are_refused(X_, y_, message: str) -> None:
    with pm.Model(), pytest.raises(ValueError, match=message):
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(2, ls=1), likelihood=px.gp.BernoulliLogit()
        )
        gp.marginal_likelihood("y", X=X_, y=y_)


def test_bad_calls_are_refused(fitted) -> None:
    model, gp, fit = fitted
    with pytest.raises(ValueError, match="Xnew must have 2 columns as X, got 3"):
        gp.predict(np.ones((2, 3)), point=fit.point, model=model)
    with pytest.raises(ValueError, match="pass diag=True"):
        gp.predict(NEW, point=fit.point, pred_noise=True, model=model)
    with pytest.raises(ValueError, match="no hyperparameter is called lenght"):
        px.gp.fit_hyperparameters(gp, start={"lenght": 1.0}, model=model)
    for name, value in {"start": {"scale": -1.0}, "bounds": {"scale": (-1.0, 2.0)}}.items():
        with pytest.raises(ValueError, match=rf"{name} of scale must lie inside its support, got"):
            px.gp.fit_hyperparameters(gp, model=model, **{name: value})
    with pytest.raises(ValueError, match="low < high"):
        px.gp.fit_hyperparameters(gp, bounds={"scale": (2.0, 1.0)}, model=model)
    for name in ("max_iterations", "e_steps", "m_steps", "batch_size"):
        with pytest.raises(ValueError, match=f"{name} must be >= 1, got 0"):
            px.gp.fit_hyperparameters(gp, model=model, **{name: 0})
    for name in ("learning_rate", "tolerance"):
        with pytest.raises(ValueError, match=f"{name} must be > 0, got -1"):
            px.gp.fit_hyperparameters(gp, model=model, **{name: -1})
    for point in (None, {"scale": 1.0}):
        with pytest.raises(ValueError, match=r"point lacks ls, .*slope: pass fit\.point"):
            gp.predict(NEW, point=point, diag=True, model=model)
    with pytest.raises(ValueError, match="this GP has data already"):
        gp.marginal_likelihood("z", X, LABELS)
    with pytest.raises(TypeError, match=r"rule must be a px\.gp rule"):
        px.gp.Approximate(cov_func=None, likelihood=px.gp.Poisson(), rule="ep")
    with pytest.raises(TypeError, match=r"cov_func must be a pm\.gp\.cov function, got None"):
        px.gp.Approximate(cov_func=None, likelihood=px.gp.Poisson())
    empty = px.gp.Approximate(cov_func=pm.gp.cov.ExpQuad(2, ls=1), likelihood=px.gp.Poisson())
    with pytest.raises(TypeError, match="pass model=, or call inside"):
        gp.predict(NEW, point={})
    with pytest.raises(ValueError, match="draws must be >= 1, got 0"):
        gp.sample_predictions(NEW, point={}, draws=0)
    with pytest.raises(ValueError, match="call marginal_likelihood first"):
        empty.latent(NEW)


@pytest.mark.parametrize(
    ("mean_func", "message"),
    [
        (lambda Z: 1.0, r"one number a row of X, \(n,\), got 0 axes"),
        (lambda Z: Z, r"one number a row of X, \(n,\), got 2 axes"),
        (lambda Z: np.ones(3), "gives 3 numbers for 14 rows of X"),
    ],
)
def test_mean_functions_of_wrong_form_are_refused(mean_func, message: str) -> None:
    with pm.Model() as model:
        gp = px.gp.Approximate(
            mean_func=mean_func, cov_func=pm.gp.cov.ExpQuad(2, 1.0), likelihood=px.gp.Gaussian(0.3)
        )
        with pytest.raises(ValueError, match=message):
            gp.marginal_likelihood("y", X=X, y=REAL)
            model.compile_logp()({})


def test_rows_that_are_masked_and_likelihood_parameters_that_are_vectors_are_refused() -> None:
    with pm.Model():
        likelihood = px.gp.Gaussian(pm.HalfNormal("noise", shape=1))
        gp = px.gp.Approximate(cov_func=pm.gp.cov.ExpQuad(2, 1.0), likelihood=likelihood)
        with pytest.raises(ValueError, match="X must be finite, got nan in row 3"):
            gp.marginal_likelihood("y", X=np.ma.masked_equal(X, X[3, 1]), y=REAL)
        with pytest.raises(ValueError, match="sigma must be a scalar, got 1 axes"):
            gp.marginal_likelihood("y", X=X, y=REAL)


def test_points_outside_a_simplex_are_refused() -> None:
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        cov = w[0] * pm.gp.cov.ExpQuad(2, 1.0) + w[1] * pm.gp.cov.Linear(2, 0.0)
        gp = px.gp.Approximate(cov_func=cov, likelihood=px.gp.BernoulliProbit())
        gp.marginal_likelihood("y", X=X, y=LABELS)
    assert np.isfinite(gp.predict(NEW, point={"w": [0.2, 0.8]}, model=model)[0]).all()
    for value in ([5.0, 5.0], [0.5, 0.6], [-0.5, 1.5]):
        with pytest.raises(ValueError, match="w of point must lie inside its support, got"):
            gp.predict(NEW, point={"w": value}, model=model)
    with pytest.raises(ValueError, match="w of point must hold numbers, got None"):
        gp.predict(NEW, point={"w": None}, model=model)


def test_points_inside_wide_supports_are_taken() -> None:
    """Where a transform and its inverse do not come back to all digits."""
    with pm.Model() as model:
        level = pm.Uniform("level", -1e12, 1e12)
        cuts = pm.Normal("cuts", 0, 1, shape=3, transform=pm.distributions.transforms.ordered)
        gp = px.gp.Approximate(
            mean_func=pm.gp.mean.Constant(level + cuts[1]),
            cov_func=pm.gp.cov.ExpQuad(2, 1.0),
            likelihood=px.gp.BernoulliProbit(),
        )
        gp.marginal_likelihood("y", X=X, y=LABELS)
    point = {"level": 0.3, "cuts": [-1e12, 0.0, 1e12]}
    assert np.isfinite(gp.predict(NEW, point=point, model=model)[0]).all()


def test_inducing_inputs_set_later_are_checked() -> None:
    with pm.Model() as model:
        Z = pm.Data("Z", X[::3])
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.ExpQuad(2, pm.HalfNormal("ls")), likelihood=px.gp.BernoulliLogit()
        )
        gp.marginal_likelihood("y", X=X, y=LABELS, Xu=Z)
        logp = model.compile_logp()
        point = model.initial_point()
        before = logp(point)
        for new, error, message in (
            (X[::3] * np.nan, ValueError, "Xu must be finite, got nan in row 0"),
            (np.c_[X, X], AssertionError, "SpecifyShape"),
            (X[:0], ValueError, "Xu must have at least one row"),
        ):
            pm.set_data({"Z": new})
            with pytest.raises(error, match=message):
                logp(point)
        pm.set_data({"Z": X[::3]})
        assert logp(point) == before


def test_predictions_where_the_prior_says_everything() -> None:
    with pm.Model() as model:
        cov = pm.gp.cov.Linear(2, c=0.0)
        gp = px.gp.Approximate(cov_func=cov, likelihood=px.gp.BernoulliLogit())
        gp.marginal_likelihood("y", X=X, y=LABELS)
        origin = np.zeros((1, 2))
        assert gp.log_predictive(origin, [1])[0] == pytest.approx(np.log(0.5), rel=EXACT)
        mean, variance = gp.predict(origin, diag=True, pred_noise=True, model=model)
    assert (mean[0], variance[0]) == pytest.approx((0.5, 0.25))


def test_variances_that_the_data_leave_keep_their_digits() -> None:
    """Counts of a million: 1e-6 of a prior variance of 25."""
    x = np.linspace(-3, 3, 30)[:, None]
    y = np.round(1e6 * np.exp(np.sin(1.5 * x[:, 0])))
    with pm.Model():
        gp = px.gp.Approximate(cov_func=25 * pm.gp.cov.ExpQuad(1, 1.0), likelihood=px.gp.Poisson())
        gp.marginal_likelihood("y", X=x, y=y)
        mean, variance = gp.predict(x, diag=True)
        covariance = gp.predict(x)[1]
        assert np.isfinite(gp.log_predictive(x, y)).all()
        K = gp.cov_func(x).eval()
    V = np.linalg.solve(np.linalg.cholesky(K + np.diag(np.exp(-mean))), K)
    expected = np.diag(K) - np.sum(V**2, axis=0)
    np.testing.assert_allclose(variance, expected, rtol=1e-4)
    np.testing.assert_allclose(np.diag(covariance), expected, rtol=1e-4)


def test_data_set_later_are_checked() -> None:
    with pm.Model() as model:
        labels = pm.Data("labels", LABELS)
        ls = pm.HalfNormal("ls", 1)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(2, ls=ls), likelihood=px.gp.BernoulliProbit()
        )
        gp.marginal_likelihood("y", X=X, y=labels)
        logp = model.compile_logp()
        pm.set_data({"labels": 2 * LABELS - 1})
        with pytest.raises(ValueError, match="got -1 and 1"):
            logp(model.initial_point())
        pm.set_data({"labels": LABELS[:5]})
        with pytest.raises(ValueError, match="X has 14 rows, y has 5 entries"):
            logp(model.initial_point())


def test_failures_raise_or_reject_as_asked() -> None:
    options = {"rule": px.gp.EP(max_iterations=2), "likelihood": px.gp.StudentT(3.0, 0.2)}
    for on_failure in ("raise", None):  # None: nothing is known of the evidence yet
        model, gp = build(y=REAL, on_failure=on_failure, **options)
        with pytest.raises(px.gp.ConvergenceError, match="EP did not converge"):
            model.compile_logp()(model.initial_point())
    model, gp = build(y=REAL, on_failure="reject", **options)
    assert model.compile_logp()(model.initial_point()) == -np.inf
    assert "EP did not converge" in gp.failures[0]


def test_far_points_are_rejected_once_the_evidence_is_known() -> None:
    model, gp = build()
    logp, dlogp = model.compile_logp(), model.compile_dlogp()
    start = model.initial_point()
    assert np.isfinite(logp(start))
    far = start | {"ls_log__": np.full(2, 8.8), "scale_log__": np.array(49.5)}
    assert logp(far) == -np.inf
    assert np.isfinite(dlogp(far)).all()
    assert "prior variances up to 9.89e+42 leave no posterior" in gp.failures[0]
    assert np.isfinite(logp(start))


def test_failures_of_constant_models_wait_for_the_call() -> None:
    with pm.Model() as model:
        gp = px.gp.Approximate(
            cov_func=4 * pm.gp.cov.ExpQuad(2, ls=1.5), likelihood=px.gp.BernoulliLogit(),
            rule=px.gp.EP(max_iterations=1),
        )  # fmt: skip
        gp.marginal_likelihood("y", X=X, y=LABELS)
    logp = model.compile_logp()
    with pytest.raises(px.gp.ConvergenceError, match="EP did not converge"):
        logp({})


def test_predictions_do_without_the_evidence(monkeypatch) -> None:
    """The hybrid's may be undefined at the fixed point for want of cavities."""
    (model, gp), (other, broken) = (build(rule=px.gp.CVI(), learning="ep") for _ in range(2))
    point = {"ls": np.ones(2), "scale": 1.0, "slope": 0.0}
    expected = gp.predict(NEW, point=point, diag=True, model=model)

    def undefined(*args):
        raise px.gp.ImproperPosteriorError("no cavity")

    monkeypatch.setattr(broken.solver, "correct", undefined)
    found = broken.predict(NEW, point=point, diag=True, model=other)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_new_data_that_are_none_are_refused() -> None:
    with pm.Model() as model:
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.ExpQuad(2, ls=pm.HalfNormal("ls")), likelihood=px.gp.BernoulliLogit()
        )
        gp.marginal_likelihood("y", X=pm.Data("X", X), y=LABELS)
        logp = model.compile_logp()
        pm.set_data({"X": np.hstack([X, X])})
        with pytest.raises(AssertionError, match="SpecifyShape"):
            logp(model.initial_point())
        pm.set_data({"X": X})
        assert np.isfinite(logp(model.initial_point()))
        pm.set_data({"X": np.vstack([X[:-1], np.full((1, 2), np.nan)])})
        with pytest.raises(ValueError, match="X must be finite, got nan in row 13"):
            logp(model.initial_point())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": -1.0}, "scale of point must lie inside its support, got -1.0"),
        ({"scale": np.ones(2)}, r"scale of point must have 0 axes, got shape \(2,\)"),
        ({"zz": 2.0}, "no hyperparameter is called zz; the model has "),
    ],
)
def test_points_that_are_none_are_refused(change, message: str) -> None:
    model, gp = build()
    point = {"ls": np.ones(2), "scale": 1.0, "slope": 0.0} | change
    with model, pytest.raises(ValueError, match=message):
        gp.predict(X, point=point, diag=True)


def wrong_models(model):
    with pm.Model(coords={"row": np.arange(N)}) as namesake:
        pm.InverseGamma("ls", 3, 3, shape=2)
        pm.LogNormal("scale", 0.5, 0.5)
        pm.Normal("slope", 0, 1)
    return {"copy": model.copy(), "do": pm.do(model, {"scale": 2.0}), "namesake": namesake}


@pytest.mark.parametrize("which", ["copy", "do", "namesake"])
def test_other_models_than_the_gps_are_refused(which) -> None:
    """Their variables are others: the GP's own would be drawn from the prior."""
    model, gp = build()
    wrong = wrong_models(model)[which]
    message = "the GP depends on ls, scale, slope, not random in this model"
    for of in (model, wrong):
        point = {v.name: np.ones(v.shape.eval()) for v in of.free_RVs}
        with pytest.raises(ValueError, match=message):
            gp.predict(NEW, point=point, diag=True, model=wrong)
    with pytest.raises(ValueError, match=message):
        px.gp.fit_hyperparameters(gp, model=wrong)
    if which == "copy":
        logp = wrong.compile_logp()(wrong.initial_point())
        assert logp == pytest.approx(model.compile_logp()(model.initial_point()), rel=EXACT)


@pytest.mark.parametrize("second", ["normal", "gp", "constant"])
def test_fits_leave_no_other_data_out(second) -> None:
    with pm.Model():
        ls = pm.InverseGamma("ls", 3, 3)
        for name in ("y", "z") if second == "gp" else ("y",):
            gp = px.gp.Approximate(
                cov_func=pm.gp.cov.Matern52(2, ls=ls), likelihood=px.gp.BernoulliProbit(),
                rule=px.gp.Laplace(),
            )  # fmt: skip
            gp.marginal_likelihood(name, X=X, y=LABELS)
        if second != "gp":
            pm.Normal("z", ls if second == "normal" else 0.0, observed=0.3)
        mine, other = ("z", "y") if second == "gp" else ("y", "z")
        if second == "constant":
            assert px.gp.fit_hyperparameters(gp).converged
            return
        message = rf"observes {other} besides {mine} of this GP, .*: use pm\.find_MAP, pm\.fit or"
        with pytest.raises(ValueError, match=message):
            px.gp.fit_hyperparameters(gp)


def test_models_without_the_gps_data_are_refused() -> None:
    with pm.Model():
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(2, ls=1.0), likelihood=px.gp.BernoulliProbit()
        )
        gp.marginal_likelihood("y", X=X, y=LABELS)
    with pm.Model():
        pm.Normal("other")
        with pytest.raises(ValueError, match="y of the GP is no observed variable of this model"):
            px.gp.fit_hyperparameters(gp)


def test_fits_follow_a_model_that_grows() -> None:
    model, gp = build(rule=px.gp.Laplace())
    graph = gp.graph(model)
    assert gp.graph(model) is graph
    theta = graph.flatten(graph.start_point)
    with model:
        pm.Potential("more", -3.0 * model["slope"] ** 2 - 2.0)
    assert gp.graph(model).forward(theta)[1] == pytest.approx(graph.forward(theta)[1] - 2)
    with model:
        pm.Normal("another", 0, 1)
    assert gp.graph(model).names == [*graph.names, "another"]
    model.set_initval(model["slope"], 0.25)
    assert gp.graph(model).start_point["slope"] == 0.25


def test_starts_and_bounds_of_dependent_supports_are_exact() -> None:
    with pm.Model() as model:
        upper = pm.HalfNormal("upper", 3, initval=1.5)
        ls = pm.Uniform("ls", 0.01, upper + 0.02)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(2, ls=ls), likelihood=px.gp.BernoulliProbit()
        )
        gp.marginal_likelihood("y", X=X, y=LABELS)
    graph = gp.graph(model)

    def logit(x, upper):
        return np.log((x - 0.01) / (upper + 0.02 - x))

    for given, at in ({"upper": 1.0}, 1.0), ({}, 1.5):
        start = graph.transformed({"ls": 0.5} | given)
        assert start["ls_interval__"] == pytest.approx(logit(0.5, at), rel=1e-9)
        found = graph.constrained(graph.flatten(start))
        assert [found["ls"], found["upper"]] == pytest.approx([0.5, at], rel=1e-9)
    bounds = {"ls": (0.3, 0.6), "upper": (0.7, 3.0)}
    box = box_of(graph, bounds, graph.transformed({"upper": 2.0}))
    np.testing.assert_allclose(box[:, 0], np.log([0.7, 3.0]), rtol=1e-9)
    np.testing.assert_allclose(box[:, 1], logit(np.array([0.3, 0.6]), 2.0), rtol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_arrays_that_change_later_change_nothing(sparse) -> None:
    x, y, Z = X.copy(), LABELS.astype(float), X[:4].copy()
    with pm.Model() as model:
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(2, ls=1.0), likelihood=px.gp.BernoulliProbit()
        )
        gp.marginal_likelihood("y", X=x, y=y, Xu=Z if sparse else None)
        before = gp.predict(NEW, diag=True), model.compile_logp()({})
        for array in (x, y, Z):
            array[:] = 1.0
        after = gp.predict(NEW, diag=True), model.compile_logp()({})
    np.testing.assert_array_equal(before[0], after[0])
    assert before[1] == after[1]
    np.testing.assert_array_equal(gp.input_values(), X)


def test_posterior_draws_must_have_all_hyperparameters() -> None:
    model, gp = build()
    draws = {"ls": np.ones((1, 3, 2)), "scale": np.ones((1, 3)), "slope": np.zeros((1, 3))}
    values = {name: (("chain", "draw", "k")[: x.ndim], x) for name, x in draws.items()}
    whole = SimpleNamespace(posterior=xr.Dataset(values))
    f = gp.sample_predictions(NEW, whole, random_seed=1, model=model).posterior_predictive["f"]
    mean, variance = gp.predict(NEW, point={n: x[0, 0] for n, x in draws.items()}, diag=True,
                                model=model)  # fmt: skip
    assert np.all(np.abs(f.values[0] - mean) < monte_carlo(1) * np.sqrt(variance))
    some = whole.posterior.isel(draw=[2]).assign_coords(draw=[7])
    with model:
        model.add_coord("place", list("abcde"))
        out = gp.sample_predictions(NEW, some, random_seed=1, dims="place").posterior_predictive
        assert out["f"].dims == out["y"].dims == ("chain", "draw", "place")
        assert list(out["place"].values) == list("abcde")
        assert list(out["draw"].values) == [7]
        with pytest.raises(ValueError, match="'row' of the model has 14 entries, Xnew has 5 rows"):
            gp.sample_predictions(NEW, some, dims="row")
        with pytest.raises(ValueError, match="dims must not be 'draw', a name of the result's own"):
            gp.sample_predictions(NEW, some, dims="draw")
        with pytest.raises(ValueError, match=r"must hold posterior draws .* got SimpleNamespace"):
            gp.sample_predictions(NEW, SimpleNamespace(prior=some))
    part = SimpleNamespace(posterior=whole.posterior.drop_vars("scale"))
    with pytest.raises(ValueError, match=r"posterior lacks scale: .* got \['ls', 'slope'\]"):
        gp.sample_predictions(NEW, part, random_seed=1, model=model)
    whole.posterior["scale"][0, 1] = -1.0
    with pytest.raises(ValueError, match=r"scale of idata\.posterior must lie inside .* got -1"):
        gp.sample_predictions(NEW, whole, random_seed=1, model=model)


def test_points_may_name_the_variables_between() -> None:
    with pm.Model() as model:
        upper = pm.HalfNormal("upper", 1)
        free = pm.Uniform("free", 0, upper)
        ls = pm.Deterministic("ls", 0.1 + free)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(2, ls=ls), likelihood=px.gp.BernoulliProbit()
        )
        gp.marginal_likelihood("y", X=X, y=LABELS)
    points = ({"upper": 2.0, "free": 0.4}, {"ls": 0.5})
    one, other = (gp.predict(NEW, point=p, diag=True, model=model)[0] for p in points)
    np.testing.assert_allclose(one, other, rtol=EXACT)
    with pytest.raises(ValueError, match="point lacks upper: pass"):
        gp.predict(NEW, point={"free": 0.4}, diag=True, model=model)
    with pytest.raises(ValueError, match=r"free of point must lie inside its support, got 0\.4"):
        gp.predict(NEW, point={"free": 0.4, "upper": 0.3}, diag=True, model=model)
    edge = xr.Dataset({"upper": (("chain", "draw"), [[0.4]]), "free": (("chain", "draw"), [[0.4]])})
    out = gp.sample_predictions(NEW, edge, random_seed=1, model=model)  # a draw that was rounded
    assert np.isfinite(out.posterior_predictive["f"].values).all()


def test_observed_hyperparameters_are_as_observed() -> None:
    with pm.Model() as model:
        ls = pm.HalfNormal("ls", 1, observed=0.5)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(2, ls=ls), likelihood=px.gp.BernoulliProbit()
        )
        gp.marginal_likelihood("y", X=X, y=LABELS)
        one, other = (gp.predict(NEW, diag=True, model=model)[0] for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_one_observation_works() -> None:
    with pm.Model() as model:
        ls = pm.HalfNormal("ls", 1)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.Matern52(1, ls=ls),
            likelihood=px.gp.BernoulliProbit(),
            rule=px.gp.EP(),
        )
        gp.marginal_likelihood("y", X=np.zeros((1, 1)), y=[1])
    value = model.compile_logp(vars=model.observed_RVs)(model.initial_point())
    assert value == pytest.approx(np.log(0.5), rel=1e-9)


def test_fits_start_at_any_point_of_the_model(fitted) -> None:
    model, gp, fit = fitted
    short = {"max_iterations": 1, "progressbar": False, "model": model}
    unconstrained = {name: x for name, x in fit.point.items() if name not in ("ls", "scale")}
    for start in (fit.point, unconstrained, {n: fit.point[n] for n in ("ls", "scale", "slope")}):
        again = px.gp.fit_hyperparameters(gp, start=start, **short)
        assert again.objective == pytest.approx(fit.objective, abs=1e-6)
    with pytest.raises(ValueError, match="start of scale_log__ must be finite"):
        px.gp.fit_hyperparameters(gp, start={"scale": 0.0}, **short)


def test_open_ends_of_bounds_are_the_default(fitted) -> None:
    model, gp, _ = fitted
    graph = gp.graph(model)
    boxes = [
        box_of(graph, bounds, graph.start_point)
        for bounds in ({"scale": (None, 2.0)}, {"scale": (0.0, 2.0)}, {"scale": (None, None)}, {})
    ]
    np.testing.assert_array_equal(boxes[0], boxes[1])
    np.testing.assert_array_equal(boxes[2], boxes[3])
    assert np.sum(boxes[0] != boxes[3]) == 1


def test_fits_come_before_conditionals() -> None:
    model, gp = build(rule=px.gp.Laplace())
    with model:
        gp.conditional("f_new", NEW)
        with pytest.raises(ValueError, match="fit the hyperparameters before adding them"):
            px.gp.fit_hyperparameters(gp, progressbar=False)


def test_progress_is_shown_unless_told_otherwise(fitted, capsys) -> None:
    model, gp, fit = fitted
    for progressbar, shown in ((True, "iteration 1"), (False, "")):
        px.gp.fit_hyperparameters(
            gp, start=fit.point, max_iterations=1, progressbar=progressbar, model=model
        )
        assert shown in capsys.readouterr().out
    assert not shown
