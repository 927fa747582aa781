"""``px.sample``: exact draws of a model from what ``pm.fit`` gave, in ``pm.sample``'s form."""

import contextlib
import json
import signal

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_ext as px
from pymc_ext.sampling.modes import modes_outside
from pymc_ext.sampling.nutpie import NutpieNUTS
from pymc_ext.sampling.pymc import coordinates_of
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian, GaussianMixture
from tests.needed import needs
from tests.pymc_ext.sampling.targets import require_moments
from tests.tolerances import monte_carlo

needs("nutpie")
Y = np.array([1.2, 0.4, 2.2, 1.9])
POSTERIOR_SD = 1 / np.sqrt(len(Y) + 1)  # of mu, given y ~ N(mu, 1) and mu ~ N(0, 1)
LOOK = 4_128  # gradients of a look for what the map of an ill fit may hide
POSTERIOR_MEAN = Y.sum() / (len(Y) + 1)


def conjugate(**coords):
    with pm.Model(coords={"site": ["a", "b"], **coords}) as model:
        mu = pm.Normal("mu")
        scale = pm.HalfNormal("scale", dims="site")
        pm.Deterministic("log_scale", np.log(1.0) + pm.math.log(scale), dims="site")
        pm.Normal("y", mu, 1, observed=Y)
    return model


@pytest.fixture(scope="module")
def fitted():
    with conjugate():
        return pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)


@pytest.fixture(scope="module")
def idata(fitted):
    return px.sample(fitted, ess=1000, random_seed=1)


def test_draws_are_of_the_posterior(idata):
    posterior = idata["posterior"]
    require_moments(posterior["mu"].values[..., None], [POSTERIOR_MEAN], [POSTERIOR_SD])
    half = stats.halfnorm
    require_moments(posterior["scale"].values, np.full(2, half.mean()), np.full(2, half.std()))


def test_an_interrupted_search_starts_no_chains(fitted, monkeypatch):
    """The search takes Ctrl-C as its own end."""

    def pressed(*args):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return modes_outside(*args)

    monkeypatch.setattr("pymc_ext.sampling.pymc.modes_outside", pressed)
    monkeypatch.setattr("pymc_ext.sampling.pymc.sample_density", lambda *a, **o: pytest.fail("on"))
    with pytest.raises(KeyboardInterrupt, match="before the chains had drawn anything: nothing"):
        px.sample(fitted, random_seed=1)


def test_they_come_as_pm_sample_gives_them(idata):
    posterior = idata["posterior"]
    assert posterior["scale"].dims == ("chain", "draw", "site")
    assert list(posterior["site"].values) == ["a", "b"]
    np.testing.assert_allclose(posterior["log_scale"], np.log(posterior["scale"]), atol=1e-12)
    stats_group = idata["sample_stats"]
    names = {"lp", "acceptance_rate", "step_size", "n_steps", "diverging", "energy"}
    assert names <= set(stats_group.data_vars)
    assert stats_group["diverging"].dtype == bool
    assert stats_group["lp"].shape == posterior["mu"].shape
    np.testing.assert_array_equal(idata["observed_data"]["y"], Y)


def test_the_verdict_and_the_cost_are_attributes(idata, fitted):
    attrs = idata["posterior"].attrs
    assert attrs["trusted"] == 1 and attrs["reasons"] == ""
    assert attrs["sampler"] == "hmc" and attrs["in_approximations_coordinates"] == 1
    steps = int(idata["sample_stats"]["n_steps"].sum())
    assert (attrs["gradient_evaluations"] - attrs["warm_up_gradients"] - steps) % LOOK == 0
    assert attrs["approximation_gradients"] == fitted.result.gradient_evaluations > 0
    parts = ("gradient_evaluations", "approximation_gradients", "search_gradients")
    assert attrs["all_gradients"] == sum(attrs[part] for part in parts)
    assert attrs["random_seed"] == 1
    assert json.loads(attrs["options"])["ess"] == 1000
    assert attrs["pm_sample_gradients_at_least"] > 6_000 * 3.6  # of one dimension


def test_nutpie_runs_where_it_is_asked_for(fitted):
    needs("nutpie")
    idata = px.sample(fitted, ess=400, sampler=NutpieNUTS(), random_seed=1)
    attrs, statistics = idata["posterior"].attrs, idata["sample_stats"]
    assert attrs["sampler"] == "nutpie" and attrs["trusted"] == 1
    assert attrs["in_approximations_coordinates"] == 1 and "tree_depth" in statistics
    assert idata["posterior"].sizes["chain"] == 4
    spent = attrs["gradient_evaluations"] - attrs["warm_up_gradients"]
    assert (spent - int(statistics["n_steps"].sum())) % LOOK < 4 * 64  # it makes a draw ahead
    test_draws_are_of_the_posterior(idata)


def test_without_nutpie_pymcs_own_sampler_comes_after_hmc(fitted, monkeypatch):
    monkeypatch.setattr("pymc_ext.sampling.installed.find_spec", lambda name: None)
    monkeypatch.setattr("pymc_ext.sampling.attempts.MOST_IN_STEP", 0)
    idata = px.sample(fitted, ess=400, random_seed=1)
    attrs = idata["posterior"].attrs
    assert attrs["sampler"] == "pymc" and attrs["trusted"] == 1
    assert attrs["in_approximations_coordinates"] == 1
    test_draws_are_of_the_posterior(idata)
    steps = int(idata["sample_stats"]["n_steps"].sum())
    spent = attrs["gradient_evaluations"] - attrs["warm_up_gradients"]
    assert (spent - steps) % LOOK < 1_000
    with conjugate() as model:  # the sampler's own model is no part of it
        again = px.sample(fitted, ess=400, random_seed=1)["posterior"]["mu"]
    assert "v" not in model.named_vars
    np.testing.assert_array_equal(idata["posterior"]["mu"], again)


def test_one_seed_is_one_result(fitted):
    first, again = (px.sample(fitted, random_seed=3)["posterior"]["mu"].values for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_what_is_not_enough_is_said(fitted, caplog):
    short = px.sample(fitted, ess=4000, budget=9_000, random_seed=1)
    assert short["posterior"].attrs["trusted"] == 0
    assert "not trusted: the budget of gradients was spent" in caplog.text


def test_a_q_without_a_pullback_lends_its_moments():
    root = np.array([[2.0, 0.0], [1.0, 0.5]])
    g = Gaussian(np.array([1.0, -1.0]), root)
    assert coordinates_of(g) is g
    mixture = GaussianMixture(np.zeros(1), (g,))
    found = coordinates_of(mixture)
    np.testing.assert_allclose(found.cov, g.cov, rtol=1e-12)
    np.testing.assert_allclose(found.mean, g.mean)

    class OnlyForward:
        dimension, latent_dimension = 2, 3

        def forward(self, z):
            return g.forward(z[:, :2])

    found = coordinates_of(OnlyForward())
    np.testing.assert_allclose(found.std, g.std, rtol=0.1)  # from 4,000 draws
    diagonal = DiagonalGaussian(np.zeros(2), np.ones(2))
    assert coordinates_of(diagonal) is diagonal


@pytest.mark.parametrize("tails", ["quadratic", "bounded"])
def test_a_flow_of_a_model_is_coordinates_where_it_reaches_all(tails):
    """One with bounded tails lends its moments: chains in its coordinates would stay inside."""
    with conjugate():
        flow = pm.fit(
            50,
            method=px.BernsteinVI(px.FlowShape(5, (4,), tails=tails), polish=None, random_seed=1),
            progressbar=False,
        )
    assert (coordinates_of(flow.q) is flow.q) is (tails == "quadratic")
    idata = px.sample(flow, random_seed=1)
    assert idata["posterior"].attrs["in_approximations_coordinates"] == 1
    require_moments(idata["posterior"]["mu"].values[..., None], [POSTERIOR_MEAN], [POSTERIOR_SD])


def test_a_mode_that_the_approximation_lacks_is_found(caplog):
    """Chains from one q agree on its mode; one that starts in the other tells."""
    with pm.Model():
        pm.NormalMixture("x", w=[0.3, 0.7], mu=[-5.0, 5.0], sigma=1.0)
        approx = pm.fit(method=px.LaplaceVI(start={"x": 4.0}, random_seed=1), progressbar=False)
    blind = px.sample(approx, search=False, random_seed=1)["posterior"].attrs
    assert blind["trusted"] == 1 and blind["search_gradients"] == 0
    attrs = px.sample(approx, random_seed=1)["posterior"].attrs
    assert attrs["trusted"] == 0 and attrs["search_gradients"] > 0
    reasons = attrs["reasons"].splitlines()
    assert "a mode at x = -5" in reasons[0] and "R̂" in " ".join(reasons[1:])
    assert reasons[0] in caplog.text


def test_a_mode_that_chains_reach_is_a_note():
    with pm.Model():
        pm.NormalMixture("x", w=[0.3, 0.7], mu=[-1.4, 1.4], sigma=0.5)
        approx = pm.fit(method=px.LaplaceVI(start={"x": 1.4}, random_seed=1), progressbar=False)
    idata = px.sample(approx, random_seed=1)
    attrs = idata["posterior"].attrs
    assert attrs["trusted"] == 1
    assert any("a mode at x = -1.4" in note for note in json.loads(attrs["notes"]))
    left = float((idata["posterior"]["x"].values < 0).mean())
    assert abs(left - 0.3) < monte_carlo(np.sqrt(0.3 * 0.7 / 400))  # of the ESS asked for


def test_orders_of_labels_are_images_of_one_mode():
    rng = np.random.default_rng(1)
    counts = np.concatenate([rng.poisson(3, 60), rng.poisson(12, 40)])
    with pm.Model(coords={"group": ["a", "b"]}):
        share = pm.Dirichlet("share", np.ones(2), dims="group")
        rate = pm.Exponential("rate", 0.1, dims="group")
        pm.Mixture("y", w=share, comp_dists=pm.Poisson.dist(rate, shape=2), observed=counts)
        approx = pm.fit(method=px.HierarchicalVI(random_seed=1), progressbar=False)
    idata = px.sample(approx, random_seed=1)
    posterior = idata["posterior"]
    rate = posterior["rate"].values.reshape(-1, 2)
    assert posterior.attrs["trusted"] and posterior["rate"].dims == ("chain", "draw", "group")
    assert "the order of the entries of rate, share" in posterior.attrs["notes"]
    assert abs(np.mean(rate[:, 0] > rate[:, 1]) - 0.5) < 1e-3  # of all draws as many in each
    assert px.sample(approx, random_seed=1)["posterior"].equals(posterior)
    one = px.sample(approx, random_seed=1, search=False)["posterior"]
    assert "not looked for" in one.attrs["notes"]
    assert len(np.unique(np.argmax(one["rate"].values, axis=-1))) == 1


def test_minibatches_are_refused():
    with pm.Model():
        mu = pm.Normal("mu")
        y = pm.Minibatch(np.arange(20.0), batch_size=5)
        pm.Normal("y", mu, 1, observed=y, total_size=20)
        approx = pm.fit(
            20, method=px.BernsteinVI(px.FlowShape(5, (4,)), polish=None), progressbar=False
        )
    with pytest.raises(ValueError, match=r"pm\.Minibatch"):
        px.sample(approx)


def test_keywords_are_looked_at_before_anything_is_drawn(fitted, monkeypatch):
    monkeypatch.setattr("pymc_ext.sampling.pymc.sample_density", None)  # nothing may be drawn
    with pytest.raises(TypeError, match=r"does not take \['draws', 'tune'\] \(ess=400 says"):
        px.sample(fitted, draws=1000, tune=500)


def test_an_approximation_of_another_package_is_refused():
    with pm.Model():
        pm.Normal("x", 0, 1)
        approx = pm.fit(10, method="advi", progressbar=False)
    with pytest.raises(TypeError, match=r"px\.sample takes what pm.fit gave with a method of this"):
        px.sample(approx)


def test_chains_that_miss_a_governors_tail_are_not_trusted(monkeypatch):
    """As if its marginal were ten times as wide as it is."""
    monkeypatch.setattr("pymc_ext.variational.hierarchical.reach.LEAST_SD", 10.0)
    rng = np.random.default_rng(1)
    with pm.Model():
        tau = pm.HalfNormal("tau", 1)
        theta = pm.Normal("theta", 0, tau, shape=6)
        pm.Normal("y", theta, 0.5, observed=rng.normal(size=6))
        approx = pm.fit(method=px.HierarchicalVI(random_seed=1), progressbar=False)
    attrs = px.sample(approx, ess=50, random_seed=1, progressbar=False)["posterior"].attrs
    assert attrs["trusted"] == 0 and "the draws miss a tail of log tau (sd" in attrs["reasons"]
