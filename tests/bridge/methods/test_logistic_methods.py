"""The methods of logistic models, which no embedded case is, on one that is made here."""

import numpy as np
import pymc as pm
import pytest

from bridge.methods.problems import ModelProblem
from bridge.methods.table import METHODS
from tests.tolerances import EXACT


@pytest.fixture(scope="module")
def problem() -> ModelProblem:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    y = (X @ [1.0, -2.0] + rng.logistic(size=40) > 0).astype(int)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0, 1, shape=2), observed=y)
    return ModelProblem(model)


@pytest.mark.parametrize("name", ["viper-full", "matching"])
def test_densities_are_reported_and_the_fit_is_close(problem: ModelProblem, name: str) -> None:
    fit = METHODS[name].run(problem, 2000, 1)
    flat, lp, lq = fit.theta[0], fit.lp[0], fit.lq[0]
    np.testing.assert_allclose(problem.target.log_density(flat), lp, rtol=EXACT)
    np.testing.assert_allclose(fit.log_q(flat), lq, rtol=EXACT)
    assert 0 < np.std(lp - lq) < 1  # constant if q were exact
    assert not METHODS[name].general
