"""The log density of a PyMC model as a JAX function: the same numbers, the same gradients."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_ext.density.in_jax import jax_log_density
from pymc_ext.density.model import PyMCDensity
from tests.needed import needs
from tests.tolerances import EXACT

jax = needs("jax")


def test_value_and_gradient_are_those_of_the_density() -> None:
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        x = pm.Data("x", rng.normal(size=20))
        slope, noise = pm.Normal("slope", 0, 2, shape=2), pm.HalfNormal("noise", 3)
        pm.Normal("y", slope[0] + slope[1] * x, noise, observed=rng.normal(size=20))
    density = PyMCDensity(model)
    found = jax.jit(jax.value_and_grad(jax_log_density(density)))
    points = rng.normal(size=(5, 3))
    lp, scores = density.log_density_gradient(points)
    for i, point in enumerate(points):
        value, score = found(point)
        assert float(value) == pytest.approx(lp[i], rel=EXACT)
        np.testing.assert_allclose(score, scores[i], rtol=EXACT)


def test_outside_its_domain_a_parameter_gives_minus_infinity() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", 0, mu, observed=1.0)  # a scale that may be negative
    function = jax.jit(jax_log_density(PyMCDensity(model)))
    assert float(function(np.array([-1.0]))) == -np.inf
    assert np.isfinite(float(function(np.array([1.0]))))


class Foreign(Op):
    """x ↦ x, known to nobody else."""

    def make_node(self, x: pt.TensorVariable) -> Apply:
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: list, outputs: list) -> None:
        outputs[0][0] = np.array(inputs[0])


def test_an_operation_that_jax_does_not_have_is_told() -> None:
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("p", Foreign()(x))
    with pytest.raises(NotImplementedError, match="Foreign"):
        jax_log_density(PyMCDensity(model))
