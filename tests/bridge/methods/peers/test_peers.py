"""Other packages' approximations as methods: draws, log q, effort; and where a package is missing.

What a method gives is tested where its package is installed: `pip install -e .[peers]`.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_ext as px
import trusted_posteriors as tp
from bridge.__main__ import main
from bridge.comparison.compare import compare
from bridge.comparison.judge import judge
from bridge.comparison.problem import CaseProblem
from bridge.comparison.records import plain
from bridge.errors import NoModelError
from bridge.measures.scores import khats
from bridge.methods.method import Fit
from bridge.methods.peers.shared import fit_of, in_jax
from bridge.methods.problems import DensityProblem, ModelProblem
from bridge.methods.table import METHODS
from bridge.verdict import of_chains
from posteriordb_cases import load_case
from pymc_ext.density import DensityError
from tests.bridge.conftest import GAUSSIAN
from tests.needed import needs
from tests.tolerances import EXACT, NUMERIC, monte_carlo

MODULES = {"pymcx": "pymc_extras", "blackjax": "blackjax", "numpyro": "numpyro"}
WITHOUT_Q = {"blackjax-svgd": "blackjax", "nutpie-flow": "flowjax"}  # not even of their draws
PEERS = [
    name for name, method in METHODS.items() if name.split("-")[0] in MODULES and not method.sampler
]
OF_EACH = ["pymcx-dadvi", "blackjax-meanfield", "numpyro-normal"]
UNCOUNTED = {"pymcx-pathfinder", "blackjax-pathfinder"}
WITHOUT_LOG_Q = UNCOUNTED | {"numpyro-bnaf", "numpyro-dais"}  # at points that are not its draws
DRAWS = 4000


def module(name: str) -> str:
    return WITHOUT_Q.get(name) or MODULES[name.split("-")[0]]


def require(package: str) -> None:
    needs(package)


def model() -> pm.Model:
    """Unconstrained a Gaussian, with log Z = 0: log τ of N(0, 1), x of N(1, 2²) twice."""
    with pm.Model() as made:
        pm.LogNormal("tau")
        pm.Normal("x", 1, 2, shape=2)
    return made


def run(name: str, problem: ModelProblem | CaseProblem | DensityProblem) -> Fit:
    require(module(name))
    return METHODS[name].run(problem, DRAWS, 1)


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_gives_draws_with_log_q(name: str) -> None:
    fit = run(name, ModelProblem(model()))
    theta, lq = fit.theta[0], fit.lq[0]
    assert theta.shape == (DRAWS, 3) and fit.lp.shape == (1, DRAWS)
    np.testing.assert_allclose(fit.lp[0], fit.target.log_density(theta), rtol=EXACT)
    laplace = name == "pymcx-laplace"
    centre = [-1 if laplace else 0, 1, 1]  # its mode is without the Jacobian
    z = (theta - centre) / [1, 2, 2]
    # Adam's last steps leave a noise of some hundredths of an sd, 30 fixed draws of up to half;
    # paths that end early and BNAF, far from converged in 20,000 steps, are good to some tenths;
    # BFGS, which starts at the mean of x, leaves the sd there at 1
    assert np.abs(z.mean(axis=0)).max() < 0.6
    assert 0.45 < z.std(axis=0).min() and z.std(axis=0).max() < 1.6
    ratios = fit.lp - fit.lq
    log_z = 0
    slack = monte_carlo(ratios.std() / np.sqrt(DRAWS)) + NUMERIC
    assert log_z - (1.5 if laplace else 0.6) < ratios.mean() <= log_z + slack
    if not laplace:  # weights of a q half as wide have no variance
        weights = np.exp(ratios)  # proper ones, whatever lq is the density of
        slack = monte_carlo(weights.std() / np.sqrt(DRAWS)) + NUMERIC
        assert weights.mean() == pytest.approx(np.exp(log_z), abs=slack)
    assert (fit.log_q is None) == (name in WITHOUT_LOG_Q)
    if fit.log_q is not None:
        np.testing.assert_allclose(fit.log_q(theta), lq, rtol=NUMERIC, atol=NUMERIC)
    assert (fit.gradient_evaluations is None) == (name in UNCOUNTED)
    assert fit.seconds > 0 and fit.info["engine"] and fit.info["options"]
    again = run(name, ModelProblem(model()))
    np.testing.assert_allclose(fit.theta, again.theta, rtol=EXACT)


def test_particles_are_no_draws_to_be_trusted() -> None:
    problem = CaseProblem(load_case("two_successes-bernoulli_beta"))
    require("blackjax")
    method = METHODS["blackjax-svgd"]
    fit = method.run(problem, DRAWS, 1)
    assert fit.theta.shape == (1, 100, 1) and fit.lq is None
    assert fit.gradient_evaluations == 200_000
    np.testing.assert_allclose(fit.lp[0], fit.target.log_density(fit.theta[0]), rtol=EXACT)
    np.testing.assert_allclose(method.run(problem, 10, 1).theta, fit.theta, rtol=EXACT)
    record = judge(problem, fit, repetitions=5)
    plain(record)
    assert not record["trusted"] and "nothing tells what they miss" in record["verdict"]
    assert record["mean_error"] < 0.05 and record["sd_ratio"] == pytest.approx(1, abs=0.05)
    assert record["ess"] is None and record["ess_per_gradient"] is None
    with pytest.raises(ValueError, match="methods must name approximations"):
        tp.fit(model(), methods=["blackjax-svgd"])


def test_particles_are_no_approximation_with_a_khat() -> None:
    """Nor is one that failed counted for what it would have been."""
    rows = [
        {"case_name": "a", "method": "laplace", "status": "ok", "khat": 0.3, "khat_exact": False},
        {"case_name": "a", "method": "blackjax-svgd", "status": "ok", "khat": None},
        {"case_name": "a", "method": "batch-match", "status": "failed", "khat": None},
    ]
    assert list(khats(pd.DataFrame(rows))) == ["laplace", "batch-match"]


def test_particles_start_and_end_where_the_density_is() -> None:
    require("blackjax")
    run = METHODS["blackjax-svgd"].run
    at_the_start, few = replace(run, steps=0), replace(run, steps=20)

    def half(x):  # N(2, 1) where x > 0
        import jax.numpy as jnp

        return jnp.where(x[0] > 0, -0.5 * (x[0] - 2) ** 2, -jnp.inf)

    problem = DensityProblem(px.CallableDensity(half, dimension=1, jax=True))
    assert (at_the_start(problem, 10, 1).theta > 0).all()
    with pytest.raises(RuntimeError, match="of 100 particles of blackjax: they left the support"):
        few(problem, 10, 1)  # they push one another
    nowhere = px.CallableDensity(lambda x: half(x - 3.0), dimension=1, jax=True)
    with pytest.raises(DensityError, match="finite at 0 of"):
        few(DensityProblem(nowhere), 10, 1)


def test_chains_in_a_flow_are_judged_as_chains() -> None:
    require("flowjax")
    problem = ModelProblem(model())
    short = replace(METHODS["nutpie-flow"].run, chains=2, tune=300, draws=400)
    fit = short(problem, DRAWS, 1)
    assert fit.theta.shape == (2, 400, 3) and fit.lq is None
    np.testing.assert_allclose(
        fit.lp.ravel(), fit.target.log_density(fit.theta.reshape(-1, 3)), rtol=EXACT
    )
    z = (fit.theta.reshape(-1, 3) - [0, 1, 1]) / [1, 2, 2]
    assert np.abs(z.mean(axis=0)).max() < monte_carlo(1 / np.sqrt(200))  # of 800, not independent
    assert 0.8 < z.std(axis=0).min() and z.std(axis=0).max() < 1.25
    assert fit.gradient_evaluations > 2 * 700 and set(fit.statistics) == {"diverging", "energy"}
    trusted, why = of_chains(fit, ess=1e6)
    assert not trusted and "effective draws" in why


def test_chains_that_were_cut_short_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    require("flowjax")
    nutpie = importlib.import_module("nutpie")
    made = {"posterior": {"theta": np.full((2, 10, 3), np.nan)}}  # as nutpie pads them
    monkeypatch.setattr(nutpie, "sample", lambda *arguments, **options: made)
    run = replace(METHODS["nutpie-flow"].run, chains=2, draws=10)
    with pytest.raises(KeyboardInterrupt, match="before nutpie had made all draws"):
        run(ModelProblem(model()), DRAWS, 1)


@pytest.mark.parametrize("name", ["pymcx-pathfinder", "blackjax-pathfinder"])
def test_every_batch_that_is_judged_has_draws_of_all_paths(name: str) -> None:
    problem = CaseProblem(load_case("eight_schools-eight_schools_noncentered"))
    fit = run(name, problem)
    means = fit.lq[0].reshape(5, -1).mean(axis=1)  # paths differ in their entropies by far more
    assert np.ptp(means) < monte_carlo(fit.lq.std() / np.sqrt(DRAWS / 5), z=6)


@pytest.mark.parametrize("name", OF_EACH)
def test_peers_are_judged_as_other_approximations(gaussian_database: Path, name: str) -> None:
    problem = CaseProblem(load_case(GAUSSIAN, database=str(gaussian_database)))
    record = judge(problem, run(name, problem), repetitions=5)
    plain(record)
    assert record["khat"] > 0.7 and not record["trusted"]  # mean-field, of a narrow ridge
    assert record["kl_qp"] > 1 and record["sd_ratio"] < 0.1


def test_a_covariance_that_is_none_is_a_sentence() -> None:
    problem = CaseProblem(load_case("eight_schools-eight_schools_noncentered"))
    with pytest.raises(
        np.linalg.LinAlgError, match=r"not positive definite .* has not come to a m"
    ):
        run("pymcx-laplace", problem)  # without the Jacobian the density is flat in log τ


def test_dais_counts_the_gradients_of_its_transitions() -> None:
    require("numpyro")
    short = replace(METHODS["numpyro-dais"].run, steps=500)
    fit = short(ModelProblem(model()), 100, 1)
    assert fit.gradient_evaluations == 500 * (4 + 1) + 100 * 4


@pytest.mark.parametrize("name", ["blackjax-fullrank", "numpyro-mvn"])
def test_densities_in_jax_are_fitted_too(name: str) -> None:
    require(module(name))
    import jax.numpy as jnp

    density = px.CallableDensity(lambda x: -0.5 * jnp.sum((x - 3.0) ** 2), dimension=2, jax=True)
    fit = run(name, DensityProblem(density))
    assert np.abs(fit.theta.mean(axis=1) - 3).max() < 0.3


def test_a_density_without_jax_is_refused_in_a_sentence() -> None:
    needs("jax")
    density = px.CallableDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=2)
    with pytest.raises(NoModelError, match=r"no JAX function of the log density.*choose others"):
        in_jax(DensityProblem(density))


def test_a_peer_that_fails_is_a_record(gaussian_database: Path, tmp_path: Path) -> None:
    require("numpyro")
    frame = compare(
        "two_successes-bernoulli_beta", ["numpyro-iaf", "numpyro-normal"], 1,
        out=tmp_path, draws=2000,
    )  # fmt: skip
    assert list(frame["status"]) == ["failed", "ok"]  # the flow is not for one parameter
    assert "latent dim = 1" in frame["reason"][0]


@pytest.mark.parametrize("name", [*OF_EACH, *WITHOUT_Q])
def test_a_package_that_is_missing_is_named_in_the_record(
    gaussian_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for loaded in [m for m in sys.modules if m.split(".")[0] == module(name)]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module(name), None)
    frame = compare(GAUSSIAN, [name], 1, out=tmp_path, database=gaussian_database, draws=2000)
    assert frame["status"][0] == "failed"
    package = module(name).replace("_", "-")
    assert f"this method needs {package}, which cannot be imported" in frame["reason"][0]
    assert "pip install 'trusted-posteriors[peers]'" in frame["reason"][0]


def test_draws_that_are_not_finite_are_a_failure() -> None:
    target = ModelProblem(model()).target
    theta = np.zeros((10, 3))
    theta[3] = np.nan
    with pytest.raises(RuntimeError, match="1 of 10 draws of numpyro's q"):
        fit_of(
            target, theta, np.zeros(10), package="numpyro", seconds=0.0, compile_seconds=None,
            options={},
        )  # fmt: skip


def test_all_are_listed_with_what_they_need_and_run_only_if_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert len(PEERS) == 12
    for name in [*PEERS, *WITHOUT_Q]:
        method = METHODS[name]
        assert not method.default and not method.general
        assert method.sampler == (name in WITHOUT_Q)
        (line,) = [x for x in printed.splitlines() if f" {name} " in x]
        needed = module(name).replace("_", "-")
        assert f"needs {'nutpie and flowjax' if name == 'nutpie-flow' else needed}" in line
