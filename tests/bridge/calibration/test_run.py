"""Ranks and the draws that they are among."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bridge.advice.answer import Advice
from bridge.attempt import Attempt
from bridge.calibration import run
from bridge.calibration.run import LOG_LIK, LP, MOST
from bridge.methods.method import Fit, Method
from bridge.methods.problems import ModelProblem
from bridge.methods.table import METHODS
from stan_models.inference_data import make_inference_data


def test_ranks_count_the_draws_below_and_split_ties_at_random() -> None:
    rng = np.random.default_rng(1)
    values = {"a": np.array([0.5, 0.1, 0.7, 0.2]), "b": np.array([[3.0], [1], [2], [9]])}
    assert run._ranks(values, rng) == [2, 2]
    constant = {"c": np.zeros((5, 400))}  # as zeros of a Cholesky factor
    ranks = np.array(run._ranks(constant, rng))
    assert set(ranks) == {0, 1, 2, 3, 4}
    assert np.bincount(ranks).min() > 50


def test_what_is_not_a_number_has_no_rank_and_minus_infinity_the_lowest() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(ArithmeticError, match="lp of a draw is NaN"):
        run._ranks({"a": np.zeros(3), "lp": np.array([0.0, np.nan, 1.0])}, rng)
    assert run._ranks({"lp": np.array([0.0, -np.inf, 1.0])}, rng) == [1]


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="among 199 draws, the method gave 100"):
        run._some(np.zeros((1, 100, 2)))
    assert run._some(np.zeros((2, 100, 3))).shape == (MOST, 3)


def chains_of_fit(theta: np.ndarray, doubts: tuple[str, ...]):
    """`bridge.fit` that ends with the model's own sampler, whose draws are ArviZ's."""
    posterior = xr.Dataset({"means::mu": (("chain", "draw", "entry"), theta)})
    attempts = (Attempt.without_answer("laplace", "refused"), Attempt.without_answer("nuts", "ran"))

    def fit(problem, **options) -> Advice:
        idata = make_inference_data({"posterior": posterior})
        return Advice("nuts", attempts, None, idata, doubts)

    return fit


@pytest.mark.parametrize("doubts", [(), ("the chains disagree about mu",)])
def test_an_answer_of_chains_has_the_same_draws_in_both(model, monkeypatch, doubts) -> None:
    theta = np.random.default_rng(1).standard_normal((4, 500, 2))
    monkeypatch.setattr(run, "fit", chains_of_fit(theta, doubts))
    found = run._answer(ModelProblem(model), 1_000, 1)
    np.testing.assert_array_equal(found.draws["plain"], found.draws["psis"])
    np.testing.assert_allclose(found.draws["plain"][-1], theta[3, -1])
    assert found.trusted == (not doubts)
    assert found.verdict == f"nuts: {doubts[0] if doubts else 'ran'}"


def test_a_sampler_has_its_own_verdict(model) -> None:
    found = run._sampled(METHODS["warm-nuts"], ModelProblem(model), 1_000, 1)
    assert found.trusted and found.draws["plain"].shape == (MOST, 2)
    assert found.gradients > 0


@pytest.mark.parametrize(
    ("apart", "divergent", "words"),
    [(0, 0, "trusted: R̂"), (0, 100, "100 of 2000 transitions diverged"), (3, 0, "R̂ = ")],
)
def test_a_sampler_without_a_verdict_is_held_to_the_rule_of_chains(
    model, apart, divergent, words
) -> None:
    theta = np.random.default_rng(1).standard_normal((4, 500, 2))
    theta += apart * np.arange(4)[:, None, None]
    diverging = np.arange(2000).reshape(4, 500) < divergent

    def drawn(problem, draws, seed) -> Fit:
        target = problem.target
        lp = target.log_density(theta.reshape(-1, 2)).reshape(4, 500)
        return Fit(target, theta, lp, 0.0, statistics={"diverging": diverging})

    method = Method("drawn", "chains of a test", "pymc", drawn, sampler=True)
    found = run._sampled(method, ModelProblem(model), 1_000, 1)
    assert found.trusted == (not apart and not divergent)
    assert words in found.verdict


def test_quantities_depend_on_the_data(model) -> None:
    from bridge.calibration.of_pymc import PyMCStudy

    study = PyMCStudy(model)
    theta = np.array([[0.5, -1.0]])
    found = {}
    for y in (np.zeros((2, 3)), np.ones((2, 3))):
        problem = study.problem({"means::y": y})
        found[y[0, 0]] = run.quantities(study, problem, problem.target, theta, 1)
    assert list(found[0]) == ["means::mu", LOG_LIK, LP]
    np.testing.assert_array_equal(found[0]["means::mu"], theta)
    # -½ Σ (y − θ)²: what differs between the two data sets is 3 θ − 3/2 a mean
    for name in (LOG_LIK, LP):
        np.testing.assert_allclose(found[1][name] - found[0][name], 3 * theta.sum() - 3, rtol=1e-6)
