"""Stan programs of the embedded cases against their PyMC ports: the difference is zero."""

from __future__ import annotations

import numpy as np
import pytest

from posteriordb_cases import EMBEDDED, Case, list_cases, load_case
from stan_models import StanProgram
from tests.posteriordb_cases.densities import random_points, unconstrained_log_density
from tests.tolerances import EXACT

pytestmark = pytest.mark.stan
POINTS = 20


def in_stans_order(points: dict[str, np.ndarray], names: list[str]) -> np.ndarray:
    """Rows of unconstrained coordinates, matched by Stan's names ``theta[1]``, ``tau``."""
    columns = []
    for name in names:
        variable, _, at = name.rstrip("]").partition("[")
        index = [int(i) - 1 for i in at.split(",") if i]
        columns.append(points[variable][(slice(None), *index)])
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module", params=list_cases(EMBEDDED))
def case(request: pytest.FixtureRequest) -> Case:
    return load_case(request.param, EMBEDDED)


def test_pymc_minus_stan_is_zero_at_random_points(case: Case) -> None:
    points = random_points(case, POINTS, seed=11)
    density = StanProgram(case.stan_code, name=case.model_name).density(case.data)
    stan = density.log_density(in_stans_order(points, density.unconstrained_names))
    model = case.model()
    value_names = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
    compiled = model.compile_logp()
    pymc = [
        compiled({value_names[name]: values[i] for name, values in points.items()})
        for i in range(POINTS)
    ]
    np.testing.assert_allclose(pymc, stan, rtol=EXACT)
    np.testing.assert_allclose(stan, unconstrained_log_density(case, points), rtol=EXACT)


def test_stan_and_pymc_name_the_same_variables_with_the_same_shapes(case: Case) -> None:
    density = StanProgram(case.stan_code, name=case.model_name).density(case.data)
    values = density.constrain(np.full((1, density.dimension), 0.3))
    stan = {name: value.shape[1:] for name, value in values.items()}
    model = case.model()
    pymc = {v.name: tuple(v.shape.eval()) for v in [*model.free_RVs, *model.deterministics]}
    assert stan == pymc
    assert {name: int(np.prod(shape)) for name, shape in stan.items()} == case.dimensions
