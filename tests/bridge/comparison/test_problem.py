"""Which form of a posterior the methods of PyMC run on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import posteriordb_cases.case
from bridge.comparison.problem import CaseProblem, can_compile_stan
from bridge.errors import IncompleteReferenceError
from bridge.targets.pymc import pymc_target
from posteriordb_cases import Case, load_case
from posteriordb_cases.models import eight_schools_noncentered as noncentered
from posteriordb_cases.models import gp_pois_regr
from tests.tolerances import NUMERIC


def _case(model: str, database: Path) -> Case:
    """A case of a database that, as ../shared's, has no Stan programs of its own."""
    folder = database / "models" / "info"
    folder.mkdir(parents=True)
    (folder / f"{model}.info.json").write_text(json.dumps({"model_implementations": {}}))
    return Case(f"data-{model}", database, {"model_name": model})


@pytest.mark.parametrize(("model", "uses_port"), [("arK", True), ("hmm_example", False)])
def test_a_slow_port_gives_way_to_its_stan_program(model, uses_port, tmp_path) -> None:
    assert CaseProblem(_case(model, tmp_path)).uses_port is uses_port


def test_a_slow_port_is_used_where_there_is_no_stan_program(tmp_path, monkeypatch) -> None:
    case = _case("hmm_example", tmp_path)
    monkeypatch.setattr(posteriordb_cases.case, "_PROGRAMS", (tmp_path,))
    assert case.stan_code is None
    assert CaseProblem(case).uses_port


def test_a_slow_port_is_used_where_nothing_compiles_stan(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    can_compile_stan.cache_clear()
    try:
        assert CaseProblem(_case("hmm_example", tmp_path)).uses_port
    finally:
        can_compile_stan.cache_clear()


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (noncentered, {"J": 3, "y": np.array([1.0, 2, 3]), "sigma": np.array([1.0, 2, 1])}),
        (gp_pois_regr, {"N": 4, "x": np.array([0.0, 3, 7, 20]), "k": np.array([1, 4, 2, 0])}),
    ],
)
def test_parameters_that_a_reference_leaves_out_are_recovered(model, data) -> None:
    target = pymc_target(model.model(data))
    theta = np.random.default_rng(1).normal(0.5, 0.5, (20, target.dimension))
    draws = target.constrain(theta)
    name = next(iter({"theta_trans", "f_tilde"} & draws.keys()))
    wanted = draws.pop(name)
    recovered = model.recover(draws, data)
    np.testing.assert_allclose(recovered.pop(name), wanted, rtol=NUMERIC, atol=NUMERIC)
    assert not recovered


def test_a_reference_without_a_parameter_is_named_as_the_reason() -> None:
    problem = CaseProblem(load_case("eight_schools-eight_schools_noncentered"))
    draws = np.ones((1, 4))
    problem.__dict__["reference"] = {"posterior": xr.Dataset({"mu": (("chain", "draw"), draws)})}
    with pytest.raises(IncompleteReferenceError, match=r"\['mu'\] and not theta_trans, tau"):
        problem.reference_theta(problem.target)
