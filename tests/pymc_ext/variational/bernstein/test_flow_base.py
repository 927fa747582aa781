"""A flow on a fitted base: exact coordinates, its order, and never worse than it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_ext as px
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.base import Hierarchy
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.bernstein.training.loops import DensityLoop
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from tests.pymc_ext.variational.hierarchical.test_hierarchical_map import a_map
from tests.tolerances import EXACT

D = 5


def on_a_map(form: str = "dense", **options) -> BernsteinFlow:
    """A flow far from the identity on a map far from a Gaussian."""
    rng = np.random.default_rng(3)
    shape = FlowShape(**{"order": 4, "hidden": (5, 5), **options})
    flow = BernsteinFlow(shape, Hierarchy(a_map(form)), 2, rng)
    flow.set(flow.x + 0.3 * rng.standard_normal(flow.x.shape))
    return flow


def funnel(size: int = 3):
    """log τ ~ N(0, 1), the others N(0, τ²): a density whose log Z is 0."""

    def log_density(t):
        rest = np.sum((t[:, 1:] * np.exp(-t[:, :1])) ** 2, axis=1)
        return (
            -0.5 * t[:, 0] ** 2 - size * t[:, 0] - 0.5 * rest - 0.5 * (size + 1) * np.log(2 * np.pi)
        )

    def score(t):
        square = (t[:, 1:] * np.exp(-t[:, :1])) ** 2
        first = square.sum(axis=1) - size - t[:, 0]
        return np.column_stack([first, -t[:, 1:] * np.exp(-2 * t[:, :1])])

    names = ["log_tau", *(f"x.{i}" for i in range(size))]
    return CallableDensity(log_density, score, dimension=size + 1, names=names)


@pytest.mark.parametrize("form", ["dense", "arrow"])
def test_log_q_anywhere_is_that_of_the_draws(form):
    flow = on_a_map(form)
    theta, log_q = flow.forward(np.random.default_rng(1).standard_normal((20, D)))
    np.testing.assert_allclose(flow.log_density(theta), log_q, rtol=1e-9, atol=1e-9)


def test_graphs_under_pm_fit_call_back_to_the_flow():
    with pm.Model() as model:
        pm.Normal("x", shape=D - 1)
        pm.Normal("s")
    shape = FlowShape(4, (5, 5))
    group = px.BernsteinVI(shape, base="hierarchical", model=model, random_seed=1).approx.group
    flow = BernsteinFlow(shape, on_a_map().base, group.held.q.leading, np.random.default_rng(4))
    group.hold(flow)
    z = np.random.default_rng(2).standard_normal((6, D))
    graph = pytensor.function(
        [group.symbolic_initial],
        [group.symbolic_random, group.symbolic_logq_not_scaled],
        mode="FAST_COMPILE",
    )
    for numbers, symbols in zip(flow.forward(z), graph(z), strict=True):
        np.testing.assert_allclose(numbers, symbols, rtol=EXACT)
    assert group.held.q is flow


def test_the_total_gradient_is_that_of_the_loss():
    flow, density = on_a_map(), CountedDensity(funnel(D - 1))
    z = np.random.default_rng(5).standard_normal((4, D))
    loop = DensityLoop(flow, density, StepOptions(gradient="total"), np.random.default_rng(1))
    gradient = loop.loss_and_gradient(z)[1]
    for i in np.flatnonzero(flow.mask)[::7]:
        losses = []
        for sign in (1, -1):
            flow.x[i] += sign * 1e-5
            losses.append(loop.loss_and_gradient(z)[0])
            flow.x[i] -= sign * 1e-5
        difference = (losses[0] - losses[1]) / 2e-5
        np.testing.assert_allclose(gradient[i], difference, rtol=2e-5, atol=1e-4)


def test_the_score_of_q_is_that_of_differences_along_its_draws():
    flow, h = on_a_map(), 1e-6
    z = np.random.default_rng(6).standard_normal((9, D))
    tape = flow.trace(z)
    by_base = tape.target_score(np.zeros_like(z))  # of log|det ∂θ/∂y| alone
    for step in h * np.eye(D):
        (above, up), (below, down) = flow.forward(z + step), flow.forward(z - step)
        along = flow.coordinates(above) - flow.coordinates(below)
        by_y = np.sum((flow.score(tape) - by_base) * along, axis=1)
        np.testing.assert_allclose(by_y / h, (up - down) / h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"input_map": "f2"}, {"tails": "linear"}], ids=str)
def test_a_flow_that_changes_nothing_is_its_base(options):
    flow = on_a_map(**options)
    flow.set(flow.identity())
    z = 3 * np.random.default_rng(7).standard_normal((50, D))
    for own, base in zip(flow.forward(z), flow.base.map.forward(z), strict=True):
        np.testing.assert_allclose(own, base, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("options", [{"tails": "bounded"}, {"latent": "logistic"}], ids=str)
def test_not_every_shape_has_such_a_flow(options):
    assert on_a_map(**options).identity() is None


def test_a_flow_starts_from_the_map_in_its_order():
    density = funnel()
    base = Hierarchical().fit(density, random_seed=1)
    algorithm = Bernstein(FlowShape(10), base="hierarchical", polish=None)
    fitted = algorithm.fit(density, n=5, random_seed=1)
    np.testing.assert_array_equal(fitted.q.base.order, base.q.order)
    assert fitted.q.base.order[0] == 0  # the governor comes first
    z = np.random.default_rng(8).standard_normal((2000, 4))
    np.testing.assert_allclose(fitted.q.base.forward(z)[0], base.q.forward(z)[0], rtol=EXACT)
    assert fitted.result.gradient_evaluations >= base.result.gradient_evaluations


def test_a_flow_that_training_left_worse_is_its_map_again():
    density = funnel()
    algorithm = Bernstein(FlowShape(10), base="hierarchical", polish=None)
    fitted = algorithm.fit(density, n=1, random_seed=1)
    fitted.q.values["beta"][...] = 0.5  # as a diverged training might
    fitted = algorithm.fit(density, n=1, random_seed=1, state=fitted.state)
    assert "worse than its base" in fitted.result.notes[0]
    z = np.random.default_rng(9).standard_normal((100, 4))
    base = Hierarchical().fit(density, random_seed=1).q
    for own, known in zip(fitted.q.forward(z), base.forward(z), strict=True):
        np.testing.assert_allclose(own, known, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("family", [px.HierarchicalVI, px.BatchMatchVI])
def test_a_flow_starts_from_a_q_that_was_fitted(family):
    with pm.Model():
        tau = pm.Normal("log_tau", 0, 1)
        pm.Normal("x", 0, pm.math.exp(tau), shape=3)
        base = pm.fit(method=family(random_seed=1), progressbar=False)
        method = px.BernsteinVI(FlowShape(10), base=base.q, polish=None, random_seed=1)
        flow = pm.fit(3, method=method, progressbar=False)
    z = np.random.default_rng(8).standard_normal((2000, 4))
    assert abs(np.mean(flow.log_ratios(z)) - base.result.elbo) < 0.5  # three steps from it
    draws = flow.sample(4000, random_seed=1).posterior["x"].values  # by the group's own graphs
    numbers = flow.q.forward(np.random.default_rng(2).standard_normal((4000, 4)))[0][:, 1:]
    np.testing.assert_allclose(
        np.quantile(draws, [0.25, 0.75]), np.quantile(numbers, [0.25, 0.75]), atol=0.1
    )


def test_what_has_no_map_says_so():
    a_map_of_one = Hierarchical().fit(funnel(), random_seed=1).q
    with pytest.raises(ValueError, match="brings an order of its own"):
        Bernstein(FlowShape(ordering=["x"]), base=a_map_of_one)
    with pytest.raises(ValueError, match=r"must have shapes \(2,\).* got \(4,\)"):
        Bernstein(FlowShape(5), base=a_map_of_one).fit(
            CallableDensity(lambda x: -(x**2).sum(1), lambda x: -2 * x, dimension=2), n=1
        )
    with pytest.raises(ValueError, match="base='hierarchical' brings an order of its own"):
        Bernstein(FlowShape(ordering=["x"]), base="hierarchical")
    with pm.Model() as model:
        pm.Normal("x")
    for base in ("hierarchical", "auto", a_map_of_one):
        with pytest.raises(ValueError, match="there is no graph for JAX"):
            px.BernsteinVI(base=base, backend="jax", model=model)
