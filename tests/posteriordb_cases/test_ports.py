"""PyMC ports against densities written apart from them, at random unconstrained points."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from posteriordb_cases import EMBEDDED, Case, NoPortError, list_cases, load_case, models
from tests.posteriordb_cases.densities import (
    LOG_JOINT,
    parameter_shapes,
    random_points,
    unconstrained_log_density,
)
from tests.tolerances import EXACT

CASES = list_cases(EMBEDDED)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return load_case(request.param, EMBEDDED)


def test_log_density_equals_scipy_with_constants_and_jacobian(case: Case) -> None:
    model = case.model()
    points = random_points(case, number=20, seed=1)
    value_names = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
    log_density = model.compile_logp()
    actual = [
        log_density({value_names[name]: values[i] for name, values in points.items()})
        for i in range(20)
    ]
    np.testing.assert_allclose(actual, unconstrained_log_density(case, points), rtol=EXACT)


def test_variables_have_the_names_and_shapes_of_the_case(case: Case) -> None:
    model = case.model()
    shapes = {v.name: v.shape.eval() for v in [*model.free_RVs, *model.deterministics]}
    assert {name: int(np.prod(shape)) for name, shape in shapes.items()} == case.dimensions
    free = {rv.name: tuple(shapes[rv.name]) for rv in model.free_RVs}
    assert free == parameter_shapes(case)


def test_every_case_has_a_port_and_an_independent_density() -> None:
    for name in CASES:
        case = load_case(name, EMBEDDED)
        assert case.has_port and case.model_name in LOG_JOINT


@pytest.mark.corpus
def test_port_works_with_the_data_of_a_foreign_posteriordb(corpus) -> None:
    foreign = load_case("eight_schools", corpus / "posteriordb")
    ours = load_case("eight_schools", EMBEDDED)
    point = ours.model().initial_point()
    foreign_log_density = foreign.model().compile_logp()(point)
    assert foreign_log_density == pytest.approx(ours.model().compile_logp()(point), rel=EXACT)


def test_model_without_a_port_says_which_ports_there_are() -> None:
    case = Case("d-m", EMBEDDED, {"model_name": "no_such_model"})
    assert not case.has_port
    with pytest.raises(NoPortError, match=r"no_such_model.*eight_schools_noncentered"):
        case.model()


@pytest.fixture
def odd_port(monkeypatch: pytest.MonkeyPatch) -> Case:
    """A case whose port looks for something in the data that they do not hold."""

    def asks_too_much(*arguments: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return {"theta_trans": arguments[-1]["no such data"]}

    port = importlib.import_module("posteriordb_cases.models.eight_schools_noncentered")
    monkeypatch.setattr(port, "model", asks_too_much)
    monkeypatch.setattr(port, "recover", asks_too_much)
    return load_case("eight_schools-eight_schools_noncentered", EMBEDDED)


def test_a_key_error_inside_a_port_is_not_a_missing_port(odd_port: Case) -> None:
    with pytest.raises(KeyError, match="no such data") as error:
        odd_port.model()
    assert not isinstance(error.value, NoPortError)
    draws = {name: np.ones((2, 8)) for name in ("theta", "mu", "tau")}
    with pytest.raises(KeyError, match="no such data"):
        odd_port.recover(draws)


def test_nothing_is_recovered_from_draws_that_lack_what_it_is_made_of(odd_port: Case) -> None:
    draws = {"mu": np.ones(2)}
    assert odd_port.recover(draws) == draws


def test_a_port_that_recovers_says_from_what() -> None:
    folder = Path(models.__file__).parent
    names = [p.stem for p in folder.glob("*.py") if "def recover" in p.read_text("utf-8")]
    assert len(names) == 2
    for name in names:
        port = importlib.import_module(f"posteriordb_cases.models.{name}")
        assert port.RECOVERED_FROM and all(
            f'draws["{n}"]' in inspect.getsource(port.recover) for n in port.RECOVERED_FROM
        )
