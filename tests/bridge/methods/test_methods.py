"""Every method in the table on cases with known answers, through real Stan and PyMC."""

from __future__ import annotations

import json

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from bridge.comparison.judge import judge
from bridge.comparison.problem import CaseProblem
from bridge.methods.families import options_of
from bridge.methods.gaussian import gaussian_mixture_log_q
from bridge.methods.table import METHODS, find_methods
from posteriordb_cases import load_case
from tests.tolerances import EXACT, NUMERIC, monte_carlo

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
    options = json.loads(METHODS["laplace"].run(problem, DRAWS, 1).info["options"])
    assert options == {
        "n": 10_000,
        "search": {"starts": None, "indefinite": "refuse", "spread": 2.0},
    }
    options = options_of(METHODS["bernstein-laplace"].run.algorithm())
    assert options["base"] == "laplace" and options["step"]["draws"] == 10
    assert options["shape"]["order"] == 50 and options["policy"]["good_khat"] == 0.3
    assert options["polish"]["weighted"]["steps"] == 3000
    json.dumps(options)  # what a record can hold


def test_methods_run_with_the_families_own_defaults() -> None:
    ours = options_of(METHODS["bernstein"].run.algorithm())
    assert ours == options_of(px.BernsteinVI(model=one_normal()).algorithm)
    mixed = options_of(METHODS["mixed-eig"].run.algorithm())
    assert mixed == options_of(px.MixedVI("eig", model=one_normal()).algorithm)


def one_normal() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("x")
    return model


def test_mixture_density_integrates_to_one() -> None:
    weight, mean, sd = np.array([0.3, 0.7]), np.array([[-1.0], [2.0]]), np.array([0.5, 1.5])
    log_q = gaussian_mixture_log_q(weight, mean, (sd**2)[:, None, None])
    x = np.linspace(-15, 20, 20_001)
    assert np.trapezoid(np.exp(log_q(x[:, None])), x) == pytest.approx(1, rel=NUMERIC)


def test_the_order_of_names_is_kept() -> None:
    assert [m.name for m in find_methods(["pymc-advi", "stan-nuts"])] == ["pymc-advi", "stan-nuts"]
