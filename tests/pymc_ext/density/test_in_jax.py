"""The log density of a PyMC model as a JAX function: the same numbers, the same gradients."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_ext.density.counted import Clock
from pymc_ext.density.in_jax import jax_log_density
from pymc_ext.density.model import PyMCDensity
from pymc_ext.density.rows import of_few_shapes
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


def _regression() -> pm.Model:
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        slope, noise = pm.Normal("slope", 0, 2, shape=2), pm.HalfNormal("noise", 3)
        x = rng.normal(size=20)
        pm.Normal("y", slope[0] + slope[1] * x, noise, observed=rng.normal(size=20))
    return model


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_density_that_runs_in_jax_gives_numpy_arrays_to_write_to(count: int) -> None:
    model = _regression()
    theta = np.random.default_rng(count).normal(size=(count, 3))
    found = PyMCDensity(model, compile_kwargs={"mode": "JAX"}).log_density_gradient(theta)
    for array, expected in zip(found, PyMCDensity(model).log_density_gradient(theta), strict=True):
        assert type(array) is np.ndarray and array.flags.writeable
        np.testing.assert_allclose(array, expected, rtol=EXACT)


def test_gradients_of_hyperparameters_count_no_row_twice() -> None:
    """Sums over rows, which must not hold the rows that fill a shape."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        x = pm.Normal("x", 0, scale, shape=3)
        pm.Normal("y", x, 1.0, observed=np.arange(3.0))
    shared = pytensor.shared(np.array([0.3]))
    theta, weights = np.random.default_rng(2).normal(size=(5, 3)), np.full(5, 0.2)
    found = [
        PyMCDensity(
            model, [x], point=([scale], shared), compile_kwargs={"mode": mode} if mode else {}
        ).weighted_gradients(theta, weights)
        for mode in (None, "JAX")
    ]
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=EXACT)


def test_jax_compiles_powers_of_two_of_rows_on_the_clock() -> None:
    shapes: list[int] = []

    def function(rows: np.ndarray) -> list[np.ndarray]:
        shapes.append(len(rows))
        return [rows.sum(axis=1), 2 * rows]

    clock = Clock()
    call = of_few_shapes(function, clock)
    for count in (1, 2, 3, 4, 5, 7, 8):
        rows = np.arange(2.0 * count).reshape(count, 2)
        total, twice = call(rows)
        np.testing.assert_array_equal(total, rows.sum(axis=1))
        np.testing.assert_array_equal(twice, 2 * rows)
    assert shapes == [1, 2, 4, 4, 8, 8, 8]
    first = clock.seconds
    call(np.ones((6, 2)))
    assert clock.seconds == first > 0  # 8 rows were compiled before
