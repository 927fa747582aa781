import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_ext as px
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.noise import eigen_root
from tests.pymc_ext.variational.grouped import grouped
from tests.pymc_ext.variational.targets import (
    eight_schools,
    ridge,
    ridge_log_evidence,
    two_gaussians,
    two_gaussians_kl,
)
from tests.tolerances import EXACT, NUMERIC, monte_carlo

LOG_EVIDENCE_SCHOOLS = -31.3113  # quadrature, normalised half-Cauchy prior


def fit(variant, model, **options):
    options = grouped({"model": model, "random_seed": 1, **options}, fixed_draws=px.FixedDraws)
    diagonal = variant == "diagonal"
    inference = px.DiagonalVI(**options) if diagonal else px.MixedVI(variant, **options)
    return pm.fit(method=inference, model=model, progressbar=False)


@pytest.fixture(scope="module")
def figure_1():
    return two_gaussians()


@pytest.mark.parametrize(
    ("variant", "rank", "kl"),
    [("mu", 1, 0.1808), ("eig", 1, 0.1275), ("lr", 1, 0.1231), ("lr", 2, 0.1184)],
)
def test_figure_1_to_four_digits(figure_1, variant, rank, kl):
    approx = fit(variant, figure_1, rank=rank, draws=16_384)
    assert two_gaussians_kl(approx) == pytest.approx(kl, abs=7e-5)
    result = approx.result
    assert result.train_draws == 16_384
    assert abs(result.elbo + kl) < monte_carlo(result.elbo_se)  # log Z = 0
    assert result.train_elbo == pytest.approx(-kl, abs=3e-3)


def test_trust_region_newton_and_quasi_newton_agree(figure_1):
    a, b = (fit("eig", figure_1, optimizer=o) for o in ("lbfgs", "trust-krylov"))
    assert a.result.train_elbo == pytest.approx(b.result.train_elbo, abs=1e-4)
    np.testing.assert_allclose(a.mean.eval(), b.mean.eval(), atol=0.02)


def test_iid_draws_as_in_the_paper(figure_1):
    approx = fit("eig", figure_1, draws=1000, kind="iid")
    assert two_gaussians_kl(approx) == pytest.approx(0.1275, abs=0.01)


def test_variants_keep_what_the_paper_keeps(figure_1):
    laplace = pm.fit(
        method=px.LaplaceVI(model=figure_1, random_seed=1), model=figure_1, progressbar=False
    )
    S = laplace.cov.eval()
    np.testing.assert_allclose(fit("mu", figure_1).cov.eval(), S, rtol=1e-8)
    T = fit("eig", figure_1).cov.eval()
    np.testing.assert_allclose(S @ T, T @ S, atol=1e-10)  # same eigenvectors
    C = np.linalg.cholesky(S)
    lr = px.MixedVI("lr", model=figure_1, random_seed=1)
    pm.fit(method=lr, model=figure_1, progressbar=False)
    L, x = lr.approx.q.root, lr.state.family.factor
    assert np.linalg.matrix_rank(L - x, tol=1e-8) == 1
    np.testing.assert_allclose(x @ x.T, C @ C.T, rtol=1e-8)


def test_eigen_root():
    C = np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [-0.3, 0.7, 1.5]])
    root, inverse = eigen_root(C)
    np.testing.assert_allclose(root @ root.T, C @ C.T, rtol=EXACT)
    np.testing.assert_allclose(root.T @ root, np.diag(np.diag(root.T @ root)), atol=1e-12)
    np.testing.assert_allclose(inverse @ root, np.eye(3), atol=1e-12)


def test_more_draws_are_taken_while_the_fit_overfits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12))
    with pm.Model() as model:
        b = pm.Normal("b", 0, 3, shape=12)
        pm.Bernoulli("y", logit_p=X @ b, observed=(rng.random(40) < 0.5).astype(int))
    few = fit("lr", model, rank=12, draws=16, max_draws=16)
    assert any("exceeds the fresh one" in note for note in few.result.notes)
    more = fit("lr", model, rank=12, draws=16)
    assert more.result.train_draws > 16
    assert more.result.elbo > few.result.elbo
    assert more.result.train_elbo - more.result.elbo < few.result.train_elbo - few.result.elbo


def test_hardly_more_draws_than_dimensions_do_not_overfit_a_gaussian():
    rng = np.random.default_rng(6)
    root = np.eye(60) + 0.1 * rng.normal(size=(60, 60))
    with pm.Model() as model:
        pm.MvNormal("x", np.zeros(60), cov=root @ root.T)
    result = fit("lr", model, draws=64, max_draws=64).result
    assert not result.notes
    assert abs(result.elbo) < 1e-3  # log Z = 0; with free second moments it is below -100


def test_loss_history_is_one_trace_of_minus_the_elbo(figure_1):
    approx = fit("lr", figure_1)
    laplace = fit("mu", figure_1).hist[0]  # both begin near q = Laplace
    assert approx.hist[-1] == pytest.approx(-approx.result.train_elbo, rel=EXACT)
    assert abs(approx.hist[0] - laplace) < 0.05
    assert np.all(np.diff(approx.hist) < 0) and len(approx.hist) < approx.result.iterations
    inference = px.MixedVI("eig", model=figure_1, random_seed=1)
    approx = pm.fit(method=inference, model=figure_1, progressbar=False)
    before = len(approx.hist)
    inference.refine(10, progressbar=False)
    assert len(approx.hist) > before and np.ptp(approx.hist[before:]) < 1e-3


def test_an_overfitted_optimum_worse_than_the_start_is_taken_back():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 20))
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=20)
        logit = X @ b
        pm.Potential("y", ((rng.random(40) < 0.5) * logit - pt.softplus(logit)).sum())
    approx = fit("lr", model, rank=20, draws=8, max_draws=8)
    assert "which was kept instead" in approx.result.notes[-1]
    laplace = fit("mu", model, draws=1024).result
    assert laplace.elbo - 2 < approx.result.elbo < laplace.elbo
    _, lp, lq = approx.draws_with_logs(4096, random_seed=1)
    se = np.std(lp - lq) / np.sqrt(4096)
    assert abs(np.mean(lp - lq) - approx.result.elbo) < monte_carlo(se + approx.result.elbo_se)


def test_eight_schools_improves_on_laplace_and_stays_below_the_evidence():
    result = fit("eig", eight_schools(centred=False)).result
    assert -31.75 < result.elbo < LOG_EVIDENCE_SCHOOLS + monte_carlo(result.elbo_se)


def test_unit_base_fits_where_there_is_no_mode():
    model = eight_schools(centred=True)
    with pytest.raises(px.NoModeError):
        fit("mu", model, base=Laplace(px.ModeSearch(starts=2)))
    result = fit("eig", model, base="unit").result
    assert result.converged and -36 < result.elbo < LOG_EVIDENCE_SCHOOLS


@pytest.mark.parametrize("base", ["laplace", "match"])
def test_the_matched_gaussian_is_the_base_where_there_is_no_mode(base, caplog):
    """Better than its base on the same draws; the default says which it was."""
    model = eight_schools(centred=True)
    result = fit("eig", model, base=base).result
    matched = px.BatchMatchVI(model=model, random_seed=1).fit(progressbar=False).result
    error = np.hypot(result.elbo_se, matched.elbo_se)
    assert matched.elbo - monte_carlo(error) < result.elbo < LOG_EVIDENCE_SCHOOLS
    said = [note for note in result.notes if note.startswith("base match, as there is no Laplace")]
    assert len(said) == (base == "laplace") == (said[0] in caplog.text if said else False)


def flat_direction():
    with pm.Model() as model:
        drift = pm.Flat("drift")
        pm.Normal("y", pm.Normal("a", 0, 1) + 0 * drift, 1, observed=1.0)
    return model


def spike_at_zero():
    with pm.Model() as model:
        scale = pm.HalfFlat("scale")
        pm.Normal("y", 0, scale, observed=np.zeros(3))
    return model


def heavier_than_any_density():
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("tail", -0.25 * pt.log1p(x**2))
        pm.Normal("y", pm.Normal("a", 0, 1), 1, observed=1.0)
    return model


@pytest.mark.parametrize("variant", ["mu", "eig", "lr", "diagonal"])
def test_a_flat_direction_is_refused_without_a_mode_search_too(variant):
    with pytest.raises(ValueError, match=r"does not depend on \['drift'\].*proper priors"):
        fit(variant, flat_direction(), base="unit")


def test_an_improper_posterior_is_refused_without_a_mode_search_too():
    for variant in ("diagonal", "eig"):
        with pytest.raises(ValueError, match=r"kept rising along \['log scale'\].*proper priors"):
            fit(variant, spike_at_zero(), base="unit")


def test_a_low_rank_fit_that_would_stretch_for_ever_has_not_converged():
    result = fit("lr", heavier_than_any_density(), base="unit").result
    assert not result.converged and "the ELBO still rises by 0.5 nats" in result.notes[-1]


@pytest.mark.parametrize(("variant", "rank"), [("mu", 1), ("lr", 5)])
def test_hyperparameters_maximise_the_evidence_of_a_conjugate_model(variant, rank):
    model, X, y = ridge(np.random.default_rng(0))
    approx = fit(variant, model, rank=rank, hyperparameters=[model["alpha"], "sigma"])
    values = approx.hyperparameters
    best = ridge_log_evidence(X, y, values["alpha"], values["sigma"])
    assert approx.result.train_elbo == pytest.approx(best, abs=1e-3)
    for factor in (0.97, 1.03):
        assert ridge_log_evidence(X, y, factor * values["alpha"], values["sigma"]) < best
        assert ridge_log_evidence(X, y, values["alpha"], factor * values["sigma"]) < best
    sigma = approx.sample(3, random_seed=1).posterior["sigma"].values
    np.testing.assert_allclose(sigma, values["sigma"], rtol=EXACT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "full"}, r"variant must be one of \('mu', 'eig', 'lr'\), got 'full'"),
        ({"variant": "egi"}, r"got 'egi': did you mean 'eig'\?$"),
        ({"variant": "lr", "rank": 3}, "rank must be between 1 and the dimension 2, got 3"),
        ({"variant": "lr", "rank": 0}, "rank must be between 1 and the dimension 2, got 0"),
        ({"variant": "mu", "rank": 2}, "rank applies to variant 'lr' only"),
        ({"variant": "mu", "draws": 1}, "draws must be an integer >= 2, got 1"),
        ({"variant": "mu", "draws": 64, "max_draws": 32}, "of at least draws = 64, got 32"),
        ({"variant": "mu", "max_draws": None}, "max_draws must be an integer .* got None"),
        ({"variant": "mu", "kind": "halton"}, "kind must be one of"),
        ({"variant": "mu", "optimizer": "sgd"}, "optimizer must be one of"),
        ({"variant": "mu", "base": "advi"}, "base must be one of"),
        ({"variant": "mu", "hyperparameters": ["nope"]}, r"got \['nope'\]"),
    ],
)
def test_bad_options(figure_1, options, message):
    with pytest.raises(ValueError, match=message):
        px.MixedVI(model=figure_1, **grouped(options, fixed_draws=px.FixedDraws))


def test_start_outside_the_support_is_refused():
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("log", pt.log(x))
    with pytest.raises(ValueError, match="not finite"):
        fit("mu", model, base="unit", start={"x": -1.0})


def test_the_laplace_base_may_have_options_of_its_own(figure_1):
    few, many = (
        fit("mu", figure_1, base=Laplace(px.ModeSearch(starts=starts))).result for starts in (1, 5)
    )
    assert few.gradient_evaluations < many.gradient_evaluations
    assert few.elbo == pytest.approx(many.elbo, abs=NUMERIC)
