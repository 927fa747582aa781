"""Graphs at many draws: what one draw does must not touch another."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import bridge
import pymc_ext as px
from pymc_ext.over_draws import checked, over_draws

THETA = np.array([[1.0], [0.5], [-0.5]])


def free_scale(check_bounds: bool = True) -> pm.Model:
    with pm.Model(check_bounds=check_bounds) as model:
        x = pm.Normal("x", 1.0, 0.3)
        pm.Normal("y", 0.0, x, observed=np.ones(3))  # nothing keeps the scale positive
    return model


def truth(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        likelihood = 3 * stats.norm.logpdf(1.0, 0.0, x)
    return np.where(x > 0, stats.norm.logpdf(x, 1.0, 0.3) + likelihood, -np.inf)


@pytest.mark.parametrize("mode", [{}, {"mode": "FAST_COMPILE"}])
def test_a_draw_outside_its_domain_leaves_the_others_alone(mode):
    approx = px.BernsteinVI(px.FlowShape(3, (4,)), model=free_scale(), random_seed=1).approx
    approx.compile_kwargs = mode
    np.testing.assert_allclose(approx.log_p(THETA), truth(THETA[:, 0]), rtol=1e-12)


def test_the_same_in_the_bridge():
    target = bridge.pymc_target(free_scale())
    np.testing.assert_allclose(target.log_density(THETA), truth(THETA[:, 0]), rtol=1e-12)
    gradient = target.log_density_gradient(THETA[:2])[1]
    step = 1e-6
    difference = (truth(THETA[:2, 0] + step) - truth(THETA[:2, 0] - step)) / (2 * step)
    np.testing.assert_allclose(gradient[:, 0], difference, rtol=1e-7, atol=1e-8)


def test_a_model_that_does_not_check_is_not_checked():
    approx = px.BernsteinVI(
        px.FlowShape(3, (4,)), model=free_scale(check_bounds=False), random_seed=1
    ).approx
    approx.compile_kwargs = {"mode": "FAST_COMPILE"}
    with np.errstate(invalid="ignore"):
        value = approx.log_p(THETA)
    np.testing.assert_allclose(value[:2], truth(THETA[:2, 0]), rtol=1e-12)
    assert np.isnan(value[2])


def test_what_depends_on_no_draw_is_repeated():
    x, rows = pt.vector("x"), pt.matrix("rows")
    constant, total = over_draws([pt.ones(2) * 3, x.sum()], {x: rows}, rows.shape[0])
    value = constant.eval({rows: np.ones((4, 3))})
    np.testing.assert_array_equal(value, np.full((4, 2), 3.0))
    np.testing.assert_array_equal(total.eval({rows: np.ones((4, 3))}), np.full(4, 3.0))


def test_graphs_without_checks_stay_as_they_are():
    x = pt.scalar("x")
    node = pt.exp(x)
    assert checked([node])[0] is node
