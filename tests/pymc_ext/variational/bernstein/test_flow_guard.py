"""A flow is never kept below the Gaussian it started from."""

import numpy as np
import pytest
from scipy.special import expit

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.polish.stages import FlowFit
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.gaussian.laplace import Laplace

X = np.random.default_rng(4).normal(size=(400, 2))
Y = np.random.default_rng(5).random(400) < expit(X @ [0.5, -0.3])


def logistic():
    """So many rows that the Laplace approximation is right to a hundredth of an sd."""

    def log_density(b):
        logit = b @ X.T
        return (Y * logit - np.logaddexp(0, logit)).sum(1) - 0.5 * (b**2).sum(1)

    return CallableDensity(log_density, lambda b: (Y - expit(b @ X.T)) @ X - b, dimension=2)


def at_base(density):
    """A flow at (nearly) the Laplace approximation, and that."""
    base = Laplace().fit(density, random_seed=1).q
    algorithm = Bernstein(FlowShape(20), base=(base.mean, base.cov))
    counted = CountedDensity(density)
    flow = algorithm.make_flow(counted, base.mean, 1)
    flow.set_base(base.mean, base.cov)
    return FlowFit(flow, counted)


@pytest.mark.parametrize(("factor", "below"), [(1.0, False), (1.11, True), (0.9, True)])
def test_a_flow_of_wrong_width_is_below_its_base(factor, below):
    fit = at_base(logistic())
    z = np.random.default_rng(3).standard_normal((4096, 2))
    alpha = fit.flow.values["alpha"]
    alpha[...] = np.log(np.expm1(factor * np.logaddexp(0, alpha)))
    assert fit.below_base(z) is below


def test_a_better_flow_is_not_below_a_base_that_is_wrong():
    fit = at_base(logistic())
    z = np.random.default_rng(3).standard_normal((4096, 2))
    wide = fit.flow.base
    fit.flow.base = Affine(wide.order, wide.center, 2 * wide.factor)
    fit.flow.values["alpha"][...] = np.log(np.expm1(0.5))
    assert not fit.below_base(z)


def test_a_flow_without_mass_on_the_support_is_below_its_base():
    density = CallableDensity(
        lambda x: np.where(x[:, 0] < 5, -0.5 * (x**2).sum(1), -np.inf), lambda x: -x, dimension=2
    )
    fit = at_base(density)
    z = np.random.default_rng(3).standard_normal((4096, 2))
    assert not fit.below_base(z)
    fit.flow.values["beta"][...] = 10.0
    assert fit.below_base(z)


def test_a_flow_that_training_left_worse_is_its_base_again():
    density = logistic()
    algorithm = Bernstein(FlowShape(20), base="laplace", polish=None)
    fitted = algorithm.fit(density, n=1, random_seed=1)
    fitted.q.values["beta"][...] = 0.5  # as a diverged training might
    fitted = algorithm.fit(density, n=1, random_seed=1, state=fitted.state)
    assert "base" in fitted.result.notes[0]
    base = Laplace().fit(density, random_seed=1).q
    theta, _ = fitted.q.forward(np.random.default_rng(1).standard_normal((4000, 2)))
    assert np.all(np.abs(theta.mean(axis=0) - base.mean) < 0.1 * base.std)


@pytest.mark.parametrize("interrupt", [True, False])
def test_ctrl_c_inside_compiled_steps_ends_the_training(interrupt) -> None:
    """Numba raises a SystemError from it; any other of these is an error."""
    batches = 0

    def score(x):
        nonlocal batches
        batches += 1
        if batches == 300:
            try:
                raise KeyboardInterrupt if interrupt else ZeroDivisionError
            except BaseException as error:
                raise SystemError("returned a result with an exception set") from error
        return -x

    density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), score, dimension=2)
    flow = Bernstein(FlowShape(8), base="identity", polish=None)
    if not interrupt:
        with pytest.raises(SystemError, match="exception set"):
            flow.fit(density, random_seed=1)
        return
    result = flow.fit(density, random_seed=1).result
    assert not result.converged and result.stop_reason.endswith("steps: KeyboardInterrupt")
