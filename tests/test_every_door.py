"""Every door of the project once, on small models: what continuous integration runs on PyMC 6 too.

That each answers, not how well: what a door gives is judged by the tests of what is behind it.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from bridge.__main__ import main
from tests.contracts import FAMILIES
from tests.tolerances import EXACT, monte_carlo

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pymc_ext", "stan_models", "bridge", "posteriordb_cases", "trusted_posteriors")
CASE = "two_successes-bernoulli_beta"
PROGRAM = """
data { int N; vector[N] y; }
parameters { real mu; }
model { mu ~ normal(0, 5); y ~ normal(mu, 1); }
"""
Y = np.array([1.2, -0.7, 3.1, 0.4])
PRECISION = len(Y) + 1 / 25  # of mu given Y
OPTIONAL = {"dask", "jax", "pymc_extras", "ray"}  # extras that need not be installed


def modules() -> list[str]:
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files)
    return sorted(name.removesuffix(".__init__") for name in names)


def test_every_module_is_imported() -> None:
    found = modules()
    assert len(found) > 200
    for name in found:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert error.name in OPTIONAL, f"{name}: {error}"


def test_every_public_name_is_there() -> None:
    for package in PACKAGES:
        module = importlib.import_module(package)
        assert all(hasattr(module, name) for name in module.__all__)


def normal_model() -> pm.Model:
    """Gaussian: each of our families of Gaussians has the posterior itself."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        pm.Normal("y", mu, 1, observed=Y)
    return model


def logistic_model() -> pm.Model:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 2))
    y = (rng.random(40) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))).astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


@pytest.mark.parametrize("name", list(FAMILIES))
def test_pm_fit_takes_the_family(name: str) -> None:
    with logistic_model() as model:
        inference = FAMILIES[name].make(random_seed=1)
        approx = pm.fit(100, method=inference, progressbar=False)
    theta, lp, lq = approx.draws_with_logs(50, random_seed=1)
    np.testing.assert_allclose(lp, bridge.pymc_target(model).log_density(theta), rtol=EXACT)
    assert np.all(np.isfinite(lq)) and np.isfinite(approx.result.elbo)
    assert approx.sample(20, random_seed=1).posterior["beta"].shape == (1, 20, 2)


def assert_right(advice) -> None:
    assert advice.method == "laplace"  # exact here
    draws = advice.idata.posterior["mu"].values.ravel()
    error = draws.mean() - Y.sum() / PRECISION
    assert abs(error) < monte_carlo(1 / np.sqrt(PRECISION * len(draws)))


def test_bridge_fits_a_pymc_model() -> None:
    with normal_model():
        advice = bridge.fit(methods=["laplace", "mixed-eig"], random_seed=1, progressbar=False)
    assert_right(advice)


@pytest.mark.stan
def test_bridge_fits_a_stan_program_and_makes_a_model_of_it() -> None:
    data = {"N": len(Y), "y": Y}
    advice = bridge.fit(PROGRAM, data, methods="laplace", random_seed=1, progressbar=False)
    assert_right(advice)
    with bridge.stan_model(PROGRAM, data):
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    np.testing.assert_allclose(approx.mean.eval(), Y.sum() / PRECISION, rtol=1e-6)


@pytest.mark.stan
def test_bridge_compares_on_the_pymc_model_and_on_the_stan_program(tmp_path) -> None:
    methods = ["laplace", "pymc-advi", "stan-laplace"]
    table = bridge.compare(CASE, methods, seeds=1, out=tmp_path, draws=2000)
    assert sorted(table["method"]) == methods
    assert table["khat"].notna().all()


@pytest.mark.stan
def test_the_command_fits_a_stan_program(tmp_path) -> None:
    program, data, out = (tmp_path / name for name in ("normal.stan", "data.json", "draws.nc"))
    program.write_text(PROGRAM)
    data.write_text(json.dumps({"N": len(Y), "y": Y.tolist()}))
    arguments = [str(program), str(data), "--methods", "laplace", "--out", str(out)]
    run = subprocess.run(
        [sys.executable, "-m", "bridge", "fit", *arguments],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "INFO" not in run.stderr  # of cmdstanpy, of PyTensor
    assert "trying laplace" in run.stderr and "trying" not in run.stdout
    assert "taken: laplace" in run.stdout and out.exists()


@pytest.mark.stan
def test_the_command_compares_on_both(tmp_path, capsys) -> None:
    out = ["--out", str(tmp_path), "--seeds", "1", "--draws", "2000", "--jobs", "1"]
    assert main(["compare", CASE, "--methods", "laplace", "stan-laplace", *out]) == 0
    assert (tmp_path / "table.csv").exists()
    assert "failed" not in capsys.readouterr().out
    assert main(["list"]) == 0
    assert CASE in capsys.readouterr().out
