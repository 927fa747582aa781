import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_ext as px
from pymc_ext.variational.gaussian.matched import Matched
from pymc_ext.variational.gaussian.modes import LaplaceSearch
from pymc_ext.variational.gaussian.natural_gradient import NaturalGradient
from tests.pymc_ext.variational.grouped import grouped
from tests.pymc_ext.variational.targets import (
    MEAN,
    SD,
    WEIGHT,
    cauchy_location,
    eight_schools,
    two_gaussians,
)
from tests.tolerances import EXACT, NUMERIC, monte_carlo

LOG_EVIDENCE_CAUCHY = -21.430686  # quadrature


def fit(model, variant, **options):
    inference = px.MixtureVI(variant, model=model, **{"random_seed": 1, **options})
    return pm.fit(method=inference, model=model, progressbar=False)


def test_a_mixture_target_is_recovered_exactly():
    approx = fit(two_gaussians(), "lr")
    order = np.argsort(-np.exp(approx.q.log_weights))
    np.testing.assert_allclose(np.exp(approx.q.log_weights)[order], WEIGHT, atol=5e-3)
    parts = [approx.q.components[k] for k in order]
    np.testing.assert_allclose([part.mean for part in parts], MEAN, atol=0.01)
    covs = [part.cov for part in parts]
    np.testing.assert_allclose(covs, [np.diag(s**2) for s in SD], atol=0.03)
    assert abs(approx.result.elbo) < 1e-3  # log Z = 0: KL is zero


@pytest.mark.parametrize("variant", ["mu", "eig", "lr"])
def test_both_modes_of_the_cauchy_case_and_its_evidence(variant):
    approx = fit(cauchy_location(), variant)
    assert [part.mean.shape for part in approx.q.components] == [(1,), (1,)]
    fresh = approx.result.fresh
    assert fresh.elbo < LOG_EVIDENCE_CAUCHY + monte_carlo(fresh.elbo_se)
    assert abs(fresh.log_marginal_is - LOG_EVIDENCE_CAUCHY) < monte_carlo(fresh.log_marginal_is_se)
    single = pm.fit(
        method=px.MixedVI("eig", model=approx.model, random_seed=1),
        model=approx.model,
        progressbar=False,
    )
    assert fresh.elbo > single.result.elbo + 0.1


def test_log_q_is_the_mixture_density_and_moments_are_its_own():
    approx = fit(two_gaussians(), "eig")
    w, parts = np.exp(approx.q.log_weights), approx.q.components
    theta, _, lq = approx.draws_with_logs(20_000, random_seed=5)
    density = sum(
        weight * stats.multivariate_normal(part.mean, part.cov).pdf(theta)
        for weight, part in zip(w, parts, strict=True)
    )
    np.testing.assert_allclose(lq, np.log(density), rtol=1e-8)
    np.testing.assert_allclose(approx.log_q(theta), lq, rtol=EXACT)
    sd = approx.std.eval()
    assert np.all(abs(theta.mean(0) - approx.mean.eval()) < monte_carlo(1) * sd / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(theta.T), approx.cov.eval(), atol=0.1)


def test_number_of_components_is_bounded_and_reported():
    approx = fit(cauchy_location(), "mu", components=1)
    assert approx.result.notes[0] == "1 of 2 modes found from 20 starts"
    assert approx.q.log_weights == pytest.approx(0)


@pytest.mark.parametrize("search", [px.ModeSearch(starts=6, spread=4.0), "match"])
def test_without_a_mode_components_are_gaussians_from_scores_alone(search):
    """On a centred hierarchy two of them are .5 nats above the best single Gaussian."""
    approx = fit(eight_schools(centred=True), "eig", search=search)
    assert approx.result.notes[0] == "2 of 2 basins found by fits from scores alone"
    assert any("there is no Laplace" in note for note in approx.result.notes) == (search != "match")
    single = pm.fit(
        method=px.BatchMatchVI(model=approx.model, random_seed=1),
        model=approx.model,
        progressbar=False,
    ).result
    assert approx.result.elbo > single.elbo + 0.3


def test_basins_are_found_by_fits_from_scores_alone():
    with pm.Model() as model:
        u, v = pm.Normal("u", 0, 2), pm.Normal("v", 0, 2)
        pm.Normal("y", u * v, 1, observed=3.0)
    approx = fit(model, "eig", search="match")
    np.testing.assert_allclose(np.exp(approx.q.log_weights), [0.5, 0.5], atol=0.02)
    signs = {tuple(np.sign(part.mean)) for part in approx.q.components}
    assert signs == {(1.0, 1.0), (-1.0, -1.0)}


def test_the_distance_of_two_gaussians_is_that_of_their_overlap():
    """−log ∫ √(q₁ q₂), by quadrature; that of a Gaussian from itself is zero."""

    def base(mean, sd):
        return Matched(np.array([mean]), np.array([[sd]]), np.array([[1 / sd]]), 0.0)

    x = np.linspace(-40, 40, 200_001)
    for first, second in (((0.0, 1.0), (3.0, 0.2)), ((1.0, 4.0), (1.0, 0.5))):
        both = stats.norm(*first).pdf(x) * stats.norm(*second).pdf(x)
        overlap = np.sum(np.sqrt(both)) * (x[1] - x[0])
        assert base(*first).distance(base(*second)) == pytest.approx(-np.log(overlap), rel=NUMERIC)
        assert base(*first).distance(base(*first)) == pytest.approx(0, abs=EXACT)


def test_an_improper_posterior_is_refused():
    with pm.Model() as model:
        a, b = pm.Flat("a"), pm.Flat("b")
        pm.Normal("y", a + b, 1, observed=np.ones(3))
    with pytest.raises(ValueError, match="improper"):
        fit(model, "eig", search=px.ModeSearch(starts=2))


def test_ctrl_c_leaves_the_best_so_far():
    def interrupt(approx, losses, iteration):
        if iteration == 3:
            raise KeyboardInterrupt

    model = two_gaussians()
    method = px.MixtureVI("eig", search="match", model=model, random_seed=1)
    approx = pm.fit(method=method, model=model, callbacks=[interrupt], progressbar=False)
    assert approx.result.stop_reason == "unfinished: KeyboardInterrupt"
    assert not approx.result.converged and np.isfinite(approx.result.elbo)


def test_ctrl_c_while_a_basin_is_fitted_ends_the_fit(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(NaturalGradient, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt, match="before there was any approximation"):
        fit(two_gaussians(), "eig", search="match")


def found_before_ctrl_c(monkeypatch, owner, method, count, **options):
    """A fit of two narrow modes, Ctrl-C in the ``count``-th call of a method; and its model."""
    calls, exact = [], getattr(owner, method)

    def interrupted(*args, **kwargs):
        calls.append(method)
        if len(calls) == count:
            raise KeyboardInterrupt
        return exact(*args, **kwargs)

    monkeypatch.setattr(owner, method, interrupted)
    model = cauchy_location()
    inference = px.MixtureVI("eig", model=model, random_seed=1, **options)
    return inference, pm.fit(method=inference, model=model, progressbar=False)


MODES = LaplaceSearch, "_climb", {"search": px.ModeSearch(starts=8, spread=4.0)}
BASINS = Matched, "to", {"search": "match"}


@pytest.mark.parametrize(("owner", "method", "options"), [MODES, BASINS], ids=["modes", "basins"])
def test_ctrl_c_while_components_are_looked_for_leaves_those_found(
    monkeypatch, owner, method, options
):
    inference, approx = found_before_ctrl_c(monkeypatch, owner, method, 2, **options)
    result = approx.result
    assert result.stop_reason == "unfinished: KeyboardInterrupt" and not result.converged
    assert result.notes[0].startswith("1 of 1 ")
    assert result.notes[0].endswith("before Ctrl-C ended the search: there may be more")
    assert np.isfinite(result.elbo) and len(approx.q.components) == 1
    error = monte_carlo(result.elbo_se)
    assert approx.hist[-1] == pytest.approx(-result.train_elbo)
    inference.refine(500, progressbar=False)  # goes on from what there is
    assert approx.result.converged
    assert approx.result.elbo > result.elbo - error


@pytest.mark.parametrize(("owner", "method", "options"), [MODES, BASINS], ids=["modes", "basins"])
def test_ctrl_c_before_any_component_is_found_ends_the_fit(monkeypatch, owner, method, options):
    with pytest.raises(KeyboardInterrupt, match="before there was any approximation"):
        found_before_ctrl_c(monkeypatch, owner, method, 1, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "full"}, "variant must be one of"),
        ({"components": 0}, "components must be an integer >= 1, got 0"),
        ({"spread": 0.0}, "spread must be > 0"),
        ({"spread": np.inf}, "spread must be > 0 and finite, got inf"),
        ({"starts": 0}, "starts must be an integer >= 1"),
        ({"draws": 1}, "draws must be an integer >= 2"),
        ({"variant": "eig", "rank": 2}, "rank applies to variant 'lr' only"),
        ({"variant": "lr", "rank": 3}, "rank must be between 1 and the dimension 1, got 3"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        options = grouped(options, search=px.ModeSearch, fixed_draws=px.FixedDraws)
        px.MixtureVI(model=cauchy_location(), **options)
