"""PyMC ports with a Stan program of ours: equal log densities, constants included."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import posteriordb_cases
from bridge.targets.agreement import check_agreement
from bridge.targets.pymc import PyMCTarget, pymc_target
from bridge.targets.stan import StanTarget, stan_target
from stan_models import StanProgram
from tests.posteriordb_cases.synthetic import GENERATORS, MARKOV, ODE
from tests.tolerances import EXACT

FOLDER = Path(posteriordb_cases.__file__).parent / "models"
POINTS = 20
PYMC_NORMALISER = 1e-8  # PyMC rounds the constant of each normal and half-Cauchy by 1.9e-9
JACOBIAN = 1e-6  # PyMC's simplex has other coordinates: the log-Jacobian is a central difference
SOLVERS = 3e-7  # relative: two solvers with errors of 1e-8 to 1e-7 of the solution


def pymc_model(name: str) -> pm.Model:
    port = importlib.import_module(f"posteriordb_cases.models.{name}")
    return port.model(GENERATORS[name](np.random.default_rng(1)))


def pymc_side(name: str) -> PyMCTarget:
    return pymc_target(pymc_model(name))


def stan_side(name: str) -> StanTarget:
    program = StanProgram(FOLDER / f"{name}.stan")
    return stan_target(program.density(GENERATORS[name](np.random.default_rng(1))))


def shapes(target: PyMCTarget | StanTarget) -> dict[str, tuple[int, ...]]:
    values = target.constrain(np.full((1, target.dimension), 0.3))
    return {name: value.shape[1:] for name, value in values.items()}


@pytest.mark.slow  # a Stan program takes 15 s to compile
@pytest.mark.stan
@pytest.mark.parametrize("name", [name for name in GENERATORS if name not in ODE])
def test_port_is_the_stan_program(name: str) -> None:
    pymc, stan = pymc_side(name), stan_side(name)
    assert shapes(pymc) == shapes(stan)
    points = np.random.default_rng(1).standard_normal((POINTS, pymc.dimension))
    magnitude = np.abs(pymc.log_density(points)).max()
    constant, deviation = check_agreement(pymc, stan, POINTS)
    assert deviation < (JACOBIAN if name in MARKOV else EXACT * magnitude)
    assert abs(constant) < PYMC_NORMALISER + EXACT * magnitude


@pytest.mark.slow  # a Stan program takes 15 s to compile
@pytest.mark.stan
@pytest.mark.parametrize("name", ODE)
def test_port_with_a_solver_is_the_stan_program(name: str) -> None:
    pymc, stan = pymc_side(name), stan_side(name)
    assert shapes(pymc) == shapes(stan)
    rng = np.random.default_rng(1)
    values = {
        key: np.asarray(value) * np.exp(0.3 * rng.standard_normal((POINTS, *np.shape(value))))
        for key, value in ODE[name].items()
    }
    ours, theirs = pymc.unconstrain(values), stan.unconstrain(values)
    np.testing.assert_allclose(np.sort(ours), np.sort(theirs), rtol=EXACT)  # no Jacobian between
    np.testing.assert_allclose(pymc.log_density(ours), stan.log_density(theirs), rtol=SOLVERS)


@pytest.mark.parametrize("name", GENERATORS)
def test_port_declares_the_parameters_of_the_program(name: str) -> None:
    code = (FOLDER / f"{name}.stan").read_text()
    block = re.search(r"^parameters \{\n(.*?)^\}", code, re.DOTALL | re.MULTILINE)
    assert block is not None
    declared = re.findall(r"(\w+)(?: = [^;]+)?;", re.sub("//.*", "", block[1]))
    assert {rv.name for rv in pymc_model(name).free_RVs} == set(declared)


def test_every_program_has_a_port_and_is_in_the_table() -> None:
    programs = {path.stem for path in FOLDER.glob("*.stan")}
    assert programs == set(GENERATORS)
    assert all((FOLDER / f"{name}.py").is_file() for name in programs)
