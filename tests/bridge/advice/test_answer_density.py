"""The approximation of an answer, to be kept, evaluated, and made a prior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from bridge.advice.kept_law import KeptLaw
from bridge.advice.own_draws import OwnError, own_error
from bridge.methods.method import Fit, WeightedDraws
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS
from posteriordb_cases import load_case
from pymc_ext.variational.core.linear_image import LinearImage
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.gaussian.posteriors import Gaussian
from stan_models import StanProgram
from tests.needed import needs
from tests.tolerances import EXACT

PROGRAM = "data { real y; } parameters { real mu; } model { mu ~ normal(0, 2); y ~ normal(mu, 1); }"


def test_it_is_the_law_of_the_draws_and_a_file_keeps_it(tmp_path) -> None:
    with load_case("eight_schools-eight_schools_noncentered").model() as model:
        advice = bridge.fit(random_seed=1)
    law = px.load(px.save(tmp_path / "q.npz", advice.density))
    theta = law.rvs(20_000, random_state=1)
    np.testing.assert_allclose(law.logpdf(theta), advice.fit.log_q(theta), rtol=EXACT)
    ratios = bridge.pymc_target(model).log_density(theta) - law.logpdf(theta)
    k = bridge.pareto_khat(ratios.reshape(5, -1), np.zeros((5, 4000)))
    log_z, error = advice.log_evidence
    assert abs(k.log_marginal_is - log_z) < 5 * np.hypot(error, k.log_marginal_is_se)
    assert law.notes["usable"] and law.notes["method"] == advice.method
    assert abs(law.notes["elbo"] - ratios.mean()) < 5 * np.hypot(
        law.notes["elbo_se"], ratios.std() / np.sqrt(ratios.size)
    )
    assert law.by_variable(theta)["theta_trans"].shape == (20_000, 8)
    with pm.Model():
        old = px.prior_from(advice.density, "old")
        assert set(old) == {"mu", "tau", "theta_trans"}


@pytest.mark.stan
def test_that_of_a_program_has_the_names_of_its_coordinates(tmp_path) -> None:
    advice = bridge.fit(StanProgram(PROGRAM), {"y": 1.0}, random_seed=1)
    law = px.load(px.save(tmp_path / "q.npz", advice.density))
    assert law.names == ("mu",) and law.notes["khat"] == -np.inf
    np.testing.assert_allclose(law.mean(), [0.8], atol=1e-6)
    np.testing.assert_allclose(law.std(), [np.sqrt(0.8)], atol=1e-6)


def test_shared_data_set_later_leave_it_as_it_was() -> None:
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(3))
        mu = pm.Normal("mu", 0, 1, shape=x.shape[0])
        pm.Normal("y", mu, 1, observed=np.ones(3))
        advice = bridge.fit(random_seed=1)
        pm.set_data({"x": np.zeros(3) + 1})
    assert advice.density.variables[0].shape == (3,) and model["mu"].eval().shape == (3,)


def labels(kind: str):
    """Two Poisson rates whose labels are free."""
    y = np.concatenate([np.full(20, 2), np.full(15, 12), [1, 0, 3, 10, 14, 9, 4]])
    if kind == "stan":
        return StanProgram("""
            data { int N; array[N] int y; }
            parameters { simplex[2] w; vector<lower=0>[2] rate; }
            model {
              rate ~ gamma(2, 0.2);
              for (n in 1:N)
                target += log_sum_exp(log(w[1]) + poisson_lpmf(y[n] | rate[1]),
                                      log(w[2]) + poisson_lpmf(y[n] | rate[2]));
            }"""), {"N": len(y), "y": y}
    with pm.Model() as model:
        w, rate = pm.Dirichlet("w", np.ones(2)), pm.Gamma("rate", 2, 0.2, shape=2)
        pm.Mixture("y", w, pm.Poisson.dist(rate), observed=y)
    return model, None


@pytest.mark.parametrize("kind", ["pymc", pytest.param("stan", marks=pytest.mark.stan)])
def test_that_of_one_mode_and_its_images_is_of_all(kind, tmp_path) -> None:
    advice = bridge.fit(*labels(kind), random_seed=1)
    assert (advice.trusted, advice.method) == (True, "images"), advice.reasons
    law = px.load(px.save(tmp_path / "q.npz", advice.density))
    theta = law.rvs(4_000, random_state=1)
    first = theta[:, list(law.names).index(law.names[-1])] > theta[:, -2]
    assert abs(first.mean() - 0.5) < 4 * 0.5 / np.sqrt(4_000)  # both orders, equally often
    np.testing.assert_allclose(law.logpdf(theta), advice.fit.log_q(theta), rtol=1e-8)
    np.testing.assert_allclose(law.mean()[-1], law.mean()[-2], atol=1e-6)
    ratios = advice.fit.target.log_density(theta) - law.logpdf(theta)
    log_z, error = advice.log_evidence
    ours = np.log(np.mean(np.exp(ratios - ratios.max()))) + ratios.max()
    assert abs(ours - log_z) < 5 * error + 5 * ratios.std() / np.sqrt(ratios.size)


def test_the_image_of_a_gaussian_is_a_gaussian() -> None:
    rng = np.random.default_rng(1)
    a, root = rng.normal(size=(3, 3)), np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    image = LinearImage(Gaussian(np.arange(3.0), root), a)
    exact = Gaussian(a @ np.arange(3.0), np.linalg.cholesky(a @ root @ root.T @ a.T))
    theta, log_q = image.forward(rng.normal(size=(5, 3)))
    np.testing.assert_allclose(log_q, exact.log_density(theta), rtol=1e-8)
    np.testing.assert_allclose(image.log_density(theta), log_q, rtol=1e-8)
    np.testing.assert_allclose(image.mean, exact.mean)
    np.testing.assert_allclose(image.cov, exact.cov)
    with pytest.raises(ValueError, match="matrix must have an inverse"):
        LinearImage(Gaussian(np.zeros(2), np.eye(2)), np.ones((2, 2)))


def test_there_is_none_of_chains_nor_of_what_hands_back_none() -> None:
    needs("nutpie")
    with pm.Model():
        pm.Gumbel("x", 0, 1, shape=3)
        of_chains = bridge.fit(methods="batch-match", khat=0.01, effort=1e-3, random_seed=1)
    with pm.Model():
        pm.Normal("x", 0, 1, shape=3)
        of_weights = bridge.fit(methods="batch-match", random_seed=1)
    assert of_chains.method == "warm-nuts" and of_chains.density is None
    assert replace(of_weights, fit=replace(of_weights.fit, q=None)).density is None
    doubtful = replace(of_weights, doubts=("made up",)).density
    assert doubtful.notes["usable"] is False and doubtful.notes["verdict"].startswith("made up")


@pytest.mark.slow
def test_a_covariance_is_the_prior_of_the_next_data() -> None:
    """`bridge.fit` has it by log scales and correlations, not by the factor's entries."""
    y = np.random.default_rng(1).multivariate_normal([0, 0], [[1.0, 0.5], [0.5, 2.0]], 60)

    def rows(chol, y):
        L = pm.math.expand_packed_triangular(2, chol)
        pm.MvNormal(f"y{len(y)}", np.zeros(2), chol=L, observed=y)

    def first(y):
        with pm.Model() as model:
            sd = pm.HalfNormal.dist(2.0, shape=2)
            rows(pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd, compute_corr=False), y)
        return bridge.fit(model, random_seed=1)

    with pm.Model():
        rows(px.prior_from(first(y[:40]).density, "old")["chol"], y[40:])
        second = bridge.fit(random_seed=1).idata["posterior"]["old_chol"]
    once = first(y).idata["posterior"]["chol"]
    one, two = (x.values.reshape(-1, 3) for x in (once, second))
    assert np.abs((two.mean(axis=0) - one.mean(axis=0)) / one.std(axis=0)).max() < 0.15
    assert np.abs(np.log(two.std(axis=0) / one.std(axis=0))).max() < 0.15


def narrow(scale: float):
    """An answer whose weights are of the exact law, beside a q that is ``scale`` as wide."""
    rng, root = np.random.default_rng(1), np.eye(2)
    density = px.CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    target = as_problem(density, None).target
    q, exact = Gaussian(np.array([0.1, 0.0]), scale * root), Gaussian(np.zeros(2), root)
    drawn = []
    for law in (q, exact):
        theta, lq = law.forward(rng.standard_normal((8_000, 2)))
        drawn.append((theta[None], density.log_density(theta)[None], lq[None], law.log_density))
    theta, lp, lq, log_q = drawn[0]
    proposal = WeightedDraws(*drawn[1])
    return Fit(target, theta, lp, 0.0, lq, log_q, proposal=proposal, q=q)


@pytest.mark.parametrize(("scale", "wrong"), [(1.0, None), (0.75, "0.7"), (1.4, "1.4")])
def test_whether_its_own_draws_are_the_posteriors_is_told(scale, wrong) -> None:
    found = own_error(narrow(scale), np.full((1, 8_000), 1 / 8_000)).wrong
    if wrong is None:
        assert found is None
    else:
        assert "its own draws have an sd of theta[" in found and f"of {wrong}" in found
    moved = narrow(1.0)
    moved = replace(moved, theta=moved.theta + np.array([0.0, 0.3]))
    assert "have a mean of theta[1] +0." in own_error(moved, np.full((1, 8_000), 1 / 8_000)).wrong


def few_groups() -> pm.Model:
    """Weights of a proposal repair the map of a few groups' spread, not the map."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(6), 10)
    y = rng.normal(size=60) + rng.normal(size=6)[group]
    with pm.Model() as model:
        mu, spread = pm.Normal("mu", 0, 3), pm.HalfNormal("spread", 3)
        z = pm.Normal("z", 0, 1, shape=6)
        pm.Normal("y", mu + spread * z[group], pm.HalfNormal("sd", 3), observed=y)
    return model


def test_where_the_map_is_not_the_posterior_the_law_along_scales_is_kept(tmp_path) -> None:
    with few_groups():
        advice = bridge.fit(want="density", random_seed=1)
    assert [attempt.method for attempt in advice.attempts] == ["hierarchical"] and advice.trusted
    assert "an sd of" in own_error(advice.fit, advice._weights).wrong  # the map's
    law = px.load(px.save(tmp_path / "q.npz", advice.density))
    notes = law.notes
    assert notes["usable"] and "log spread" in notes["along"]
    log_z, error = advice.log_evidence
    assert -0.1 < notes["elbo"] - log_z < 5 * error
    assert advice.reasons.splitlines()[-1].startswith("density: by Laplace's method along log ")
    theta = law.rvs(20_000, random_state=1)
    drawn = advice.fit.target.constrain(theta)
    for name in ("mu", "spread", "z", "sd"):
        values = advice.idata["posterior"][name].values
        values = values.reshape(-1, *values.shape[2:])
        sd = values.std(axis=0)
        off = np.abs((drawn[name].mean(axis=0) - values.mean(axis=0)) / sd)
        assert off.max() < 0.1 and np.abs(drawn[name].std(axis=0) / sd - 1).max() < 0.1
    with pm.Model():
        assert set(px.prior_from(law, "old")) == {"mu", "spread", "z", "sd"}


def fresh(fit: Fit) -> FreshDraws:
    return FreshDraws.from_log_ratios((fit.lp - fit.lq).ravel())


def test_a_flow_is_tried_where_weights_are_trusted_and_no_law_is_the_posterior(monkeypatch) -> None:
    with few_groups():
        short = replace(METHODS["bernstein"], run=replace(METHODS["bernstein"].run, n=250))
        monkeypatch.setitem(METHODS, "bernstein", short)
        monkeypatch.setattr(
            "bridge.advice.kept_law._judged",
            lambda fit, law, weights: KeptLaw(law, fresh(fit), OwnError(9.0, "mu", 9.0, "mu")),
        )
        advice = bridge.fit(want="density", random_seed=1)
    assert advice.trusted and "bernstein" in [attempt.method for attempt in advice.attempts]
    notes = advice.density.notes
    assert notes["log_evidence"] == advice.log_evidence[0] > notes["elbo"]
    last = advice.reasons.splitlines()[-1]
    if notes["usable"]:
        assert last.startswith("density: ELBO")
    else:
        assert last.startswith("density: not usable: ELBO") and "its own draws have" in last
    with pm.Model() as second:
        px.prior_from(advice.density, "old")
        assert {"old_z", "old_z_"} <= set(second.named_vars)  # its own z, and the normals behind
        with pytest.raises(ValueError, match=r"the model has \['old_mu', .*another name"):
            px.prior_from(advice.density, "old")
