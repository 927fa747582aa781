"""Models of the calibration benchmark state the law they draw from; its table counts right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.speed import calibration
from benchmarks.speed.calibration_models import MODELS
from bridge.calibration.of_pymc import PyMCStudy

# PyMC 6's pm.CustomDist draws in Python
pytestmark = pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")


def garch_by_recursion(p, y) -> float:
    w, (a, b, _) = p["w"], p["shares"]
    variance, total = w / (1 - a - b), 0.0
    for x in y:
        total += norm.logpdf(x, 0, np.sqrt(variance))
        variance = w + a * x**2 + b * variance
    return total


def hmm_by_recursion(p, y) -> float:
    stay, mu = p["stay"], np.array([p["low"], p["low"] + p["gap"]])
    moves = np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    alpha = 0.5 * norm.pdf(y[0], mu)
    for x in y[1:]:
        alpha = (alpha @ moves) * norm.pdf(x, mu)
    return float(np.log(alpha.sum()))


def mixture_by_hand(p, y) -> float:
    weights = np.array([p["w"], 1 - p["w"]])
    return float(np.log(norm.pdf(y[:, None], p["mu"], p["s"]) @ weights).sum())


@pytest.mark.parametrize(
    "name, by_hand",
    [("garch", garch_by_recursion), ("hmm", hmm_by_recursion), ("mixture", mixture_by_hand)],
)
def test_the_likelihood_is_that_of_the_process(name: str, by_hand) -> None:
    study = PyMCStudy(MODELS[name]())
    (pair,) = study.simulate(1, None, None, 3)
    target = study.problem(pair.data).target
    rows = {name: np.asarray(pair.parameters[name])[None] for name in target.parameter_names}
    (found,) = study.log_likelihood(study.problem(pair.data), target.unconstrain(rows), 1)
    np.testing.assert_allclose(found, by_hand(pair.parameters, pair.data["y"]), rtol=1e-8)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "ar"])  # a scan to compile
def test_every_model_says_how_its_data_come_about(name: str) -> None:
    study = PyMCStudy(MODELS[name]())
    first, second = study.simulate(2, None, None, 1)
    for values in (*first.data.values(), *first.parameters.values()):
        assert np.isfinite(values).all()
    assert not np.array_equal(first.data["y"], second.data["y"])


def cell(coverage: float, trusted: float, good: float, inside: bool) -> dict:
    def row(value: float, fits: int) -> dict:
        return {"coverage_95": value, "se_95": 0.01, "coverage_50": 0.5, "se_50": 0.02,
                "fits": fits, "inside": inside, "worst": "x"}  # fmt: skip

    rows = {"psis all": row(coverage, 200), "psis trusted": row(good, round(200 * trusted))}
    return {"simulations": 200, "trusted": trusted, "rows": rows}


def test_the_goals_are_counted(capsys) -> None:
    calibration.report({
        "a/laplace/200": cell(0.80, 0.02, 0.94, True),  # off, nearly all refused
        "b/answer/200": cell(0.95, 1.0, 0.95, True),
        "c/answer/200": cell(0.94, 0.9, 0.93, True),  # its trusted fits miss the goal
        "d/answer/200": cell(0.95, 0.9, 0.95, False),
    })  # fmt: skip
    printed = capsys.readouterr().out
    assert "trusted fits reach the goal: 2 of 4" in printed
    assert "off by > 0.03: 200, refused 196 (98.0%" in printed
