"""Widening of a flow's latent variables: what it costs, and when it is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.density import CountedDensity
from pymc_ext.variational.bernstein.polish import stages
from pymc_ext.variational.bernstein.polish.policy import POLICY
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage, measure
from pymc_ext.variational.bernstein.polish.widening import factors, widen
from tests.tolerances import EXACT


def flow(sd: float, D: int = 1, **options):
    """A flow at (nearly) N(0, I), for a target N(0, sd² I)."""
    with pm.Model():
        pm.Normal("x", 0.0, sd, shape=D)
        method = px.BernsteinVI(px.FlowShape(10, (4,), **options), polish=None, random_seed=1)
        approx = pm.fit(
            0, method=method, progressbar=False, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    return FlowFit(approx.q, CountedDensity(approx.density))


@pytest.mark.parametrize("cost", POLICY.widening_costs)
@pytest.mark.parametrize(("leading", "dim"), [(0, 1), (2, 2), (2, 10), (1, 300)])
def test_the_cost_does_not_depend_on_the_number_of_variables(cost, leading, dim):
    s = factors(cost, leading, dim, POLICY.leading_share)
    assert s.shape == (dim,)
    kl = np.sum(s**2 - 1 - np.log(s**2)) / 2  # KL(N(0, diag s²) ‖ N(0, I))
    assert kl == pytest.approx(cost, rel=0.1)
    if 0 < leading < dim:
        assert s[:leading].min() > s[leading:].max()


def test_widening_lowers_khat_of_a_flow_with_light_tails():
    approx = flow(sd=1.06, D=2, tails="linear")
    z = np.random.default_rng(3).standard_normal((50_000, 2))
    plain, alpha = measure("ELBO", approx, z), approx.flow.values["alpha"].copy()
    assert plain.khat > 0.3
    wide = widen(approx, z, plain, -np.inf, policy=replace(POLICY, good_khat=-1.0))
    assert wide.khat < 0.2
    assert plain.elbo - 1.5 * POLICY.widening_costs[-1] < wide.elbo < plain.elbo
    new = approx.flow.values["alpha"].copy()
    np.testing.assert_allclose(
        np.logaddexp(0, new),
        (1 + np.sqrt(POLICY.widening_costs[-1] / 2)) * np.logaddexp(0, alpha),
        rtol=EXACT,
    )
    again = measure("", approx, z)
    assert (again.elbo, again.khat) == (wide.elbo, wide.khat)  # what was chosen is in place


@pytest.mark.parametrize(
    ("khats", "elbo", "chosen"),
    [
        ([0.4, 0.35], 0.0, 1),  # the lowest, as none is good
        ([0.35, 0.4], 0.0, 0),
        ([0.25, 0.1], 0.0, 0),  # the first good one; the later ones are not tried
        ([0.9, 0.48], 0.0, None),  # a fall no larger than k̂'s own scatter
        ([0.25, 0.1], -1.1, None),  # too dear
    ],
)
def test_choice(khats, elbo, chosen, monkeypatch):
    approx, scripted, seen = flow(sd=1.0, D=3), iter(khats), []
    alpha = approx.flow.values["alpha"]
    before = alpha.copy()

    def next_stage(name, *_):
        seen.append(alpha.copy())
        return Stage(name, elbo, next(scripted), 0.9)

    monkeypatch.setattr(stages, "measure", next_stage)
    two = replace(POLICY, widening_costs=(0.03, 0.045))
    stage = widen(approx, None, Stage("ELBO", 0.0, 0.5, 0.9), -1.0, policy=two)
    if chosen is None:
        assert stage is None
        np.testing.assert_array_equal(alpha.copy(), before)
    else:
        assert stage.khat == khats[chosen]
        np.testing.assert_array_equal(alpha.copy(), seen[chosen])
        assert len(seen) == (1 if khats[chosen] < 0.3 else 2)


def test_an_input_map_without_a_scale_is_left_alone():
    approx = flow(sd=1.25, input_map="f2")
    assert widen(approx, np.zeros((10, 1)), Stage("ELBO", 0.0, 0.5, 0.9), -1.0) is None
