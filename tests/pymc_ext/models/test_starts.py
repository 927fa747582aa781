"""Starts of discrete variables: far from one another, and where there is a density."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm

import bridge
from pymc_ext.models.starts import spread_starts


def test_a_continuous_model_has_pymcs_own() -> None:
    with pm.Model() as model:
        pm.Normal("x")
    assert spread_starts(model, 4, 1) is None
    with pm.Model() as flat:
        pm.Poisson("count", pm.HalfFlat("rate"))
    assert spread_starts(flat, 4, 1) is None


def test_starts_have_a_density_and_lie_apart() -> None:
    """Counts cannot be fewer than what was seen of them."""
    with pm.Model() as model:
        total = pm.Poisson("total", 20)
        pm.Binomial("seen", total, 0.5, observed=18)
    starts = [int(start["total"]) for start in spread_starts(model, 4, 1)]
    assert min(starts) >= 18 and max(starts) - min(starts) >= 8 and len(set(starts)) == 4
    assert spread_starts(model, 4, 1) == spread_starts(model, 4, 1)


def test_missing_counts_do_not_start_in_the_thousands() -> None:
    """Nor is a rare truth left out."""
    counts = np.ma.masked_array([2, 4, 3, 0], mask=[False, False, False, True])
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyMC, which imputes
        pm.Poisson("y", pm.math.exp(pm.Normal("a", 0, 3)), observed=counts)
    starts = [int(start["y_unobserved"][0]) for start in spread_starts(model, 4, 1)]
    assert max(starts) <= 100 and len(set(starts)) >= 3
    with pm.Model() as rare:
        pm.Bernoulli("rare", 0.05)
    assert {int(start["rare"]) for start in spread_starts(rare, 4, 1)} == {0, 1}


def test_a_chain_without_a_start_has_pymcs_own() -> None:
    with pm.Model() as model:
        at = pm.DiscreteUniform("at", 0, 9)
        pm.Potential("nowhere", pm.math.switch(at < 20, -np.inf, 0.0))
    assert spread_starts(model, 2, 1) == [None, None]


def test_chains_see_both_modes_of_a_switch_point() -> None:
    """.33 of the mass lies below 18, where no chain had been that began at the median."""
    rng = np.random.default_rng(46)
    counts = np.concatenate([rng.poisson(1, 14), rng.poisson(6, 8), rng.poisson(2, 28)])
    with pm.Model() as model:
        switch = pm.DiscreteUniform("switch", 0, 49)
        early, late = pm.Exponential("early", 0.5), pm.Exponential("late", 0.5)
        rate = pm.math.switch(np.arange(50) < switch, early, late)
        pm.Poisson("counts", rate, observed=counts)
    for seed in (1, 3):
        answer = bridge.fit(model, random_seed=seed, progressbar=False)
        assert not answer.trusted
