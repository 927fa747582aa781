"""Every method in the table on cases with known answers, through real Stan and PyMC."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

import bridge
import pymc_ext as px
from bridge.comparison.judge import _importance, _judgement, judge
from bridge.comparison.problem import CaseProblem
from bridge.methods.gaussian import gaussian_mixture_log_q
from bridge.methods.options import described
from bridge.methods.problems import ModelProblem
from bridge.methods.table import METHODS, find_methods
from posteriordb_cases import load_case
from pymc_ext.variational.bernstein.algorithm import Bernstein
from tests.tolerances import EXACT, NUMERIC, monte_carlo

FAMILIES_ON_DENSITIES = ["laplace", "mixed-lr", "mixture"]
BERNOULLI = "two_successes-bernoulli_beta"
STAN = [name for name, method in METHODS.items() if method.representation == "stan"]
BEST_GAUSSIAN_KL = 0.02216  # min over N(m, v) of KL(N ‖ logit of Be(3.1, 1.1)), by quadrature
DRAWS = 4000


@pytest.fixture(scope="module")
def problem() -> CaseProblem:
    return CaseProblem(load_case(BERNOULLI))


@pytest.mark.stan
@pytest.mark.parametrize("name", STAN)
def test_stan_methods_report_their_densities(problem: CaseProblem, name: str) -> None:
    fit = METHODS[name].run(problem, DRAWS, 1)
    flat = fit.theta.reshape(-1, 1)
    np.testing.assert_allclose(fit.target.log_density(flat), fit.lp.ravel(), rtol=EXACT)
    if name == "stan-nuts":
        assert fit.lq is None and fit.lp.shape[0] == 4
    else:
        assert fit.lp.shape == (1, DRAWS)
        np.testing.assert_allclose(fit.log_q(flat), fit.lq.ravel(), rtol=EXACT)
        record = judge(problem, fit, repetitions=4)
        assert record["kl_qp"] > BEST_GAUSSIAN_KL - monte_carlo(record["kl_qp_se"])
    if "advi" in name:
        assert len(fit.losses) == len(fit.loss_iterations) > 1
        elbo = float(np.mean(fit.lp - fit.lq))  # Stan's trace is a mean of 100 draws
        assert fit.losses[-1] == pytest.approx(-elbo, abs=monte_carlo(0.1))


@pytest.mark.stan
def test_nuts_agrees_with_the_exact_moments(problem: CaseProblem) -> None:
    fit = METHODS["stan-nuts"].run(problem, 8000, 1)
    record = judge(problem, fit, repetitions=1)
    se = np.hypot(1 / np.sqrt(record["ess"]), 1 / np.sqrt(10_000))
    assert record["mean_error"] < monte_carlo(se)
    assert record["rhat"] < 1.01


def test_gaussian_variational_inference_reaches_the_best_gaussian(problem: CaseProblem) -> None:
    fit = METHODS["mixed-eig"].run(problem, 40_000, 1)
    record = judge(problem, fit, repetitions=4)
    assert record["kl_qp"] == pytest.approx(BEST_GAUSSIAN_KL, abs=monte_carlo(record["kl_qp_se"]))


def test_pymc_advi_is_near_the_best_gaussian(problem: CaseProblem) -> None:
    fit = METHODS["pymc-advi"].run(problem, DRAWS, 1)
    record = judge(problem, fit, repetitions=4)
    slack = monte_carlo(record["kl_qp_se"])
    assert BEST_GAUSSIAN_KL - slack < record["kl_qp"] < BEST_GAUSSIAN_KL + slack + 0.02


def test_a_record_holds_every_option_of_a_run(problem: CaseProblem) -> None:
    record = judge(problem, METHODS["laplace"].run(problem, DRAWS, 1), repetitions=1)
    search = {"type": "ModeSearch", "starts": None, "indefinite": "refuse", "spread": 2.0}
    assert json.loads(record["options"]) == {
        "n": 10_000,
        "algorithm": {"type": "Laplace", "search": search},
    }
    options = described(METHODS["bernstein-laplace"].run.algorithm())
    assert options["base"] == "laplace" and options["step"]["draws"] == 10
    assert options["shape"]["order"] == 50 and options["policy"]["good_khat"] == 0.3
    assert options["polish"]["defend"] is True and options["polish"]["weighted"] is None
    assert options["shape"]["latent"] == {"type": "Normal"}
    json.dumps(options)  # what a record can hold


def test_options_that_differ_are_described_differently() -> None:
    made = [
        Bernstein(px.FlowShape(latent=latent, tails="linear"), base=base)
        for latent in ("normal", "logistic", px.StudentT(df=3))
        for base in ("identity", ([0.0], [[1.0]]), ([0.0], [[2.0]]))
    ]
    texts = {json.dumps(described(algorithm)) for algorithm in made}
    assert len(texts) == len(made)


RECORDED = [*FAMILIES_ON_DENSITIES, "pymc-advi"]


@pytest.mark.parametrize(
    "name", [*RECORDED, *(pytest.param(n, marks=pytest.mark.stan) for n in (*STAN, "warm-nuts"))]
)
def test_every_method_records_its_options_and_its_effort(problem: CaseProblem, name: str) -> None:
    begin = time.perf_counter()
    record = judge(problem, METHODS[name].run(problem, DRAWS, 1), repetitions=1)
    wall = time.perf_counter() - begin
    options = json.loads(record["options"])
    assert options and "seed" not in json.dumps(options)
    assert 0 < record["seconds"] < wall and 0 <= record["compile_seconds"] < wall
    if not name.startswith("stan"):
        assert options.get("n", 1) > 0
        assert record["density_evaluations"] >= record["gradient_evaluations"] > 0


@pytest.mark.parametrize("name", ["viper-full", "matching"])
def test_families_of_logistic_models_record_their_options(name: str) -> None:
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        y = rng.integers(2, size=40)
        pm.Bernoulli("y", logit_p=rng.normal(size=(40, 2)) @ beta, observed=y)
    fit = METHODS[name].run(ModelProblem(model), DRAWS, 1)
    options = json.loads(fit.info["options"])
    given = {"covariance": "full"} if name == "viper-full" else {"alpha": "elbo"}
    assert options["algorithm"].items() >= given.items() and options["n"] > 0
    assert len(options["algorithm"]) > 3
    assert fit.compile_seconds > 0 and fit.density_evaluations is not None


def test_compilation_is_not_the_fits_time() -> None:
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    begin = time.perf_counter()
    fit = METHODS["laplace"].run(ModelProblem(model), DRAWS, 1)
    wall = time.perf_counter() - begin
    assert fit.compile_seconds > 0.01
    assert fit.seconds + fit.compile_seconds < wall


def test_methods_run_with_the_families_own_defaults() -> None:
    ours = METHODS["bernstein"].run.algorithm()
    assert ours == px.BernsteinVI(model=one_normal()).algorithm
    mixed = METHODS["mixed-eig"].run.algorithm()
    assert mixed == px.MixedVI("eig", model=one_normal()).algorithm


def one_normal() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("x")
    return model


def narrow_with_proposal(problem, draws: int, seed: int) -> bridge.Fit:
    """q half as wide as the posterior N(0, 1), beside a proposal a little wider than it."""
    target, rng = problem.target, np.random.default_rng(seed)

    def drawn(sd: float) -> bridge.WeightedDraws:
        theta = sd * rng.standard_normal((1, draws, 1))
        return bridge.WeightedDraws(
            theta, target.log_density(theta[0])[None], norm.logpdf(theta[..., 0], scale=sd)
        )

    q, proposal = drawn(0.5), drawn(1.2)
    log_q = lambda theta: norm.logpdf(theta[:, 0], scale=0.5)  # noqa: E731
    return bridge.Fit(target, q.theta, q.lp, 0.0, q.lq, log_q, proposal)


def test_weights_are_the_proposals_and_all_else_is_qs() -> None:
    fit = narrow_with_proposal(ModelProblem(one_normal()), 20_000, 1)
    judgement = _judgement(fit, 4)
    record, weights = _importance(fit, judgement, []), judgement.of_all.weights
    assert record["khat_of"] == "proposal" and record["khat"] < 0.1
    assert record["elbo"] == pytest.approx(np.mean(fit.lp - fit.lq), rel=EXACT)  # q's
    assert record["elbo"] < -0.2
    assert abs(record["log_marginal_is"]) < monte_carlo(record["log_marginal_is_se"])
    assert weights.size == 20_000
    without = replace(fit, proposal=None)
    alone = _importance(without, _judgement(without, 4), [])
    assert alone["khat_of"] == "q" and alone["khat"] > 0.5
    assert alone["elbo"] == record["elbo"]


def test_a_record_has_qs_moments_and_the_proposals_weighted_ones(problem: CaseProblem) -> None:
    fit = METHODS["mixed-eig"].run(problem, DRAWS, 1)
    centre = fit.theta.mean(axis=1, keepdims=True)
    theta = centre + (fit.theta - centre) / 2
    narrow = replace(
        fit,
        theta=theta,
        lp=fit.target.log_density(theta[0])[None],
        lq=fit.lq + np.log(2),
        log_q=None,
        proposal=bridge.WeightedDraws(fit.theta, fit.lp, fit.lq),
    )
    ours, theirs = (judge(problem, f, repetitions=4) for f in (narrow, fit))
    for column in ("khat", "ess", "log_marginal_is", "mean_error_psis", "sd_error_psis"):
        assert ours[column] == pytest.approx(theirs[column], rel=EXACT)
    assert ours["sd_error"] > theirs["sd_error"] + 0.3
    assert ours["kl_qp"] > theirs["kl_qp"] and ours["elbo"] < theirs["elbo"]


def test_the_proposal_is_what_is_judged_and_resampled() -> None:
    method = bridge.Method("narrow", "half as wide", "pymc", narrow_with_proposal)
    advice = bridge.fit(one_normal(), methods=method, random_seed=1)
    assert advice.method == "narrow" and advice.attempts[0].khat < 0.1
    assert advice.attempts[0].elbo < -0.2
    x = advice.idata["posterior"]["x"].values
    assert x.std() == pytest.approx(1, abs=monte_carlo(1 / np.sqrt(2 * x.size)) * 1.5)


def test_mixture_density_integrates_to_one() -> None:
    weight, mean, sd = np.array([0.3, 0.7]), np.array([[-1.0], [2.0]]), np.array([0.5, 1.5])
    log_q = gaussian_mixture_log_q(weight, mean, (sd**2)[:, None, None])
    x = np.linspace(-15, 20, 20_001)
    assert np.trapezoid(np.exp(log_q(x[:, None])), x) == pytest.approx(1, rel=NUMERIC)


def test_the_order_of_names_is_kept() -> None:
    assert [m.name for m in find_methods(["pymc-advi", "stan-nuts"])] == ["pymc-advi", "stan-nuts"]
