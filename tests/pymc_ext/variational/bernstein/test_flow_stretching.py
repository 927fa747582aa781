"""Stretched tails of a flow's latent variables: the map, its fit to weights, and the choice."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.maths.stretched_tails import START, stretched, unstretch
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.polish import stages, stretching
from pymc_ext.variational.bernstein.polish.policy import POLICY
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage, measure
from pymc_ext.variational.bernstein.polish.stretching import fitted_tails
from pymc_ext.variational.bernstein.shape import FlowShape
from tests.tolerances import EXACT, NUMERIC, monte_carlo

DRAWS, LENGTHS = POLICY.stretching_draws, POLICY.stretching_lengths
PYTHON = {"mode": "FAST_COMPILE"}
LAW = np.array([[0.0], [2.0]])  # a of the left tail and of the right


def evaluate(*outputs):
    return [x.eval(**PYTHON) for x in outputs]


def log_density(x, a):
    """log density of s(v; a), v from N(0, 1)."""
    v = unstretch(x, a)
    return -0.5 * v**2 - 0.5 * np.log(2 * np.pi) - stretched(v, a)[1]


def flow(log_p, **options):
    """A flow at (nearly) N(0, 1), for a target with one variable."""
    density = CallableDensity(lambda x: log_p(x).sum(1), np.zeros_like, dimension=1)
    algorithm = Bernstein(FlowShape(10, **options))
    density = CountedDensity(density)
    return FlowFit(algorithm.make_flow(density, np.zeros(1), 1), density)


@pytest.mark.parametrize("a", [0.0, 0.3, 4.0, 10.0])
def test_the_map_has_an_inverse_and_the_slope_it_says(a):
    v, amount, h = np.linspace(-40, 40, 4001)[:, None], np.array([[a], [a / 2]]), 1e-6
    s, log_slope = stretched(v, amount)
    for numbers, graph in zip((s, log_slope), evaluate(*stretched(pt.constant(v), amount, pt)),
                              strict=True):  # fmt: skip
        np.testing.assert_allclose(numbers, graph, rtol=EXACT)
    back = unstretch(s, amount)
    np.testing.assert_allclose(evaluate(unstretch(pt.constant(s), amount, pt))[0], back, rtol=EXACT)
    np.testing.assert_allclose(back, v, rtol=EXACT, atol=EXACT)
    ahead, behind = (stretched(v + d, amount)[0] for d in (h, -h))
    np.testing.assert_allclose(np.exp(log_slope), (ahead - behind) / (2 * h), rtol=NUMERIC)
    middle = np.abs(v) <= START
    np.testing.assert_array_equal(s[middle], v[middle])
    assert np.all(np.sign(v) * (s - v) <= a)


class LatentTarget:
    """q's latent variable against a target which is a stretched normal itself."""

    def __init__(self, law):
        self.flow, self.law = SimpleNamespace(stretch=np.zeros((2, 1))), law

    def log_ratios(self, z):
        x, log_slope = stretched(z, self.flow.stretch)
        log_q = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_slope
        return (log_density(x, self.law) - log_q).sum(-1)


def test_a_fit_finds_the_tails_of_the_target():
    approx, rng = LatentTarget(LAW), np.random.default_rng(2)
    plain = measure("", approx, rng.standard_normal((50_000, 1)))
    fitted = stretching._fitted(approx, rng.standard_normal((DRAWS, 1)))
    # information of a draw about a, by differences of the log density at draws of the target
    x = stretched(rng.standard_normal((100_000, 1)), LAW)[0]
    above, below = (log_density(x, LAW + d) for d in (0.01, -0.01))
    se = 1 / np.sqrt(DRAWS * np.mean(((above - below)[x > 0] / 0.02) ** 2) / 2)
    assert fitted[1, 0] == pytest.approx(LAW[1, 0], abs=monte_carlo(se))
    assert fitted[0, 0] < 2 * monte_carlo(se)
    longer = measure("", approx, rng.standard_normal((50_000, 1)))
    assert 10 * abs(longer.elbo) < abs(plain.elbo)


def test_stretching_lowers_khat_under_an_exponential_tail_and_is_in_place():
    approx = flow(lambda x: np.where(x < -2, x, -0.5 * x**2), tails="linear")
    z = np.random.default_rng(3).standard_normal((50_000, 1))
    plain = measure("ELBO", approx, z)
    tails = fitted_tails(approx, plain, np.random.default_rng(4))
    np.testing.assert_array_equal(approx.flow.stretch.copy(), 0.0)
    stage = stretching.stretch_tails(
        approx, z, plain, -np.inf, tails, policy=replace(POLICY, good_khat=-1.0)
    )
    assert stage.khat < plain.khat - 0.1
    again = measure("", approx, z)
    assert (again.elbo, again.khat) == (stage.elbo, stage.khat)


@pytest.mark.parametrize("khats", [[0.4, 0.35], [0.25], [0.5, 0.48]])
def test_longer_tails_than_fitted_are_tried_where_the_fit_does_not_do(khats, monkeypatch):
    approx, scripted, tried = flow(lambda x: log_density(x, LAW)), iter(khats), []

    def next_stage(name, *_):
        tried.append(approx.flow.stretch.copy())
        return Stage(name, 0.0, next(scripted), 0.9)

    monkeypatch.setattr(stages, "measure", next_stage)
    plain = Stage("ELBO", 0.0, 0.5, 0.9)
    tails = fitted_tails(approx, plain, np.random.default_rng(1))
    stage = stretching.stretch_tails(approx, None, plain, -1.0, tails)
    kept = approx.flow.stretch.copy()
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
    tails = fitted_tails(approx, plain, np.random.default_rng(1))
    assert len(tails) == 0
    assert stretching.stretch_tails(approx, None, plain, -np.inf, tails) is None


@pytest.mark.parametrize("options", [{"input_map": "f2"}, {"latent": "student-t"}], ids=str)
def test_without_tails_of_its_own_a_flow_stays_as_it_is(options):
    approx = flow(lambda x: -(x**2), **options)
    rng = np.random.default_rng(1)
    z = rng.standard_normal((2000, approx.flow.latent_dimension))
    assert len(fitted_tails(approx, measure("", approx, z), rng)) == 0
