"""Chains that miss a tail of what governs others' scales."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CountedDensity, PyMCDensity
from pymc_ext.sampling.attempts import INTERRUPTED
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample
from pymc_ext.sampling.tails import UNSEEN, tails_not_reached, with_tails
from pymc_ext.variational.fields.map import FieldMap
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from pymc_ext.variational.hierarchical.reach import LEAST_SD, law_of_governors
from tests.pymc_ext.sampling.targets import Puppeteer
from tests.pymc_ext.variational.hierarchical.funnels import draws_of_funnel, funnel


def chains(target, q, theta):
    """As if they had drawn ``theta`` (N, D), and were trusted."""
    found = sample(target, q, Puppeteer(), Sampling(ess=50), seed=1)
    return replace(found, theta=np.resize(theta, found.theta.shape), checks=())


def test_draws_without_the_neck_are_doubted_and_those_with_it_are_not() -> None:
    fitted = Hierarchical().fit(funnel(), random_seed=1)
    names = ["log_tau", *"abcd"]
    exact, short = draws_of_funnel(), draws_of_funnel(lowest=-0.8)
    assert tails_not_reached(fitted.result.law, exact.std(axis=0), names) == ()
    (sentence,) = tails_not_reached(fitted.result.law, short.std(axis=0), names)
    assert sentence.startswith("the draws miss a tail of log_tau (sd 0.7")
    assert "by Laplace's method 1)" in sentence and "non-centred" in sentence
    assert 0.65 < short[:, 0].std() < LEAST_SD


def test_chains_of_what_is_no_map_are_not_looked_at() -> None:
    target, short = funnel(), draws_of_funnel(lowest=-0.8)
    q = Gaussian(np.zeros(5), np.eye(5))
    found = chains(target, q, short)
    assert with_tails(found, target, q) is found and with_tails(found, target, None) is found


def test_chains_that_miss_a_tail_are_not_trusted_and_the_look_is_counted() -> None:
    target = funnel()
    q = Hierarchical().fit(target, random_seed=1).q
    found = chains(target, q, draws_of_funnel(lowest=-0.8))
    told = with_tails(found, target, q)
    assert not told.trusted and told.reasons[0].startswith("the draws miss a tail of log_tau")
    assert 40 < told.gradient_evaluations - found.gradient_evaluations < 1500


def test_chains_that_miss_the_neck_of_a_field_are_not_trusted() -> None:
    """As a new user's were: noise about a walk may vanish, in .9 % of draws that have 43 % of the
    variance of its log."""
    rng = np.random.default_rng(23)
    y = np.cumsum(rng.normal(0, 0.3, 30)) + rng.normal(0, 0.5, 30)
    with pm.Model() as model:
        q, sigma = pm.HalfNormal("q", 1), pm.HalfNormal("sigma", 1)
        x = pm.GaussianRandomWalk(
            "x", mu=0, sigma=q, init_dist=pm.Normal.dist(0, 2), steps=len(y) - 1
        )
        pm.Normal("y", x, sigma, observed=y)
    density = PyMCDensity(model)
    law = Hierarchical(early=True).fit(density, random_seed=1).q
    assert isinstance(law, FieldMap)
    drawn = law.forward(rng.standard_normal((8_000, density.dimension)))[0]
    log_sigma = drawn[:, density.unconstrained_names.index("sigma_log__")]
    above = chains(density, law, drawn[log_sigma > -1.3])
    told = with_tails(above, density, law)
    assert not told.trusted
    assert told.reasons[0].startswith("the draws miss a tail of log sigma (sd 0.2")
    assert with_tails(chains(density, law, drawn), density, law).trusted


def test_ctrl_c_during_the_look_keeps_the_draws(monkeypatch) -> None:
    target = funnel()
    q = Hierarchical().fit(target, random_seed=1).q
    found = chains(target, q, draws_of_funnel())

    def pressed(*_):
        raise KeyboardInterrupt

    interrupted = replace(found, stop_reason=INTERRUPTED)
    assert with_tails(interrupted, target, q) is interrupted
    monkeypatch.setattr("pymc_ext.sampling.tails.law_of_governors", pressed)
    told = with_tails(found, target, q)
    assert told.theta is found.theta and not told.trusted and told.reasons == (UNSEEN,)


@pytest.mark.parametrize("name", ["groups-4", "groups-7", "schools-centred"])
def test_exact_draws_of_hierarchies_are_not_doubted(name) -> None:
    target = ZOO[name].make()
    q = Hierarchical().fit(target, random_seed=1).q
    draws = target.draws(4000, np.random.default_rng(1))
    law = law_of_governors(CountedDensity(target), q, draws)
    names = [str(k) for k in range(target.dimension)]
    assert tails_not_reached(law, draws.std(axis=0), names) == ()
