"""A flow is never kept worse than the Gaussian it started from."""

import numpy as np
import pytest
from scipy.special import expit

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.polish.guard import BaseGuard
from pymc_ext.variational.bernstein.polish.stages import FlowFit
from pymc_ext.variational.bernstein.polish.weighted import Polish
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.posteriors import Gaussian

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
    return base, FlowFit(flow, counted)


@pytest.mark.parametrize(("factor", "worse"), [(1.0, False), (1.11, True), (0.9, True)])
def test_a_flow_of_wrong_width_is_worse_than_its_base(factor, worse):
    base, fit = at_base(logistic())
    z = np.random.default_rng(3).standard_normal((4096, 2))
    guard = BaseGuard(base, fit, z)
    alpha = fit.flow.values["alpha"]
    alpha[...] = np.log(np.expm1(factor * np.logaddexp(0, alpha)))
    assert guard.worse() is worse


def test_where_the_base_itself_is_wrong_a_better_flow_is_not_worse():
    base, fit = at_base(logistic())
    wide = Gaussian(base.mean, 2 * base.root)
    z = np.random.default_rng(3).standard_normal((4096, 2))
    assert not BaseGuard(wide, fit, z).worse()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_polished_flow_has_at_least_its_bases_elbo_and_sds(seed):
    density = logistic()
    laplace = Laplace().fit(density, random_seed=seed)
    polish = Polish(weighted=None, always=True)
    algorithm = Bernstein(FlowShape(10), base="laplace", polish=polish)
    fitted = algorithm.fit(density, n=3000, random_seed=seed)
    z = np.random.default_rng(7).standard_normal((40_000, 2))
    (theta, log_q), (theirs, log_base) = fitted.q.forward(z), laplace.q.forward(z)
    difference = density.log_density(theta) - log_q - density.log_density(theirs) + log_base
    assert difference.mean() > -4 * difference.std() / 200
    weights = np.exp(density.log_density(theta) - log_q)
    weights /= weights.sum()
    true = np.sqrt(weights @ (theta - weights @ theta) ** 2)
    own, base = (np.abs(x.std(axis=0) / true - 1) for x in (theta, theirs))
    assert np.all(own < base + 0.02)


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
