"""All that an answer was judged by: numbers, limits, and as many passed as the verdict says."""

from dataclasses import replace

import numpy as np
import pymc as pm
from scipy import stats

import bridge
from bridge.advice.answer import Advice
from bridge.methods.method import WeightedDraws
from bridge.verdict import by_weights
from pymc_ext.sampling.diagnostics import RHAT_AGREES
from pymc_ext.variational.core.checks import WHAT, Check
from pymc_ext.variational.core.precision import Precision
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
        if check.name in ("weights", "means and sds", "R̂", "sds"):
            assert check.passed == (check.number <= check.limit)
        if check.name in ("effective draws", "E-FMI"):
            assert check.passed == (check.number >= check.limit)
    assert advice.trusted == all(check.passed for check in advice.checks)
    return {check.name: check.passed for check in advice.checks}


def test_of_weights() -> None:
    advice = bridge.fit(schools(), random_seed=1)
    names = ("weights", "effective draws", "means and sds", "missed mass")
    assert passed(advice) == dict.fromkeys(names, True)
    weights, draws, moments, _ = advice.checks
    assert draws.limit == 400 < draws.number
    assert weights.number == advice.attempts[-1].khat < weights.limit == 0.7
    assert moments.number < moments.limit == 1 / np.sqrt(400)
    assert str(moments) == f"means and sds: Monte Carlo errors of at most {moments.number:.2g} sds"


def test_of_chains_that_are_not_trusted() -> None:
    needs("nutpie")
    advice = bridge.fit(schools(), methods="laplace", random_seed=1)
    found = passed(advice)
    assert not found["divergences"] and found["missed mass"] and "E-FMI" in found
    (rhat,) = [check for check in advice.checks if check.name == "R̂"]
    assert rhat.limit == RHAT_AGREES
    assert rhat.passed == (rhat.number <= RHAT_AGREES)
    failing = [check.found for check in advice.checks if not check.passed]
    assert set(failing) == set(advice.doubts)


def test_of_modes_that_are_missed_and_found() -> None:
    advice = bridge.fit(two_modes(), methods="laplace", random_seed=1)
    (missed,) = [check for check in advice.attempts[0].checks if check.name == "missed mass"]
    assert not missed.passed and missed.number > 0.4 and missed.limit <= 0.01
    assert advice.trusted and passed(advice)["missed mass"]


def test_of_the_models_own_sampler() -> None:
    advice = bridge.fit(whole_numbers(), random_seed=1, draws=800, progressbar=False)
    assert not advice.trusted and "divergences" in passed(advice)
    of_draws = [check for check in advice.checks if check.name == "effective draws"]
    assert [check.passed for check in of_draws] == [False, True]  # of whole numbers their own
    assert of_draws[0].number < of_draws[0].limit == 400


def test_what_is_refused_beside_its_own_checks(without_fields) -> None:
    advice = bridge.fit(open_tail(), random_seed=1)
    assert not advice.trusted and False in passed(advice).values()


def test_a_doubt_that_is_no_check_is_one_more() -> None:
    advice = bridge.fit(schools(), random_seed=1)
    assert "end" not in passed(advice)
    assert passed(replace(advice, doubts=("interrupted: made up",)))["end"] is False


def weights_of(sd: float, ess: float, draws: int = 1_000) -> dict[str, Check]:
    """Of N(0, 1) by draws of N(0, sd²)."""
    theta = np.random.default_rng(1).normal(0, sd, size=(1, draws, 1))
    lp, lq = (stats.norm.logpdf(theta[..., 0], scale=scale) for scale in (1, sd))
    found = by_weights(WeightedDraws(theta, lp, lq), ["x"], 0.7, ess)
    assert found.good == all(check.passed for check in found.checks)
    return {check.name: check for check in found.checks}


def test_what_refuses_weights_is_the_check_that_fails() -> None:
    few = weights_of(1.3, ess=5_000)
    assert few["weights"].passed and few["weights"].number < 0.7
    assert not few["effective draws"].passed and few["effective draws"].limit == 5_000
    narrow = weights_of(0.4, ess=10, draws=20_000)
    assert not narrow["weights"].passed and narrow["weights"].number > 0.7


def test_errors_that_are_not_known_are_no_numbers_that_pass() -> None:
    unit = np.full(2, 0.03)
    without = Precision(unit, np.array([0.03, np.nan]), -unit, -unit, unit, unit).check(
        ["x", "y"], 0.7, 400
    )
    assert not without.passed and np.isnan(without.number)
    heavy = Precision(unit, unit, np.array([0.1, 0.9]), -unit, unit, unit).check(
        ["x", "y"], 0.7, 400
    )
    assert not heavy.passed and heavy.number == 0.9 and heavy.limit == 0.7
    both = Precision(unit, unit, np.array([0.1, 0.8]), np.array([0.9, 0.1]), unit, unit)
    named = both.check(["x", "y"], 0.7, 400)
    assert named.found == "the mean of y is not known: k̂ of its own = 0.80 >= 0.7"
    assert named.number == 0.8
