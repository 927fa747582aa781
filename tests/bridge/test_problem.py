"""Which form of a posterior the methods of PyMC run on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import posteriordb_cases.case
from bridge.problem import Problem
from posteriordb_cases import Case


def _case(model: str, database: Path) -> Case:
    """A case of a database that, as ../shared's, has no Stan programs of its own."""
    folder = database / "models" / "info"
    folder.mkdir(parents=True)
    (folder / f"{model}.info.json").write_text(json.dumps({"model_implementations": {}}))
    return Case(f"data-{model}", database, {"model_name": model})


@pytest.mark.parametrize(("model", "uses_port"), [("arK", True), ("hmm_example", False)])
def test_a_sequential_port_gives_way_to_its_stan_program(model, uses_port, tmp_path) -> None:
    assert Problem(_case(model, tmp_path)).uses_port is uses_port


def test_a_sequential_port_is_used_where_there_is_no_stan_program(tmp_path, monkeypatch) -> None:
    case = _case("hmm_example", tmp_path)
    monkeypatch.setattr(posteriordb_cases.case, "_PROGRAMS", (tmp_path,))
    assert case.stan_code is None
    assert Problem(case).uses_port
