"""The method ``warm-nuts``: on Stan programs and PyMC models, exact, counted, judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from bridge.comparison.judge import judge
from bridge.comparison.problem import CaseProblem
from bridge.comparison.records import plain
from bridge.methods.problems import ModelProblem, StanProblem
from bridge.methods.table import find_methods
from bridge.methods.warm_nuts import WarmNUTS
from posteriordb_cases import load_case
from pymc_ext.density import CountedDensity
from pymc_ext.sampling import attempts
from pymc_ext.sampling.options import Sampling
from pymc_ext.variational.core.algorithm import Algorithm, Fitted
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.posteriors import Gaussian, GaussianMixture
from stan_models import StanProgram
from tests.bridge.conftest import GAUSSIAN
from tests.needed import needs
from tests.tolerances import monte_carlo

COV = np.array([[2.0, 0.9], [0.9, 1.0]])
MEAN = np.array([1.0, -2.0])
(METHOD,) = find_methods("warm-nuts")


@pytest.fixture(scope="module")
def stan_problem() -> StanProblem:
    data = {"D": 2, "mean": MEAN, "cov": COV, "log_z": 0.0, "power": 1.0}
    return StanProblem(StanProgram("tests/stan_models/programs/gaussian.stan"), data)


def model_problem() -> ModelProblem:
    with pm.Model() as model:
        pm.MvNormal("x", MEAN, cov=COV)
    return ModelProblem(model)


def require_exact(theta: np.ndarray) -> None:
    """Moments within four standard errors for the 400 effective draws that were asked for."""
    z = np.linalg.solve(np.linalg.cholesky(COV), (theta.reshape(-1, 2) - MEAN).T)
    assert np.abs(z.mean(axis=1)).max() < monte_carlo(1 / np.sqrt(400))
    assert np.abs((z**2).mean(axis=1) - 1).max() < monte_carlo(np.sqrt(2 / 400))


@pytest.mark.stan
@pytest.mark.parametrize(("most", "engine", "chains"), [(75_000, "hmc", 8), (0, "stan-nuts", 4)])
def test_on_a_stan_program_stans_own_sampler_comes_after_hmc(
    stan_problem: StanProblem, most: int, engine: str, chains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MOST_IN_STEP", most)
    fit = METHOD.run(stan_problem, 0, 1)
    require_exact(fit.theta)
    info = fit.info
    assert str(info["engine"]).startswith(f"{engine} on Stan 2.")
    assert info["trusted"] and info["verdict"] == "trusted" and info["in_map"]
    assert fit.lq is None and fit.lp.shape == fit.theta.shape[:2]
    np.testing.assert_allclose(
        fit.lp[0], stan_problem.density.log_density(fit.theta[0]), rtol=1e-12
    )
    made = int(info["draws_per_chain"]) * chains * float(info["mean_steps"])
    spent = int(info["approximation_gradients"]) + int(info["warm_up_gradients"]) + made
    assert fit.gradient_evaluations == pytest.approx(spent)
    again = METHOD.run(stan_problem, 0, 1)
    np.testing.assert_array_equal(fit.theta, again.theta)


def test_on_a_pymc_model_nutpie_comes_after_hmc(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("nutpie")
    fit = WarmNUTS(Laplace())(model_problem(), 0, 1)
    require_exact(fit.theta)
    assert str(fit.info["engine"]).startswith("hmc on PyMC")
    monkeypatch.setattr(attempts, "MOST_IN_STEP", 0)
    fit = WarmNUTS(Laplace())(model_problem(), 0, 1)
    require_exact(fit.theta)
    assert str(fit.info["engine"]).startswith("nutpie on PyMC")
    assert fit.info["trusted"] and fit.info["approximation"] == "laplace"


def test_without_nutpie_pymcs_own_sampler_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("bridge.methods.warm_nuts", "pymc_ext.sampling.installed"):
        monkeypatch.setattr(f"{room}.find_spec", lambda name: None)
    monkeypatch.setattr(attempts, "MOST_IN_STEP", 0)
    fit = WarmNUTS(Laplace())(model_problem(), 0, 1)
    require_exact(fit.theta)
    assert str(fit.info["engine"]).startswith("pymc on PyMC")
    assert fit.info["trusted"] and fit.info["in_map"]


@dataclass(frozen=True)
class Unsuited(Algorithm):
    """An approximation that fails, or that gives no coordinates."""

    fails: bool
    name = "unsuited"

    def run(self, density: CountedDensity, start: np.ndarray, **_: object) -> Fitted:
        density.log_density_gradient(start[None])
        if self.fails:
            raise ValueError("no mode")
        found = Laplace().run(density, start, **_)  # type: ignore[arg-type]
        part = Gaussian(found.q.mean, found.q.root)
        return Fitted(GaussianMixture(np.zeros(1), (part,)), found.result)


@pytest.mark.stan
@pytest.mark.parametrize(
    ("fails", "words"),
    [(True, "unsuited failed: no mode"), (False, "its q has no pullback")],
)
def test_without_coordinates_the_sampler_adapts_by_itself(
    stan_problem: StanProblem, fails: bool, words: str
) -> None:
    fit = WarmNUTS(Unsuited(fails))(stan_problem, 0, 1)
    require_exact(fit.theta)
    assert not fit.info["in_map"] and words in str(fit.info["approximation"])
    assert int(fit.info["approximation_gradients"]) >= 1


@pytest.mark.stan
def test_a_run_that_is_short_is_not_trusted(stan_problem: StanProblem) -> None:
    fit = WarmNUTS(Laplace(), Sampling(ess=4_900, budget=5_000))(stan_problem, 0, 1)
    assert not fit.info["trusted"] and "budget" in str(fit.info["verdict"])


@pytest.mark.stan
def test_it_is_judged_against_reference_draws(gaussian_database: Path) -> None:
    problem = CaseProblem(load_case(GAUSSIAN, database=str(gaussian_database)))
    fit = METHOD.run(problem, 0, 1)
    record = judge(problem, fit, repetitions=5)
    plain(record)
    assert record["mean_error"] < monte_carlo(1 / np.sqrt(400))
    assert record["gradient_evaluations"] == fit.gradient_evaluations
    assert record["trusted"] and record["ess"] > 380
