"""All that an answer was judged by: numbers, limits, and as many passed as the verdict says."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import bridge
from bridge.answer import Advice
from pymc_ext.sampling.diagnostics import RHAT_AGREES
from pymc_ext.variational.core.checks import WHAT
from tests.needed import needs

Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SD = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools() -> pm.Model:
    with pm.Model() as model:
        effects = pm.Normal("theta", pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5), shape=8)
        pm.Normal("y", effects, SD, observed=Y)
    return model


def two_modes() -> pm.Model:
    with pm.Model() as model:
        pm.NormalMixture("x", [0.3, 0.7], [-5.0, 5.0], [1.0, 1.0])
    return model


def whole_numbers() -> pm.Model:
    with pm.Model() as model:
        pm.Cauchy("x", 0, 1)
        pm.Bernoulli("kind", 0.3)
    return model


def open_tail() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("z", 0, pm.math.exp(pm.Normal("log_scale", 0, 5)), shape=3)
    return model


def passed(advice: Advice) -> dict[str, bool]:
    for check in advice.checks:
        assert check.name in WHAT and check.found and check.meaning and check.to_do
    assert advice.trusted == all(check.passed for check in advice.checks)
    return {check.name: check.passed for check in advice.checks}


def test_of_weights() -> None:
    advice = bridge.fit(schools(), random_seed=1)
    assert passed(advice) == {"weights": True, "means and sds": True, "missed mass": True}
    weights, moments, _ = advice.checks
    assert weights.number == advice.attempts[-1].khat < weights.limit == 0.7
    assert moments.number < moments.limit == 1 / np.sqrt(400)
    assert str(moments) == f"means and sds: Monte Carlo errors of at most {moments.number:.2g} sds"


def test_of_chains_that_are_not_trusted() -> None:
    needs("nutpie")
    advice = bridge.fit(schools(), methods="laplace", random_seed=1)
    found = passed(advice)
    assert not found["divergences"] and found["missed mass"] and "E-FMI" in found
    rhat = advice.checks[0]
    assert rhat.name == "R̂" and rhat.limit == RHAT_AGREES
    assert rhat.passed == (rhat.number <= RHAT_AGREES)
    failing = [check.found for check in advice.checks if not check.passed]
    assert set(failing) == set(advice.doubts)


def test_of_modes_that_are_missed_and_found() -> None:
    advice = bridge.fit(two_modes(), methods="laplace", random_seed=1)
    (missed,) = [check for check in advice.attempts[0].checks if check.name == "missed mass"]
    assert not missed.passed and missed.number > missed.limit == 0.01
    assert advice.trusted and passed(advice)["missed mass"]


def test_of_the_models_own_sampler() -> None:
    advice = bridge.fit(whole_numbers(), random_seed=1, draws=800, progressbar=False)
    assert not advice.trusted and "divergences" in passed(advice)
    of_draws = [check for check in advice.checks if check.name == "effective draws"]
    assert [check.passed for check in of_draws] == [False, True]  # of whole numbers their own
    assert of_draws[0].number < of_draws[0].limit == 400


def test_what_is_refused_beside_its_own_checks() -> None:
    advice = bridge.fit(open_tail(), random_seed=1)
    assert not advice.trusted and False in passed(advice).values()


@pytest.mark.parametrize("doubts", [(), ("interrupted: made up",)])
def test_a_doubt_that_is_no_check_is_one_more(doubts) -> None:
    advice = bridge.fit(schools(), random_seed=1)
    changed = replace(advice, doubts=doubts)
    assert passed(changed).get("end") == (False if doubts else None)
