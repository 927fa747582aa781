"""What every variational family must do, exact case first."""

import arviz as az
import cloudpickle
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_ext.variational.names import family
from tests.contracts import FAMILIES
from tests.tolerances import EXACT, NUMERIC, monte_carlo

SEED = 20
NEW_ARVIZ = hasattr(az, "psense")
DRAWS = 20_000


def logistic_model():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 3))
    y = (rng.random(60) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.3]))).astype(int)
    with pm.Model(coords={"feature": ["a", "b", "c"]}) as model:
        beta = pm.Normal("beta", 0, 1, dims="feature")
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


def fit(name, model, n=10_000, **kwargs):
    inference = FAMILIES[name].make(model=model, random_seed=SEED)
    return pm.fit(n, method=inference, model=model, progressbar=False, **kwargs)


@pytest.fixture(scope="module", params=list(FAMILIES))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model():
    return logistic_model()


@pytest.fixture(scope="module")
def approx(name, model):
    return fit(name, model)


@pytest.fixture(scope="module")
def draws(approx):
    return approx.draws_with_logs(DRAWS, random_seed=1)


@pytest.fixture(scope="module")
def log_evidence(model):
    """log Z by Gauss–Hermite quadrature around the mode, 30 points an axis."""
    logp = FAMILIES["laplace"].make(model=model, random_seed=SEED).approx.log_p
    x, w = np.polynomial.hermite_e.hermegauss(30)
    grid = np.stack(np.meshgrid(x, x, x), -1).reshape(-1, 3)
    weight = np.prod(np.stack(np.meshgrid(w, w, w), -1).reshape(-1, 3), axis=1)
    scale, center = 0.4, np.array([0.8, -0.4, 0.3])
    values = logp(center + scale * grid) + 0.5 * np.sum(grid**2, axis=1)
    return float(
        np.log(np.sum(weight * np.exp(values - values.max()))) + values.max() + 3 * np.log(scale)
    )


def test_gaussian_target_is_fitted_exactly(name):
    kind = FAMILIES[name].gaussian_target
    if kind is None:
        pytest.skip("not defined for a Gaussian target")
    sd, mean = np.array([1e-3, 2.0, 500.0]), np.array([5.0, -1.0, 3000.0])
    R = np.array([[1, 0.7, -0.4], [0.7, 1, 0.2], [-0.4, 0.2, 1]]) if kind == "full" else np.eye(3)
    cov = R * np.outer(sd, sd)
    with pm.Model() as target:
        pm.MvNormal("x", mean, cov=cov)
    approx = fit(name, target)
    m, S = approx.mean.eval(), approx.cov.eval()
    P = np.linalg.inv(cov)
    kl = 0.5 * (np.trace(P @ S) + (mean - m) @ P @ (mean - m) - 3 - np.linalg.slogdet(P @ S)[1])
    assert abs(kl) < NUMERIC
    assert abs(approx.result.elbo) < monte_carlo(approx.result.elbo_se) + NUMERIC  # log Z = 0


def test_log_q_is_the_normalised_density_of_the_draws(approx, draws):
    theta, _, lq = draws
    reference = stats.multivariate_normal(theta.mean(0), 0.6 * np.cov(theta.T))
    ratio = np.exp(reference.logpdf(theta) - lq)  # E_q[r/q] = 1 for any density r
    assert abs(ratio.mean() - 1) < monte_carlo(ratio.std() / np.sqrt(DRAWS))
    assert ratio.std() > 0.1  # otherwise the test would have no power


def test_log_q_at_given_points_agrees_with_the_draws(name, approx, draws):
    theta, _, lq = draws
    np.testing.assert_allclose(approx.log_q(theta[:100]), lq[:100], rtol=1e-8)


def test_log_p_is_the_models(model, draws):
    theta, lp, _ = draws
    logp = model.compile_logp()
    np.testing.assert_allclose(lp[:20], [logp({"beta": t}) for t in theta[:20]], rtol=EXACT)


def test_moments_are_those_of_the_draws(approx, draws):
    theta = draws[0]
    mean, std, cov = (x.eval() for x in (approx.mean, approx.std, approx.cov))
    assert np.all(abs(theta.mean(0) - mean) < monte_carlo(1) * std / np.sqrt(DRAWS))
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-8)
    se = np.sqrt((np.outer(std**2, std**2) + cov**2) / DRAWS)
    assert np.all(abs(np.cov(theta.T) - cov) < monte_carlo(1) * 1.2 * se)
    np.testing.assert_allclose(approx.mean_data["beta"].values, mean, rtol=EXACT)


def test_elbo_bounds_and_importance_sampling_finds_the_evidence(approx, log_evidence):
    result = approx.result
    assert result.elbo <= log_evidence + monte_carlo(result.elbo_se)
    assert result.elbo > log_evidence - 0.5
    fresh = result.fresh or approx.evaluate(random_seed=4)  # not taken where the ELBO is exact
    assert abs(fresh.log_marginal_is - log_evidence) < monte_carlo(fresh.log_marginal_is_se)


def test_inference_data_has_coords_lp_and_lq(approx):
    idata = approx.sample(40, random_seed=3)
    assert idata.posterior["beta"].shape == (1, 40, 3)
    assert list(idata.posterior["feature"].values) == ["a", "b", "c"]
    assert "y" in idata.observed_data
    theta, lp, lq = approx.draws_with_logs(40, random_seed=3)
    np.testing.assert_allclose(idata.posterior["beta"].values[0], theta, rtol=EXACT)
    np.testing.assert_allclose(idata.sample_stats["lp"].values[0], lp, rtol=EXACT)
    np.testing.assert_allclose(idata.sample_stats["lq"].values[0], lq, rtol=EXACT)


def test_its_draws_go_on_in_arviz_and_pymc(approx, tmp_path):
    idata = approx.sample(100, random_seed=3, log_likelihood=True, log_prior=True)
    with logistic_model():  # PyMC 5 leaves a model without log p̃ behind
        pm.sample_posterior_predictive(
            idata, extend_inferencedata=True, random_seed=3, progressbar=False
        )
    idata.to_netcdf(str(tmp_path / "kept.nc"))
    kept, attributes = az.from_netcdf(str(tmp_path / "kept.nc")), idata["posterior"].attrs
    assert kept["log_likelihood"]["y"].shape == (1, 100, 60)
    np.testing.assert_allclose(
        kept["log_likelihood"]["y"].values.sum(2) + kept["log_prior"]["beta"].values.sum(2),
        kept["sample_stats"]["lp"].values,
        rtol=NUMERIC,
    )
    assert kept["posterior_predictive"]["y"].dtype == kept["observed_data"]["y"].dtype
    assert kept["posterior"].attrs["options"] == attributes["options"] != ""
    assert attributes["method"] == approx.result.method and attributes["random_seed"] == SEED
    for name in ("elbo", "elbo_se", "gradient_evaluations", "seconds"):
        assert attributes[name] == getattr(approx.result, name)
    if approx.result.fresh is not None:
        assert attributes["khat"] == approx.result.fresh.khat


def test_sample_node_and_symbolic_logq(model, approx):
    node = approx.sample_node(model["beta"].sum(), size=5)
    assert node.eval().shape == (5,)
    entropy = -approx.set_size_and_deterministic(approx.logq, 20_000, 0).eval()
    sd = np.linalg.slogdet(approx.cov.eval())[1] / 2
    assert entropy == pytest.approx(sd + 1.5 * np.log(2 * np.pi * np.e), abs=0.05)  # near Gaussian


def test_fit_inside_the_context_is_reproducible(name, model, approx):
    with model:
        inference = FAMILIES[name].make(random_seed=SEED)
        again = pm.fit(method=inference, progressbar=False)
    np.testing.assert_allclose(again.mean.eval(), approx.mean.eval(), rtol=EXACT)
    np.testing.assert_allclose(again.cov.eval(), approx.cov.eval(), rtol=EXACT)
    assert again.result.elbo == pytest.approx(approx.result.elbo, rel=EXACT)


def test_pickled_approximation_draws_the_same(approx):
    again = cloudpickle.loads(cloudpickle.dumps(approx))
    a, b = (x.sample(5, random_seed=2).posterior["beta"].values for x in (approx, again))
    np.testing.assert_allclose(a, b, rtol=EXACT)
    assert again.result == approx.result


def test_callbacks_score_zero_iterations_refine_and_progress_bar(name, model, capsys):
    seen = []
    inference = FAMILIES[name].make(model=model, random_seed=SEED)
    untouched = pm.fit(0, method=inference, model=model, progressbar=False)
    assert untouched.result.iterations == 0 and "n = 0" in untouched.result.stop_reason
    assert np.all(np.isfinite(untouched.sample(5, random_seed=1).posterior["beta"].values))
    callback = lambda a, losses, i: seen.append((a is inference.approx, len(losses), i))  # noqa: E731
    pm.fit(200, method=inference, model=model, callbacks=[callback], progressbar=True)
    assert "Fitting" in capsys.readouterr().out
    if FAMILIES[name].iterative:
        assert seen[-1] == (True, len(seen), len(seen))
        # of a search in parts, the trace of the one that won, from its start on
        assert 0 < len(inference.approx.hist) <= len(seen) + 1
    elbo = inference.approx.result.elbo
    inference.refine(200, progressbar=False)
    result = inference.approx.result
    assert result.elbo > elbo - monte_carlo(result.elbo_se) - NUMERIC
    before = len(inference.approx.hist)
    pm.fit(5, method=inference, model=model, score=False, progressbar=False)
    assert len(inference.approx.hist) == before


def test_result_reports_work_and_reason(name, approx):
    result = approx.result
    assert result.random_seed == SEED and result.stop_reason
    assert result.seconds > 0 and result.compile_seconds > 0
    assert result.gradient_evaluations > 0 or not FAMILIES[name].iterative
    assert result.elbo_se is not None and 0 <= result.elbo_se < 0.1
    assert (result.elbo_se == 0) == (result.exact_elbo is not None)


def heavy_tailed():
    with pm.Model() as model:
        pm.Cauchy("x", 0.0, 1.0, shape=2)
    return model


LOGISTIC = ("viper", "viper-diagonal", "jaakkola", "matching")


def warnings(records):
    return [record.getMessage() for record in records if record.levelname == "WARNING"]


@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in (*LOGISTIC, "bernstein")])
def test_a_fit_that_is_not_to_be_trusted_says_so_in_one_line_and_what_to_try(name, caplog):
    result = fit(name, heavy_tailed()).result
    (told,) = warnings(caplog.records)
    assert not result.usable and result.method in told and result.verdict in told
    assert "\n" not in told and told.endswith("make exact draws by px.sample(approx)")
    has_tried_a_map = name in ("hierarchical", "basins")
    assert ("try px.HierarchicalVI()" in told) != has_tried_a_map


def test_a_flow_that_was_cut_short_says_that_too(caplog):
    assert not fit("bernstein", heavy_tailed(), n=300).result.usable
    short, untrusted = warnings(caplog.records)
    assert "has not converged" in short and short.endswith("raise n")
    assert "not to be trusted" in untrusted and "HierarchicalVI" not in untrusted
    assert untrusted.endswith("; make exact draws by px.sample(approx)")


def test_minibatch_is_fitted_or_refused(name):
    y = np.random.default_rng(1).binomial(1, 0.8, size=200).astype(np.int32)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 5)
        batch = pm.Minibatch(y, batch_size=40)
        pm.Bernoulli("y", logit_p=beta, observed=batch, total_size=200)
    if FAMILIES[name].minibatch:
        log_odds = np.log(y.mean() / (1 - y.mean()))  # a wide prior moves it little
        assert fit(name, model, n=2000).mean.eval()[0] == pytest.approx(log_odds, abs=0.25)
    else:
        with pytest.raises(ValueError, match=r"rows of \['\w+'\] are a pm.Minibatch"):
            fit(name, model)


def test_px_fit_knows_it_by_its_name(name, model):
    inference = family(name, model=model, random_seed=SEED)
    assert type(inference) is type(FAMILIES[name].make(model=model, random_seed=SEED))
    assert inference.approx.model is model and inference.random_seed == SEED


def test_unknown_model_and_seedless_use(name):
    with pytest.raises(TypeError, match="model"):
        FAMILIES[name].make(random_seed=SEED)


@pytest.mark.filterwarnings(
    "ignore:The inplace keyword",  # ArviZ 0.23 on pandas 3.1
    "ignore::matplotlib.MatplotlibDeprecationWarning",  # of ArviZ 0.23
    "ignore:Variables y in .* look:UserWarning",  # ArviZ 1 has other plots of binary data
    "ignore:Estimated shape parameter",  # of rows that a rough q's weights do not serve
)
def test_tools_of_arviz_run_unmodified(approx):
    """PSIS-LOO, comparison, LOO-PIT, power scaling and plots; R̂ of independent draws is 1."""
    idata = approx.sample(250, chains=4, random_seed=1, log_likelihood=True, log_prior=True)
    assert az.summary(idata)["r_hat"].astype(float).max() < 1.05
    loo = az.loo(idata)
    assert np.isfinite(loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo)
    assert sorted(az.compare({"one": idata, "two": idata}).index) == ["one", "two"]
    # PyMC's predictions leave the model with its data twice, where others of the module are
    own = logistic_model()
    pm.sample_posterior_predictive(
        idata, model=own, extend_inferencedata=True, progressbar=False, random_seed=1
    )
    pit = np.ravel(az.loo_pit(idata)["y"] if NEW_ARVIZ else az.loo_pit(idata=idata, y="y"))
    assert len(pit) == 60 and np.all((pit >= 0) & (pit <= 1 + EXACT))
    if NEW_ARVIZ:
        assert set(az.psense(idata).data_vars) == {"beta"}
        az.plot_ppc_dist(idata, num_samples=5, backend="none")
        stats = idata["sample_stats"]
        corrected = az.loo_approximate_posterior(idata, log_p=stats["lp"], log_q=stats["lq"])
        assert abs(corrected.elpd - loo.elpd) < loo.se
    else:
        for component in ("prior", "likelihood"):
            assert set(az.psens(idata, component=component).data_vars) == {"beta"}
        az.plot_ppc(idata, num_pp_samples=5)
        plt.close("all")
