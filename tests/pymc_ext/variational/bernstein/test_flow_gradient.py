"""Path gradients of a flow: the bound's in expectation, and none where q is the posterior."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_ext.density import CallableDensity, CountedDensity, PyMCDensity
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.bernstein.training.jax_loop import JaxLoop
from pymc_ext.variational.bernstein.training.loops import DensityLoop
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.gaussian.monte_carlo import MonteCarlo
from tests.needed import needs

D = 3
COV = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, 0.3], [0.0, 0.3, 0.5]])
PRECISION = np.linalg.inv(COV)


def normal():
    def log_density(x):
        return -0.5 * np.einsum("ni,ij,nj->n", x, PRECISION, x)

    return CallableDensity(log_density, lambda x: -x @ PRECISION, dimension=D)


def disturbed(seed: int = 1, **options) -> BernsteinFlow:
    """A flow far from the identity, on a base of its own, with stretched tails."""
    rng = np.random.default_rng(seed)
    shape = FlowShape(**{"order": 4, "hidden": (5, 5), **options})
    base = Affine.of(np.array([2, 0, 1]), np.array([0.3, -0.2, 0.1]), COV + 0.2)
    flow = BernsteinFlow(shape, base, 1, rng)
    flow.set(flow.x + 0.3 * rng.standard_normal(flow.x.shape))
    if shape.input_map == "f1" and shape.latent == FlowShape().latent:
        flow.stretch[...] = rng.uniform(0, 1, flow.stretch.shape)
    return flow


def loop(flow, density, gradient, **options) -> DensityLoop:
    options = StepOptions(gradient=gradient, **options)
    return DensityLoop(flow, CountedDensity(density), options, np.random.default_rng(1))


def assert_same_mean(path: DensityLoop, total: DensityLoop, batches: int = 1000) -> None:
    """Both estimators have one mean, to five standard errors of their difference."""
    z = np.random.default_rng(2)
    shape = path.draws, path.flow.latent_dimension
    differences = np.array(
        [
            path.loss_and_gradient(batch)[1] - total.loss_and_gradient(batch)[1]
            for batch in z.standard_normal((batches, *shape))
        ]
    )
    se = differences.std(axis=0) / np.sqrt(batches)
    size = len(path.flow.x)
    moved = np.r_[path.flow.mask > 0, np.ones(len(se) - size, dtype=bool)]  # others stay at zero
    assert (se[moved] > 0).any()
    assert np.all(np.abs(differences.mean(axis=0)) <= 5 * se + 1e-12, where=moved)


@pytest.mark.parametrize(
    "options",
    [{}, {"input_map": "f3"}, {"latent": "student-t"}, {"conditioning": "squashed"}],
    ids=str,
)
@pytest.mark.parametrize("group", [1, 5])
def test_path_and_total_gradients_have_one_mean(options, group):
    flow = disturbed(**options)
    path, total = (loop(flow, normal(), kind, group=group) for kind in ("path", "total"))
    assert_same_mean(path, total)


@pytest.mark.parametrize("group", [1, 5])
def test_there_is_no_noise_where_q_is_the_posterior(group):
    flow = disturbed()
    tapes = {}

    def log_density_gradient(theta):
        tape = tapes["last"]
        score = np.empty_like(theta)
        L = flow.base.factor
        score[:, flow.base.order] = np.linalg.solve(L.T, flow.score(tape).T).T
        return tape.log_q, score

    density = CallableDensity(
        lambda x: log_density_gradient(x)[0], lambda x: log_density_gradient(x)[1], dimension=D
    )
    z = np.random.default_rng(3).standard_normal((10, D))
    tapes["last"] = flow.trace(z)
    noise = {
        kind: np.abs(
            loop(flow, density, kind, group=group).loss_and_gradient(z)[1] * flow.mask
        ).max()
        for kind in ("path", "total")
    }
    assert noise["path"] < 1e-10 < 0.01 < noise["total"]


def test_hyperparameters_and_minibatches_have_the_same_mean_too():
    rng = np.random.default_rng(4)
    y, shift = rng.normal(1.0, 1.0, 30), pytensor.shared(0.4, "shift")
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 2.0, shape=D)
        batch = pm.Minibatch(y, batch_size=10)
        pm.Normal("y", x.sum() + shift, 1.0, observed=batch, total_size=len(y))
    density = PyMCDensity(model, trained=(shift,))
    flow = disturbed()
    path, total = (loop(flow, density, kind) for kind in ("path", "total"))
    assert len(path.vector) == len(flow.x) + 1
    assert_same_mean(path, total, batches=600)


def test_fixed_draws_take_the_total_gradient():
    fixed = StepOptions(normals=lambda steps: np.zeros((steps, 10, D)))
    one = DensityLoop(disturbed(), CountedDensity(normal()), fixed, np.random.default_rng(1))
    assert not one.options.by_path
    assert loop(disturbed(), normal(), "auto").options.by_path
    with pytest.raises(ValueError, match="gradient='path' needs fresh draws"):
        replace(fixed, gradient="path")


def test_what_has_no_path_gradient_says_so():
    with pytest.raises(ValueError, match="gradient must be one of"):
        StepOptions(gradient="score")
    with pytest.raises(ValueError, match="entropy is known in closed form"):
        MonteCarlo(step=StepOptions(gradient="path"))


@pytest.mark.parametrize(("latent", "group"), [("normal", 1), ("student-t", 5)])
def test_jax_takes_the_same_path_gradients(latent, group):
    """Of the flow's parameters and of a hyperparameter, which keeps the weights of its draws."""
    needs("jax")
    shift = pytensor.shared(0.4, "shift")
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 2.0, shape=D)
        pm.Normal("y", x.sum() + shift, 1.0, observed=np.ones(4))
    density = CountedDensity(PyMCDensity(model, trained=(shift,)))
    flow = disturbed(latent=latent)
    options = StepOptions(gradient="path", group=group)
    ours, of_jax = (
        make(deepcopy(flow), density, options, np.random.default_rng(1))
        for make in (DensityLoop, JaxLoop)
    )
    starts = [loop.vector for loop in (ours, of_jax)]
    losses = [loop.run(10, 0.1, 1.0) for loop in (ours, of_jax)]
    np.testing.assert_allclose(*losses, rtol=1e-10)
    moved = [loop.vector - start for loop, start in zip((ours, of_jax), starts, strict=True)]
    np.testing.assert_allclose(moved[1], moved[0], rtol=1e-5, atol=1e-8)
    assert np.abs(moved[0]).max() > 1e-3
