"""Li, John & Solin's alternation of E- and M-steps beside the exact gradient of the evidence."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.gp import lbfgs
from pymc_ext.gp.lbfgs import _wall
from pymc_ext.gp.solver import Solver
from tests.tolerances import EXACT


@pytest.fixture(scope="module")
def model_and_gp():
    """Compiled once: the rule and the evidence formula are no part of the graph."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=14) > 0).astype(int)
    with pm.Model() as model:
        ls, scale = pm.InverseGamma("ls", 3, 3), pm.HalfNormal("scale", 2)
        gp = px.gp.Approximate(
            cov_func=scale**2 * pm.gp.cov.Matern52(2, ls=ls), likelihood=px.gp.BernoulliProbit()
        )
        gp.marginal_likelihood("y", X=X, y=y)
    return model, gp


def learn(model_and_gp, rule, learning, *args, **kwargs):
    model, gp = model_and_gp
    gp.solver = Solver(gp.likelihood, rule, learning)
    return px.gp.fit_hyperparameters(gp, *args, model=model, **kwargs)


def test_hybrid_stops_with_a_reason(model_and_gp) -> None:
    joint = learn(model_and_gp, px.gp.CVI(), "ep")
    found = learn(model_and_gp, px.gp.CVI(), "ep", "alternating", learning_rate=0.05)
    assert found.stop_reason in ("the learning objective fell", "the hyperparameters rest")
    assert found.objective == pytest.approx(max(found.trace), abs=1e-6)
    assert found.objective <= joint.objective + 0.05 * abs(joint.objective)
    assert found.steps == 20 * len(found.trace)


@pytest.mark.parametrize("learning", [None, "ep"])
def test_the_start_is_returned_where_nothing_is_better(model_and_gp, learning) -> None:
    best = learn(model_and_gp, px.gp.CVI(), learning)
    start = {name: best.point[name] for name in ("ls", "scale")}
    options = {"start": start, "learning_rate": 0.2}
    found = learn(model_and_gp, px.gp.CVI(), learning, "alternating", **options)
    assert found.trace[0] < best.objective - 1e-3  # falls, and goes on
    assert len(found.trace) > 2
    assert found.objective == pytest.approx(best.objective, rel=EXACT)
    assert found.objective >= max(found.trace)
    assert found.point["ls"] == pytest.approx(best.point["ls"], rel=EXACT)
    assert found.stop_reason.endswith("below the start, which is returned")
    assert not found.converged


def test_an_evidence_that_is_no_number_ends_the_alternation(model_and_gp, monkeypatch) -> None:
    held, calls = Solver.held_gradient, iter(range(10_000))

    def fails_later(*args):
        if next(calls) == 50:
            raise px.gp.ConvergenceError("the evidence is -inf")
        return held(*args)

    monkeypatch.setattr(Solver, "held_gradient", fails_later)
    found = learn(model_and_gp, px.gp.CVI(), "ep", "alternating")
    assert found.stop_reason.endswith("evidence is known: the evidence is -inf")
    assert len(found.trace) == 2 and found.objective == found.trace[-1]


def test_a_first_fall_that_is_made_good_changes_nothing(model_and_gp) -> None:
    options = {"start": {"ls": 0.8, "scale": 0.55}, "learning_rate": 0.2}
    short = learn(model_and_gp, px.gp.CVI(), None, "alternating", max_iterations=1, **options)
    found = learn(model_and_gp, px.gp.CVI(), None, "alternating", **options)
    assert found.trace[0] < short.objective < found.objective
    assert found.objective == pytest.approx(max(found.trace), rel=EXACT)
    assert "start" in short.stop_reason and "start" not in found.stop_reason


def test_on_the_elbo_it_reaches_the_maximum(model_and_gp) -> None:
    joint = learn(model_and_gp, px.gp.CVI(rho=0.5), None)
    options = {"learning_rate": 0.05, "tolerance": 1e-5}
    steps = learn(model_and_gp, px.gp.CVI(rho=0.5), None, "alternating", **options)
    assert steps.objective == pytest.approx(joint.objective, abs=2e-3)


def climb(max_iterations: int = 2000):
    """L-BFGS on an evidence that is a narrow, curved ridge with its maximum six windows away."""
    theta, n = np.zeros(30), 30
    scales, target = np.logspace(0, 4, n), np.linspace(-6, 6, n)

    def at(theta):
        away = theta - target
        return -0.5 * scales @ away**2 / (1 + 0.01 * away @ away), away

    def slope(theta, _):
        value, away = at(theta)
        return (-scales * away - 0.02 * value * away) / (1 + 0.01 * away @ away)

    solver = SimpleNamespace(
        solve=lambda y, phi, prior: SimpleNamespace(value=at(phi)[0]),
        gradient=lambda y, phi, prior: (),
    )
    graph = SimpleNamespace(y=None, forward=lambda t: ((t,), 0.0), backward=slope)
    box = np.array([np.full(n, -12.0), np.full(n, 12.0)])
    return lbfgs.climb(solver, graph, theta, box, max_iterations, lambda loss: None)


def test_windows_whose_maximum_is_at_the_edge_are_left_early(monkeypatch) -> None:
    quick, halfway = climb(), climb(800)[2]
    monkeypatch.setattr(lbfgs, "FIRST_GAIN", lbfgs.LAST_GAIN)
    thorough = climb()
    for theta, _, value, _, converged, _ in (quick, thorough):
        assert converged
        assert value == pytest.approx(0.0, abs=1e-6)
        np.testing.assert_allclose(theta, np.linspace(-6, 6, 30), atol=1e-3)
    assert quick[5] < thorough[5]
    assert halfway > climb(800)[2]  # how much higher depends on the rounding of the machine


@pytest.mark.parametrize("iterations", [1, 3, 10, 25])
def test_a_climb_cut_short_has_not_converged(iterations) -> None:
    found = climb(iterations)
    assert not found[4]
    assert "ITERATIONS" in found[3].upper() and "CONVERGENCE" not in found[3]


def test_an_evidence_that_jumps_is_told() -> None:
    """One whose values and gradient disagree: no step along it improves."""

    def at(theta):
        return SimpleNamespace(value=-float(np.floor(1e3 * np.abs(theta).sum())))

    graph = SimpleNamespace(
        y=None, forward=lambda theta: ((theta,), 0.0), backward=lambda theta, bars: bars
    )
    solver = SimpleNamespace(
        solve=lambda y, phi, prior: at(phi), gradient=lambda y, phi, prior: np.ones(2)
    )
    theta, box = np.full(2, 0.3), np.array([[-9.0, -9.0], [9.0, 9.0]])
    *_, reason, converged, _ = lbfgs.climb(solver, graph, theta, box, 50, lambda loss: None)
    assert reason == lbfgs.ROUGH
    assert not converged


def test_far_maxima_are_reached_in_windows(model_and_gp) -> None:
    near = learn(model_and_gp, px.gp.CVI(), None)
    far = learn(model_and_gp, px.gp.CVI(), None, start={"ls": 0.01, "scale": 20.0})
    assert far.converged and not far.active_bounds
    assert far.objective == pytest.approx(near.objective, abs=1e-6)


def test_rules_without_damped_steps_are_refused(model_and_gp) -> None:
    with pytest.raises(ValueError, match=r"method='alternating' needs rule=CVI\(\), got Laplace"):
        learn(model_and_gp, px.gp.Laplace(), None, "alternating")


class _Cliff(Solver):
    """Evidence −1000 (log noise + 0.4)², not found below log noise < −0.5, nor a second time."""

    def __init__(self, learned: Solver):
        self.__dict__.update(learned.__dict__)
        self.seen: list[float] = []

    def solve(self, y, phi, prior_inputs):
        u = np.log(phi[0])
        if u < -0.5 or u in self.seen:
            raise px.gp.ConvergenceError("beyond the cliff")
        self.seen.append(u)
        return SimpleNamespace(value=-1e3 * (u + 0.4) ** 2)

    def gradient(self, y, phi, prior_inputs):
        u = np.log(phi[0])
        return (np.array([-2e3 * (u + 0.4) / phi[0]]), *(np.zeros_like(x) for x in prior_inputs))


def test_refused_trial_points_do_not_stop_the_search() -> None:
    with pm.Model() as model:
        noise = pm.HalfFlat("noise", initval=2.0)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.ExpQuad(1, ls=1.0), likelihood=px.gp.Gaussian(noise)
        )
        gp.marginal_likelihood("y", X=np.zeros((2, 1)), y=[0.0, 1.0])
    gp.solver = _Cliff(gp.solver)
    fit = px.gp.fit_hyperparameters(gp, model=model)
    assert fit.point["noise"] == pytest.approx(np.exp(-0.4), rel=1e-5)


@pytest.mark.parametrize("value", [-250.0, 0.0, 3.0])
def test_the_wall_around_refused_points_is_a_parabola_with_its_foot_at_the_best(value) -> None:
    best, refused = np.array([0.5, -1.0]), np.array([1.5, 1.0])
    height, slope = _wall(best, value, refused)
    rise = height + value  # above the best point, where the loss is -value
    assert rise >= 1
    assert height == pytest.approx(-value + 1 + abs(value), rel=EXACT)
    assert slope @ (refused - best) == pytest.approx(2 * rise, rel=EXACT)  # of rise t² at t = 1
    assert slope[0] * 2.0 == pytest.approx(slope[1] * 1.0, rel=EXACT)  # along refused - best
    at_best = _wall(best, value, best.copy())
    assert np.all(np.isfinite(at_best[1])) and at_best[0] == height


@pytest.mark.parametrize("method", ["l-bfgs", "alternating"])
def test_energies_above_zero_end_the_search_unconverged(method) -> None:
    """Few inducing inputs and a wide prior: CVI's sites are far from EP's."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, (40, 1))
    y = (2 * np.sin(1.5 * X[:, 0]) + rng.normal(size=40) > 0).astype(int)
    with pm.Model() as model:
        scale = pm.HalfFlat("scale", initval=6.0)
        gp = px.gp.Approximate(
            cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=0.3),
            likelihood=px.gp.BernoulliProbit(), learning="ep",
        )  # fmt: skip
        gp.marginal_likelihood("y", X=X, y=y, Xu=X[:8])
    logp = model.compile_logp(vars=model.observed_RVs)
    assert logp({"scale_log__": 0.0}) < 0
    with pytest.raises(px.gp.ConvergenceError, match="above 0, which no log probability is"):
        gp.solver.solve(*gp_inputs(gp, model, scale=1e3))
    fit = px.gp.fit_hyperparameters(gp, method, learning_rate=0.1, progressbar=False, model=model)
    assert fit.evidence <= 0
    assert not fit.converged
    assert "above 0" in fit.stop_reason


def gp_inputs(gp, model, **point):
    """Arguments of the solver there."""
    graph = gp.graph(model)
    (phi, *inputs), _ = graph.forward(graph.flatten(graph.transformed(point)))
    return graph.y, phi, tuple(inputs)
