"""Stretched tails of a flow's latent variables: the map, its fit to weights, and the choice."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_ext as px
from pymc_ext.maths.stretched_tails import START, stretch, unstretch
from pymc_ext.variational.bernstein.polish import stretching as flow_stretching
from pymc_ext.variational.bernstein.polish import weighted as importance_weighted
from pymc_ext.variational.bernstein.polish.stretching import DRAWS, LENGTHS, fitted_tails
from pymc_ext.variational.bernstein.polish.weighted import Stage, judge
from tests.tolerances import EXACT, NUMERIC, monte_carlo

PYTHON = {"mode": "FAST_COMPILE"}
LAW = np.array([[0.0], [2.0]])  # a of the left tail and of the right


def evaluate(*outputs):
    return [x.eval(**PYTHON) for x in outputs]


def log_density(x, a):
    """log density of s(v; a), v from N(0, 1)."""
    v = unstretch(x, a)
    return -0.5 * v**2 - 0.5 * np.log(2 * np.pi) - stretch(v, a)[1]


def flow(log_p, **options):
    """A flow at (nearly) N(0, 1), for a target with one variable."""
    with pm.Model():
        x = pm.Flat("x", shape=1)
        pm.Potential("log_p", log_p(x[None, :]).sum())
        method = px.BernsteinVI(10, polish=None, random_seed=1, **options)
        return pm.fit(0, method=method, progressbar=False, compile_kwargs=PYTHON)


@pytest.mark.parametrize("a", [0.0, 0.3, 4.0, 10.0])
def test_the_map_has_an_inverse_and_the_slope_it_says(a):
    v, amount, h = np.linspace(-40, 40, 4001)[:, None], np.array([[a], [a / 2]]), 1e-6
    s, log_slope = evaluate(*stretch(pt.constant(v), amount))
    (back,) = evaluate(unstretch(pt.constant(s), amount))
    np.testing.assert_allclose(back, v, rtol=EXACT, atol=EXACT)
    ahead, behind = (evaluate(stretch(pt.constant(v + d), amount)[0])[0] for d in (h, -h))
    np.testing.assert_allclose(np.exp(log_slope), (ahead - behind) / (2 * h), rtol=NUMERIC)
    middle = np.abs(v) <= START
    np.testing.assert_array_equal(s[middle], v[middle])
    assert np.all(np.sign(v) * (s - v) <= a)


class LatentTarget:
    """q's latent variable against a target which is a stretched normal itself."""

    def __init__(self, law):
        self.group = SimpleNamespace(stretch=pytensor.shared(np.zeros((2, 1))))
        z, a = pt.matrix("z"), self.group.stretch
        x, log_slope = stretch(z, a)
        log_q = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_slope
        self.log_ratios = pytensor.function([z], (log_density(x, law) - log_q).sum(-1), **PYTHON)


def test_a_fit_finds_the_tails_of_the_target():
    approx, rng = LatentTarget(LAW), np.random.default_rng(2)
    plain = judge("", approx, rng.standard_normal((50_000, 1)))
    fitted = flow_stretching._fitted(approx, rng.standard_normal((DRAWS, 1)))
    # information of a draw about a, by differences of the log density at draws of the target
    x = evaluate(stretch(pt.constant(rng.standard_normal((100_000, 1))), LAW)[0])[0]
    above, below = (evaluate(log_density(pt.constant(x), LAW + d))[0] for d in (0.01, -0.01))
    se = 1 / np.sqrt(DRAWS * np.mean(((above - below)[x > 0] / 0.02) ** 2) / 2)
    assert fitted[1, 0] == pytest.approx(LAW[1, 0], abs=monte_carlo(se))
    assert fitted[0, 0] < 2 * monte_carlo(se)
    stretched = judge("", approx, rng.standard_normal((50_000, 1)))
    assert 10 * abs(stretched.elbo) < abs(plain.elbo)


def test_stretching_lowers_khat_under_an_exponential_tail_and_is_in_place():
    approx = flow(lambda x: pt.switch(x < -2, x, -0.5 * x**2), tails="linear")
    z = np.random.default_rng(3).standard_normal((50_000, 1))
    plain = judge("ELBO", approx, z)
    tails = fitted_tails(approx, plain, seed=4)
    np.testing.assert_array_equal(approx.group.stretch.get_value(), 0.0)
    stage = flow_stretching.stretch(approx, z, plain, good=-1.0, floor=-np.inf, tails=tails)
    assert stage.khat < plain.khat - 0.1
    again = judge("", approx, z)
    assert (again.elbo, again.khat) == (stage.elbo, stage.khat)


@pytest.mark.parametrize("khats", [[0.4, 0.35], [0.25], [0.5, 0.48]])
def test_longer_tails_than_fitted_are_tried_where_the_fit_does_not_do(khats, monkeypatch):
    approx, scripted, tried = flow(lambda x: log_density(x, LAW)), iter(khats), []

    def next_stage(name, approx, z):
        tried.append(approx.group.stretch.get_value())
        return Stage(name, 0.0, next(scripted), 0.9)

    monkeypatch.setattr(importance_weighted, "judge", next_stage)
    plain = Stage("ELBO", 0.0, 0.5, 0.9)
    tails = fitted_tails(approx, plain, seed=1)
    stage = flow_stretching.stretch(approx, None, plain, good=0.3, floor=-1.0, tails=tails)
    kept = approx.group.stretch.get_value()
    assert [a[1, 0] for a in tried] == pytest.approx(
        [2.0 * length for length in LENGTHS[: len(khats)]], rel=0.2
    )
    if khats[-1] == 0.48:  # within the scatter of k̂
        assert stage is None
        np.testing.assert_array_equal(kept, 0.0)
    else:
        assert stage.khat == khats[-1]
        np.testing.assert_array_equal(kept, tried[-1])


@pytest.mark.parametrize("khat", [np.inf, -np.inf])
def test_without_weights_to_fit_a_flow_stays_as_it_is(khat):
    approx, plain = flow(lambda x: -(x**2)), Stage("ELBO", -np.inf, khat, 0.0)
    tails = fitted_tails(approx, plain, 1)
    assert len(tails) == 0
    assert flow_stretching.stretch(approx, None, plain, 0.3, -np.inf, tails) is None


@pytest.mark.parametrize("options", [{"input_map": "f2"}, {"latent": "student-t"}], ids=str)
def test_without_tails_of_its_own_a_flow_stays_as_it_is(options):
    approx = flow(lambda x: -(x**2), **options)
    assert len(fitted_tails(approx, judge("", approx, approx.latent_draws(2000, 1)), 1)) == 0
