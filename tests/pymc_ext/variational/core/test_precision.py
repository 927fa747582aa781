"""Errors of weighted means and sds against their spread over repetitions, and k̂ of their own."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.attempt import Demands, attempted
from bridge.measures.khat import pareto_khat
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS
from posteriordb_cases.zoo import ZOO
from pymc_ext.variational.core.precision import Precision, weighted_precision
from tests.tolerances import monte_carlo

N = 4_000


def weighted(scale: float, rng: np.random.Generator):
    """Draws of N(0, scale²) with their weights for a standard normal."""
    x = scale * rng.standard_normal((N, 1))
    log_ratios = (-0.5 * x**2 + 0.5 * (x / scale) ** 2)[:, 0]
    weights = np.exp(log_ratios - log_ratios.max())
    return x, log_ratios, weights / weights.sum()


def test_errors_are_the_spread_over_repetitions() -> None:
    rng, means, sds, found = np.random.default_rng(1), [], [], []
    for _ in range(400):
        x, log_ratios, weights = weighted(1.5, rng)
        mean = weights @ x[:, 0]
        means.append(mean)
        sds.append(np.sqrt(weights @ (x[:, 0] - mean) ** 2))
        found.append(weighted_precision(x, log_ratios, weights))
    relative = monte_carlo(1 / np.sqrt(2 * 400))  # of a spread over 400
    assert np.median([p.mean_error for p in found]) == pytest.approx(np.std(means), rel=relative)
    assert np.median([p.sd_error for p in found]) == pytest.approx(np.std(sds), rel=relative)


def test_a_tail_that_q_does_not_reach_has_a_shape_of_its_own() -> None:
    """q is a Gaussian of sd 1, p one of sd σ: p/q has tail index 1 − 1/σ², x² adds to it."""
    x = np.random.default_rng(1).standard_normal((20_000, 1))
    log_ratios = 0.5 * x[:, 0] ** 2 * (1 - 1 / 1.3**2)
    weights = np.exp(log_ratios) / np.exp(log_ratios).sum()
    found, k = weighted_precision(x, log_ratios, weights), pareto_khat(log_ratios, 0 * log_ratios)
    assert k.value < found.mean_khat[0] < found.sd_khat[0]
    assert found.sd_khat[0] > 0.5 > k.value


def test_where_weights_hardly_differ_no_tail_matters() -> None:
    """Equal weights of a t of 3 degrees: x² has tail index 2/3, and so it has under p."""
    x = np.random.default_rng(1).standard_t(3, (20_000, 1))
    found = weighted_precision(x, np.zeros(20_000), np.full(20_000, 5e-5))
    assert found.mean_khat[0] == found.sd_khat[0] == -np.inf
    assert found.sd_error[0] > 0.02  # ten times that of a Gaussian


def test_columns_are_the_same_in_slices(monkeypatch) -> None:
    rng = np.random.default_rng(1)
    x, weights = rng.standard_normal((100, 7)), rng.dirichlet(np.ones(100))
    whole = weighted_precision(x, np.log(weights), weights)
    monkeypatch.setattr("pymc_ext.variational.core.precision.SLICE", 300)
    parts = weighted_precision(x, np.log(weights), weights)
    for name in ("mean_error", "sd_error", "mean_khat", "sd_khat"):
        np.testing.assert_allclose(getattr(whole, name), getattr(parts, name))
        assert getattr(whole, name).shape == (7,)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (([0.01, 0.02], [0.01, 0.01], [0.2, 0.8], [0.3, 0.9]), "the mean of b is not known"),
        (([0.01, 0.02], [0.01, 0.01], [0.2, 0.1], [0.75, 0.2]), "the sd of a is not known: k̂ of"),
        (([0.01, 0.06], [0.01, 0.01], [0.2, 0.1], [0.3, 0.2]), "the mean of b has a Monte Carlo"),
        (([0.01, 0.04], [0.07, 0.01], [0.2, 0.1], [0.3, 0.2]), r"error of 0.07 sds, above 0.05"),
        (([0.01, np.nan], [0.01, 0.01], [0.2, 0.1], [0.3, 0.2]), "b is not known: its draws"),
    ],
)
def test_doubts_name_the_worst(values, words) -> None:
    doubt = Precision(*map(np.array, values), *np.zeros((2, 2))).doubt(["a", "b"], 0.7, 400)
    assert doubt is not None and words in doubt


def test_no_doubt_where_all_is_known() -> None:
    good = Precision(*map(np.array, ([0.02], [0.02], [0.2], [0.4], [0.0], [1.0])))
    assert good.doubt(["a"], 0.7, 400) is None
    assert good.doubt(["a"], 0.7, 10_000) is not None  # errors of .01 are asked for


def test_weights_that_miss_a_tail_are_refused_though_their_khat_is_good() -> None:
    """A Gaussian of coefficients that are Student's t: with k̂ .56 sds were half of the truth."""
    problem = as_problem(ZOO["regression-4"].make(), None)
    attempt, _, _ = attempted(METHODS["batch-match"], problem, Demands(0.7, 400, 20_000, 4_000), 1)
    assert attempt.khat < 0.7 and not attempt.good
    assert "is not known: k̂ of its own" in attempt.verdict


def test_a_draw_that_p_rules_out_may_be_as_far_as_numbers_go() -> None:
    x, log_ratios, weights = weighted(1.5, np.random.default_rng(1))
    far = np.concatenate([x, [[1e200]]])
    found = weighted_precision(far, np.append(log_ratios, -np.inf), np.append(weights, 0.0))
    own = weighted_precision(x, log_ratios, weights)
    for name in ("mean_error", "sd_error", "mean_khat", "sd_khat"):
        np.testing.assert_allclose(getattr(found, name), getattr(own, name), rtol=1e-2)


def test_a_weighty_draw_beyond_numbers_has_no_known_error() -> None:
    x, log_ratios, weights = weighted(1.5, np.random.default_rng(1))
    x[0] = 1e200
    found = weighted_precision(x, log_ratios, weights)
    assert found.doubt(["x"], 0.7, 400) is not None
