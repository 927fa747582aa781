"""A flow as coordinates of a sampler: its pullback, its inverse, what it does not serve."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, DensityInCoordinates
from pymc_ext.density.coordinates import as_transport
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.latents import Logistic
from pymc_ext.variational.bernstein.shape import FlowShape
from tests.needed import needs
from tests.tolerances import monte_carlo

D = 3
COV = np.array([[1.2, 0.6, 0.0], [0.6, 2.2, 0.3], [0.0, 0.3, 0.7]])
SHAPES = [
    {},
    {"tails": "linear"},
    {"latent": "logistic"},
    {"input_map": "f2"},
    {"conditioning": "latent"},
    {"conditioning": "squashed"},
]
BOUNDED = [{"tails": "bounded"}, {"input_map": "f3"}]


def disturbed(**options) -> BernsteinFlow:
    """A flow far from the identity, on a base of its own, with stretched tails where it may."""
    rng = np.random.default_rng(1)
    shape = FlowShape(**{"order": 4, "hidden": (5, 5), **options})
    flow = BernsteinFlow(
        shape, Affine.of(np.array([2, 0, 1]), np.array([0.3, -0.2, 0.1]), COV), 1, rng
    )
    flow.set(flow.x + 0.3 * rng.standard_normal(flow.x.shape))
    if shape.input_map == "f1":
        flow.stretch[...] = rng.uniform(0, 1, flow.stretch.shape)
    return flow


def wavy() -> CallableDensity:
    return CallableDensity(
        lambda x: -0.5 * (x**2).sum(1) + np.sin(x[:, 0] * x[:, 1]),
        lambda x: -x + np.cos(x[:, 0] * x[:, 1])[:, None] * x[:, [1, 0, 2]] * [1, 1, 0],
        dimension=D,
    )


@pytest.mark.parametrize("options", SHAPES + BOUNDED, ids=str)
def test_the_score_in_its_coordinates_is_the_derivative(options):
    density = DensityInCoordinates(wavy(), disturbed(**options))
    z = 1.5 * np.random.default_rng(2).standard_normal((20, D))
    value, score = density.log_density_gradient(z)
    np.testing.assert_allclose(value, density.log_density(z), rtol=1e-12)
    h = 1e-5  # error h² of the difference, rounding 1e-15/h of values of about 10
    for j, step in enumerate(h * np.eye(D)):
        slope = (density.log_density(z + step) - density.log_density(z - step)) / (2 * h)
        np.testing.assert_allclose(score[:, j], slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(
        density.transport.pullback(z, z), density.transport.forward_with_pullback(z)[2](z)
    )


@pytest.mark.parametrize("options", SHAPES + BOUNDED, ids=str)
def test_its_inverse_undoes_it(options):
    flow = disturbed(**options)
    z = 1.5 * np.random.default_rng(3).standard_normal((20, D))
    np.testing.assert_allclose(flow.inverse(flow.forward(z)[0]), z, rtol=1e-6, atol=1e-7)


def test_far_normals_of_a_logistic_variable():
    z = np.array([-30.0, -8.0, 0.0, 8.0, 30.0])
    np.testing.assert_allclose(Logistic().normal_of(Logistic().draw(z, 5)), z, rtol=1e-12)


def test_only_flows_onto_the_space_serve():
    """Chains in the coordinates of one with bounded tails would stay within its range."""
    for options in SHAPES:
        flow = disturbed(**options)
        assert as_transport(flow) is flow
    for options in [*BOUNDED, {"latent": "student-t"}]:
        assert as_transport(disturbed(**options)) is None
    beyond = np.full((1, D), 1e3)
    assert np.isnan(disturbed(tails="bounded").inverse(beyond)).all()


def test_exact_draws_in_the_coordinates_of_a_wrong_flow():
    needs("nutpie")
    from pymc_ext.sampling.nutpie import NutpieNUTS

    target = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=D)
    extra = np.array([[2.0, -2.0, 2.0]])
    found = sample(
        target, disturbed(), NutpieNUTS(), Sampling(ess=1000), seed=1, extra_starts=extra
    )
    assert found.trusted and found.in_map
    draws = found.theta.reshape(-1, D)  # the ESS is the worst's: bounds of the errors
    assert np.abs(draws.mean(axis=0)).max() < monte_carlo(1 / np.sqrt(1000))
    assert np.abs((draws**2).mean(axis=0) - 1).max() < monte_carlo(np.sqrt(2 / 1000))
