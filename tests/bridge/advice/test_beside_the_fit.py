"""What a fit misses beside it: a shoulder, where chains start, and a tail that nobody knows."""

from __future__ import annotations

import numpy as np
import pytest

import bridge
from bridge.advice.search import Search
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS
from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity
from tests.needed import needs
from tests.pymc_ext.variational.missed.test_shoulders import ridge


def test_chains_start_on_a_shoulder_and_adapt_by_themselves():
    needs("nutpie")
    advice = bridge.fit(ridge(3), random_seed=2, progressbar=False)
    assert advice.method == "warm-nuts"
    assert "a shoulder at theta[0]" in advice.reasons
    assert not any(attempt.method == "basins" for attempt in advice.attempts)  # there is no mode
    chains = advice.attempts[-1].verdict
    assert "with its own adaptation" in chains and "chains were started there too" in chains
    # two chains more than the four of random starts: one in q's middle, one on the shoulder
    assert "6 chains" in chains
    draws = np.asarray(advice.idata["posterior"]["theta"]).reshape(-1, 3)
    # .0133 by the formula, known to a third: three of its errors are more than that
    assert 0 < (draws[:, 0] > 4).mean() < 2 * 0.0133


def test_few_weighted_draws_tell_of_no_tail(monkeypatch):
    """An answer that NUTS would not better is one of weights that are worth what is asked for: of a
    sinusoid's many modes, by a fit of one, a tail of an amplitude had been named."""
    monkeypatch.setattr("bridge.advice.search.open_end", lambda found, weights: "a tail")
    problem = as_problem(ZOO["gaussian-1"].make(), None)
    for ess, named in ((400, "a tail"), (5_000, None)):
        search = Search(problem, 0.7, ess, None, fresh_draws=4_096, draws=4_000, seed=1)
        search.attempt(METHODS["batch-match"])
        assert search.open_end == named


def test_draws_without_a_weight_are_not_handed_out():
    """A normal law that ends two sds to the left of its mode: a Gaussian has draws beyond that."""
    density = CallableDensity(
        lambda x: np.where(x[:, 0] > -2, -0.5 * x[:, 0] ** 2, -np.inf), lambda x: -x, dimension=1
    )
    advice = bridge.fit(density, methods="batch-match", random_seed=1)
    assert advice.method == "batch-match" and advice.fit is not None
    assert (advice.fit.weighted.lp == -np.inf).any()
    log_weight = np.asarray(advice.unresampled["sample_stats"]["log_weight"])
    assert np.isfinite(log_weight).all()
    assert np.exp(log_weight).sum() == pytest.approx(1.0)
    theta = np.asarray(advice.unresampled["posterior"]["theta"])
    assert theta.shape[:2] == log_weight.shape and theta.min() > -2
