"""The methods ``nutpie`` and ``pymc-nuts``: others' samplers, exact, counted, judged as chains."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from bridge.comparison.compare import compare
from bridge.comparison.judge import judge
from bridge.comparison.problem import CaseProblem
from bridge.comparison.records import plain
from bridge.errors import NoModelError
from bridge.methods.method import Fit
from bridge.methods.problems import DensityProblem, ModelProblem
from bridge.methods.samplers import NutpieDefault, PyMCNUTS
from bridge.methods.table import METHODS
from posteriordb_cases import load_case
from tests.bridge.conftest import GAUSSIAN, SCALED_GAUSSIAN
from tests.needed import needs
from tests.tolerances import EXACT, monte_carlo

NAMES = ["nutpie", "pymc-nuts"]


def model() -> pm.Model:
    """x of N(1, 2²) and τ = e^u with u standard normal: a bounded variable beside a free one."""
    with pm.Model() as made:
        pm.LogNormal("tau")
        pm.Normal("x", 1, 2, shape=2)
    return made


def run(name: str, problem: ModelProblem | CaseProblem | DensityProblem) -> Fit:
    if name == "nutpie":
        needs("nutpie")
    return METHODS[name].run(problem, 0, 1)


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_of_the_posterior_and_are_worth_what_is_counted(name: str) -> None:
    fit = run(name, ModelProblem(model()))
    assert fit.theta.shape == (4, 1000, 3) and fit.lq is None
    flat = fit.theta.reshape(-1, 3)
    np.testing.assert_allclose(fit.lp.ravel(), fit.target.log_density(flat), rtol=EXACT)
    z = (flat - [0, 1, 1]) / [1, 2, 2]  # log τ before x, as in the model
    assert np.abs(z.mean(axis=0)).max() < monte_carlo(1 / np.sqrt(400))
    assert np.abs((z**2).mean(axis=0) - 1).max() < monte_carlo(np.sqrt(2 / 400))
    assert fit.statistics["diverging"].shape == fit.statistics["energy"].shape == (4, 1000)
    assert 0 < fit.info["warm_up_gradients"] < fit.gradient_evaluations
    assert fit.gradient_evaluations - fit.info["warm_up_gradients"] >= 4000
    np.testing.assert_array_equal(run(name, ModelProblem(model())).theta, fit.theta)


def test_every_gradient_of_nutpie_is_counted() -> None:
    needs("nutpie")
    rows = []

    def score(x: np.ndarray) -> np.ndarray:
        rows.append(len(x))
        return -x

    density = px.CallableDensity(lambda x: -0.5 * (x**2).sum(axis=1), score, dimension=2)
    problem = DensityProblem(density)
    _ = problem.start  # which tries the density
    rows.clear()
    fit = NutpieDefault(draws=50)(problem, 0, 1)
    assert fit.theta.shape == (4, 50, 2)
    assert sum(rows) == fit.gradient_evaluations


def test_steps_of_pymcs_warm_up_are_counted() -> None:
    made = model()
    fit = PyMCNUTS(chains=2, tune=300, draws=100)(ModelProblem(made), 0, 3)
    with made:
        trace = pm.sample(
            100, tune=300, chains=2, cores=1, random_seed=3, nuts_sampler="pymc",
            discard_tuned_samples=False, compute_convergence_checks=False,
            progressbar=False, quiet=True,
        )  # fmt: skip
    steps = [int(trace[name]["n_steps"].sum()) for name in ("warmup_sample_stats", "sample_stats")]
    assert fit.gradient_evaluations == sum(steps) and fit.info["warm_up_gradients"] == steps[0]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_judged_as_chains(gaussian_database: Path, name: str) -> None:
    problem = CaseProblem(load_case(SCALED_GAUSSIAN, database=str(gaussian_database)))
    fit = run(name, problem)
    record = judge(problem, fit, repetitions=5)
    plain(record)
    assert record["mean_error"] < monte_carlo(1 / np.sqrt(record["ess"]))
    assert record["trusted"] and record["divergences"] == 0 and record["rhat"] < 1.01
    assert "khat" not in record and '"draws": 1000' in str(record["options"])


def test_without_a_model_pymcs_sampler_says_so() -> None:
    density = px.CallableDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=2)
    with pytest.raises(NoModelError, match="a density has no PyMC model"):
        run("pymc-nuts", DensityProblem(density))


def test_without_nutpie_the_record_says_how_to_get_it(
    gaussian_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nutpie", None)
    frame = compare(GAUSSIAN, ["nutpie"], 1, out=tmp_path, database=gaussian_database, draws=2000)
    assert frame["status"][0] == "failed"
    assert "needs nutpie: pip install 'trusted-posteriors[nutpie]'" in frame["reason"][0]


def test_they_run_only_where_they_are_asked_for() -> None:
    for name in NAMES:
        assert METHODS[name].sampler and not METHODS[name].default and not METHODS[name].general
