"""The PyMC layer on a two-line family: everything the other families inherit."""

import contextlib
from dataclasses import dataclass, replace

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_ext.variational.core.algorithm import Algorithm, Fitted
from pymc_ext.variational.core.posterior import MOMENT_DRAWS
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.monte_carlo_vi import MonteCarloVI
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.groups import FittedGroup
from pymc_ext.variational.plugin.inference import AlgorithmVI
from tests.tolerances import EXACT, monte_carlo


class DiagonalGroup(FittedGroup):
    """Of other scales than one before a fit."""

    def unfitted(self):
        return DiagonalGaussian(self.start, np.exp(np.linspace(-1.0, 0.5, len(self.start))))


@dataclass(frozen=True)
class Halving(Algorithm):
    """Halves the mean each iteration: enough to see the loop work."""

    name = "halving"

    def run(self, density, start, *, seed, budget, monitor, state=None):
        q = state or DiagonalGaussian(start, np.ones(len(start)))
        with contextlib.suppress(StopIteration):
            for _ in range(budget):
                q = DiagonalGaussian(q.mean / 2, q.std)
                monitor(float(np.sum(q.mean**2)), lambda q=q: q)
        return Fitted(q, FitResult(self.name, True, "done", budget), state=q)


START = {"beta": np.array([0.3, -0.2]), "sigma": 2.0}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20, 2))
    with pm.Model(coords={"feature": ["a", "b"], "row": range(20)}) as model:
        beta = pm.Normal("beta", 0, 2, dims="feature")
        sigma = pm.HalfNormal("sigma", 1)
        eta = pm.Deterministic("eta", x @ beta, dims="row")
        pm.Normal("y", eta, sigma, observed=x @ [1.0, -1.0] + rng.normal(size=20), dims="row")
        pm.Potential("nudge", -(beta[0] ** 2))
    return model


@pytest.fixture(scope="module")
def approx(model):
    return VectorisedApproximation(DiagonalGroup, model=model, start=START, random_seed=1)


def test_log_p_is_the_models_log_density_with_jacobian(model, approx):
    theta = np.random.default_rng(0).normal(size=(7, 3))
    logp = model.compile_logp()
    expected = [logp({"beta": t[:2], "sigma_log__": t[2]}) for t in theta]
    np.testing.assert_allclose(approx.log_p(theta), expected, rtol=EXACT)


def test_draws_follow_log_q_and_start(approx):
    theta, lp, lq = approx.draws_with_logs(4000, random_seed=2)
    mean, sd = np.array([0.3, -0.2, np.log(2.0)]), np.exp(np.linspace(-1, 0.5, 3))
    np.testing.assert_allclose(lq, stats.norm(mean, sd).logpdf(theta).sum(1), rtol=EXACT)
    np.testing.assert_allclose(lq, approx.log_q(theta), rtol=EXACT)
    np.testing.assert_allclose(lp, approx.log_p(theta), rtol=EXACT)
    assert stats.kstest((theta - mean) / sd, "norm", axis=0).pvalue.min() > 1e-3


def test_sample_carries_coords_deterministics_lp_and_lq(model, approx):
    idata = approx.sample(50, random_seed=4)
    assert idata.posterior["beta"].dims == ("chain", "draw", "feature")
    assert list(idata.posterior["feature"].values) == ["a", "b"]
    assert "sigma_log__" not in idata.posterior
    assert "y" in idata.observed_data
    theta, lp, lq = approx.draws_with_logs(50, random_seed=4)
    np.testing.assert_allclose(idata.sample_stats["lp"].values[0], lp, rtol=EXACT)
    np.testing.assert_allclose(idata.sample_stats["lq"].values[0], lq, rtol=EXACT)
    np.testing.assert_allclose(idata.posterior["sigma"].values[0], np.exp(theta[:, 2]), rtol=EXACT)
    eta = model.compile_fn(model["eta"], inputs=[model["beta"]], point_fn=False)(theta[7, :2])
    np.testing.assert_allclose(idata.posterior["eta"].values[0, 7], eta, rtol=EXACT)
    assert "sigma_log__" in approx.sample(5, include_transformed=True).posterior
    assert approx.sample(5, return_inferencedata=False)["beta"].shape == (5, 2)


def test_draws_without_logs_cost_no_value_of_log_p(approx, monkeypatch):
    monkeypatch.setattr(approx.density, "log_density", None)
    idata = approx.sample(5, random_seed=4, logs=False)
    assert "lq" in idata.sample_stats and "lp" not in idata.sample_stats


def test_chains_are_the_same_draws_in_rows(approx):
    one, four = (approx.sample(n, chains=k, random_seed=4) for n, k in ((40, 1), (10, 4)))
    for group in ("posterior", "sample_stats"):
        for name, values in one[group].data_vars.items():
            np.testing.assert_array_equal(four[group][name].values.ravel(), values.values.ravel())
    assert four.posterior["beta"].shape == (4, 10, 2)
    for chains in (0, True, 1.5):
        with pytest.raises(ValueError, match="chains must be an integer >= 1"):
            approx.sample(10, chains=chains)
    with pytest.raises(ValueError, match=r"draws must be an integer >= 1, got 1\.5"):
        approx.sample(1.5, chains=4)


def test_seeds_reproduce_and_unseeded_draws_move_on(approx):
    a, b = (approx.sample(3, random_seed=9).posterior["beta"].values for _ in range(2))
    np.testing.assert_array_equal(a, b)
    c, d = (approx.sample(3).posterior["beta"].values for _ in range(2))
    assert not np.allclose(c, d)


def test_sample_node_is_vectorised_and_repeats_constants(model, approx):
    s, constant = approx.sample_node([model["sigma"] ** 2, pt.constant(3.0)], size=6)
    values = s.eval()
    assert values.shape == (6,) and len(np.unique(values)) == 6
    np.testing.assert_array_equal(constant.eval(), np.full(6, 3.0))
    assert approx.sample_node(model["sigma"]).eval().ndim == 0


def test_parameter_names_and_moments(approx):
    assert approx.parameter_names() == ["beta[a]", "beta[b]", "sigma_log__"]
    np.testing.assert_allclose(approx.mean.eval(), [0.3, -0.2, np.log(2)], rtol=EXACT)
    assert approx.mean_data["beta"].dims == ("feature",)


class Correlated:
    """N(m, LLᵀ) by its draws alone, or with moments of its own."""

    dimension = latent_dimension = 3
    m, L = np.array([1.0, -2.0, 3.0]), np.array([[2.0, 0, 0], [1.0, 0.5, 0], [0, 0, 0.1]])

    def __init__(self, **moments):
        self.__dict__.update(moments)

    def forward(self, z):
        log_det = np.linalg.slogdet(self.L)[1]
        return self.m + z @ self.L.T, stats.norm.logpdf(z).sum(1) - log_det


def test_moments_of_any_q_are_its_own_or_of_its_draws(model):
    approx, q = VectorisedApproximation(FittedGroup, model=model), Correlated()
    cov, nodes = q.L @ q.L.T, (approx.mean, approx.std, approx.cov)
    sd = np.sqrt(np.diag(cov))
    approx.group.hold(q)
    mean, std, covariance = (node.eval() for node in nodes)
    assert np.all(abs(mean - q.m) < monte_carlo(1 / np.sqrt(MOMENT_DRAWS)) * sd)
    assert np.all(abs(std / sd - 1) < monte_carlo(1 / np.sqrt(2 * MOMENT_DRAWS)))
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=EXACT)
    assert np.all(abs(covariance - cov) < monte_carlo(2 / np.sqrt(MOMENT_DRAWS)) * np.outer(sd, sd))
    approx.group.hold(Correlated(mean=q.m, cov=cov))
    for node, expected in zip(nodes, (q.m, sd, cov), strict=True):
        np.testing.assert_allclose(node.eval(), expected, rtol=EXACT)
    approx.group.hold(Correlated(std=sd))
    np.testing.assert_allclose(approx.std.eval(), sd, rtol=EXACT)


def test_a_restart_forgets_a_q_that_is_no_shared_variable(model):
    inference = AlgorithmVI(Laplace(), model=model, random_seed=1)
    inference.fit(progressbar=False)
    assert np.all(inference.approx.std.eval() != 1)
    inference.restart()
    inference.fit(0, progressbar=False)
    np.testing.assert_array_equal(inference.approx.std.eval(), np.ones(3))
    np.testing.assert_array_equal(inference.approx.mean.eval(), inference.approx.group.start)


def test_hyperparameters_are_points_whose_prior_has_no_jacobian(model):
    start = {"sigma": 2.0}
    approx = VectorisedApproximation(
        DiagonalGroup, model=model, hyperparameters=["sigma"], start=start
    )
    assert approx.hyperparameters == {"sigma": pytest.approx(2.0)}
    theta = np.random.default_rng(0).normal(size=(4, 2))
    logp = model.compile_logp(jacobian=False)
    expected = [logp({"beta": t, "sigma_log__": np.log(2.0)}) for t in theta]
    np.testing.assert_allclose(approx.log_p(theta), expected, rtol=EXACT)
    sigma = approx.sample(4, random_seed=1).posterior["sigma"].values
    np.testing.assert_allclose(sigma, np.full((1, 4), 2.0), rtol=EXACT)


def test_model_with_a_scan_is_evaluated_draw_by_draw():
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=4)
        path = pytensor.scan(
            lambda step, level: 0.5 * level + step,
            sequences=[b],
            outputs_info=[pt.zeros(())],
            return_updates=False,
        )
        pm.Normal("y", path, 1, observed=np.arange(4.0))
    approx = VectorisedApproximation(DiagonalGroup, model=model)
    theta = np.random.default_rng(5).normal(size=(6, 4))
    logp = model.compile_logp()
    np.testing.assert_allclose(approx.log_p(theta), [logp({"b": t}) for t in theta], rtol=EXACT)


def test_minibatch_models_sample_without_lp_and_refuse_log_p():
    y = np.random.default_rng(0).normal(2.0, 1.0, size=500).astype("float64")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10)
        pm.Normal("y", mu, 1, observed=pm.Minibatch(y, batch_size=50), total_size=500)
        approx = pm.fit(
            800,
            method=MonteCarloVI("diagonal", random_seed=1),
            obj_n_mc=4,
            obj_optimizer=pm.adam(learning_rate=0.05),
            progressbar=False,
        )
    assert approx.mean.eval()[0] == pytest.approx(y.mean(), abs=0.25)
    assert approx.result.fresh is None
    stats_ = approx.sample(10).sample_stats
    assert "lq" in stats_ and "lp" not in stats_
    with pytest.raises(ValueError, match=r"rows of \['\w+'\] are a pm.Minibatch"):
        approx.draws_with_logs(5)
    with pytest.raises(ValueError, match="other rows for every draw"):
        approx.sample(10, log_likelihood=True)
    assert model["mu"].name == "mu"


def test_a_fit_runs_callbacks_stops_refines_and_pickles(model):
    inference = AlgorithmVI(Halving(), model=model, start=START, random_seed=5)
    approx, start = inference.approx, inference.approx.q.mean
    assert pm.fit(0, method=inference, model=model, progressbar=False).result.iterations == 0
    np.testing.assert_array_equal(approx.q.mean, start)
    seen = []

    def stop(a, losses, i):
        seen.append(i)
        if i == 3:
            raise StopIteration("enough")

    pm.fit(10, method=inference, model=model, callbacks=[stop], progressbar=False)
    assert seen == [1, 2, 3] and len(approx.hist) == 3
    inference.refine(2, progressbar=False)
    assert len(approx.hist) == 5
    np.testing.assert_allclose(approx.mean.eval(), start / 32, rtol=EXACT)
    again = cloudpickle.loads(cloudpickle.dumps(approx))
    np.testing.assert_allclose(
        again.sample(3, random_seed=1).posterior["beta"].values,
        approx.sample(3, random_seed=1).posterior["beta"].values,
        rtol=EXACT,
    )


def test_progress_bar_prints(model, capsys):
    inference = AlgorithmVI(Halving(), model=model)
    inference.fit(2, progressbar=True, score=False)
    assert "Fitting" in capsys.readouterr().out
    assert len(inference.hist) == 0


def test_fresh_draw_estimates_against_a_known_evidence():
    rng = np.random.default_rng(1)
    q, p = stats.norm(0, 1.2), stats.norm(0, 1.0)
    x = q.rvs(20_000, random_state=rng)
    fresh = FreshDraws.from_log_ratios(p.logpdf(x) + 5.0 - q.logpdf(x))
    assert abs(fresh.log_marginal_is - 5.0) < monte_carlo(fresh.log_marginal_is_se)
    kl = np.log(1 / 1.2) + 1.2**2 / 2 - 0.5
    assert abs(fresh.elbo - (5.0 - kl)) < monte_carlo(fresh.elbo_se)
    assert 0.5 < fresh.ess / 20_000 < 1
    # p̃/q has a tail index of 1 − 1.2⁻² < 0: bounded ratios
    assert fresh.khat < 0.5 and fresh.usable and fresh.verdict.startswith("k̂ = ")


def test_a_result_prints_what_a_reader_asks_first() -> None:
    fresh = FreshDraws.from_log_ratios(np.random.default_rng(1).normal(-2, 0.1, 1000))
    result = FitResult(
        "mine", False, "n reached", 9, seconds=1.25, gradient_evaluations=12_345, fresh=fresh,
        notes=("a thing to know",),
    )  # fmt: skip
    first, elbo, evidence, verdict, note = str(result).splitlines()
    assert first == "mine: not converged (n reached), 12,345 gradients in 1.2 s"
    assert elbo == f"ELBO: {fresh.elbo:.3f} ± {fresh.elbo_se:.3f}"
    assert evidence.startswith(f"log evidence by weights: {fresh.log_marginal_is:.3f} ± 0.00")
    assert verdict == f"as a posterior: {fresh.verdict}" and note == "note: a thing to know"
    bare = str(FitResult("mine", True, "done", 1)).splitlines()
    assert bare[1:] == ["as a posterior: not judged: no fresh draws were taken"]


def test_a_result_is_judged_by_its_own_weights_where_those_of_a_tails_proposal_fail() -> None:
    normal = np.random.default_rng(1).standard_normal(1000)
    good, bad = (FreshDraws.from_log_ratios(x) for x in (0.1 * normal, 0.9 * normal**2))
    poor = FreshDraws.from_log_ratios(1.5 * normal - 3 * (normal > 1.5))  # by chance, of few
    assert good.holds_alone and not bad.usable and poor.usable and not poor.holds_alone

    def result(fresh, proposal, tails_alone):
        return FitResult(
            "mine", True, "done", 1, fresh=fresh, fresh_proposal=proposal, tails_alone=tails_alone
        )

    for fresh, proposal, tails_alone, of_proposal in (
        (good, bad, True, False),
        (good, bad, False, True),  # of mass that q lacks its own draws know nothing
        (bad, good, True, True),
        (poor, bad, True, True),
        (bad, bad, True, True),
        (good, good, True, True),
    ):
        found = result(fresh, proposal, tails_alone)
        weighted = proposal if of_proposal else fresh
        assert found.of_proposal is of_proposal and found.weighted is weighted
        assert found.usable == weighted.usable and found.khat == weighted.khat
        whose = " by its proposal" if of_proposal else ""
        assert f"as a posterior{whose}: {weighted.verdict}" in str(found)


def test_a_result_says_why_there_are_no_fresh_draws_where_there_are_none_alone() -> None:
    fresh = FreshDraws.from_log_ratios(np.random.default_rng(1).normal(-2, 0.1, 1000))
    bare = FitResult("mine", True, "done", 1)
    assert bare.unjudged == "no fresh draws were taken"
    assert FitResult("mine", True, "done", 1, unjudged="too many").unjudged == "too many"
    assert replace(bare, fresh=fresh).unjudged is None
    assert FitResult("mine", True, "done", 1, fresh=fresh, unjudged="too many").unjudged is None


@pytest.mark.parametrize(
    ("log_ratio", "usable", "words"),
    [
        (np.zeros(1000), True, "exact"),
        (np.full(1000, -np.inf), False, "undefined at all of 1,000 draws"),
        (stats.expon(scale=1.5).rvs(4096, random_state=1), False, ">= 0.7, 4,096 draws worth "),
        (0.01 * stats.expon.rvs(size=4096, random_state=1), True, "4,096 draws worth 4,09"),
    ],
)
def test_the_verdict_on_fresh_draws(log_ratio, usable, words):
    """Exponential log ratios of scale k are Pareto weights of shape k."""
    fresh = FreshDraws.from_log_ratios(log_ratio)
    assert fresh.usable is usable and words in fresh.verdict


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hyperparameters": ["nope"]}, r"must be free variables of the model, got \['nope'\]"),
        ({"hyperparameters": ["beta", "sigma"]}, "leave at least one"),
        ({"start": {"beta": [np.nan, 0.0]}}, "start must be finite"),
    ],
)
def test_bad_constructor_input_is_refused(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        VectorisedApproximation(DiagonalGroup, model=model, **arguments)


def test_other_bad_input_is_refused(model, approx):
    with pytest.raises(ValueError, match="draws must be an integer >= 1, got 0"):
        approx.sample(0)
    with pytest.raises(ValueError, match=r"theta must have shape \(N, 3\), got \(2, 2\)"):
        approx.log_q(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="does not take \\['obj_optimizer'\\]"):
        AlgorithmVI(Halving(), model=model).fit(1, obj_optimizer=pm.adam())
    with pytest.raises(TypeError, match=r"fit takes no calbacks=: did you mean callbacks="):
        AlgorithmVI(Halving(), model=model).fit(1, calbacks=[])
    with pytest.raises(TypeError, match=r"fit takes no draws=: give them to approx.sample"):
        AlgorithmVI(Halving(), model=model).fit(1, draws=100)
    with pytest.raises(TypeError, match="progressbar must be True or False, got 'no'"):
        AlgorithmVI(Halving(), model=model).fit(1, progressbar="no")
    with pytest.raises(ValueError, match="n must be an integer >= 0, got -1"):
        AlgorithmVI(Halving(), model=model).fit(-1)
    with pytest.raises(TypeError, match="call fit before refine"):
        AlgorithmVI(Halving(), model=model).refine(1)
    with pm.Model() as discrete:
        pm.Poisson("k", 2)
    with pytest.raises(ValueError, match="families need continuous parameters"):
        VectorisedApproximation(DiagonalGroup, model=discrete)
    with pm.Model() as empty:
        pm.Normal("y", 0, 1, observed=0.0)
    with pytest.raises((ValueError, TypeError), match="free"):
        VectorisedApproximation(DiagonalGroup, model=empty)
