"""Beside q a proposal for importance weights; q itself stays what the ELBO chose."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.special import digamma, gammaln, polygamma

import pymc_ext as px
from pymc_ext.density import CallableDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.gaussian.laplace import Laplace
from tests.tolerances import EXACT, monte_carlo

SHAPE = px.FlowShape(10, (6,))
WIDER = px.Polish(weighted=None, always=True)
NOISY = px.StepOptions(gradient="total")  # leaves tails that are too light, for a proposal to mend
DRAWS = 40_000
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 11))]


def log_gammas():
    """Logarithms of gamma variables of shapes 1.5 and 4: skewed; sds and log Z = 0 known."""
    a = np.array([1.5, 4.0])
    return (
        lambda x: (a * x - np.exp(x) - gammaln(a)).sum(1),
        lambda x: a - np.exp(x),
        np.sqrt(polygamma(1, a)),
        digamma(a),
    )


def student():
    """Two t variables of five degrees of freedom, of unit scale, turned: heavy tails."""
    nu = 5.0
    R = np.array([[0.8, -0.6], [0.6, 0.8]])
    log_c = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)

    def log_density(x):
        return (log_c - (nu + 1) / 2 * np.log1p((x @ R) ** 2 / nu)).sum(1)

    def gradient(x):
        t = x @ R
        return (-(nu + 1) * t / (nu + t**2)) @ R.T

    return log_density, gradient, np.full(2, np.sqrt(nu / (nu - 2))), np.zeros(2)


def banana():
    """x ~ N(0, 1), y | x ~ N(x²/2, 1)."""

    def log_density(t):
        off = t[:, 1] - 0.5 * t[:, 0] ** 2
        return -0.5 * t[:, 0] ** 2 - 0.5 * off**2 - np.log(2 * np.pi)

    def gradient(t):
        off = t[:, 1] - 0.5 * t[:, 0] ** 2
        return np.stack([-t[:, 0] + off * t[:, 0], -off], axis=1)

    return log_density, gradient, np.array([1.0, np.sqrt(1.5)]), np.array([0.0, 0.5])


TARGETS = {"log-gamma": log_gammas, "student-t": student, "banana": banana}


@pytest.fixture(params=list(TARGETS))
def target(request):
    log_density, gradient, sd, mean = TARGETS[request.param]()
    return CallableDensity(log_density, gradient, dimension=2), sd, mean


def drawn(q, density, seed=7):
    theta, log_q = q.forward(np.random.default_rng(seed).standard_normal((DRAWS, 2)))
    return theta, density.log_density(theta) - log_q


@pytest.mark.parametrize("seed", SEEDS)
def test_q_is_not_below_its_base_and_its_sds_are_not_widened(target, seed):
    density, sd, _ = target
    fitted = Bernstein(SHAPE, base="laplace", polish=WIDER).fit(density, n=3000, random_seed=seed)
    base = Laplace().fit(density, random_seed=seed).q
    (theta, ratios), (theirs, base_ratios) = drawn(fitted.q, density), drawn(base, density)
    gain = ratios - base_ratios
    # what the fit itself could see, on 4096 draws, and this test
    error = gain.std() * np.hypot(1 / np.sqrt(4096), 1 / np.sqrt(DRAWS))
    assert gain.mean() > -monte_carlo(error)
    own, base_sd = theta.std(axis=0) / sd - 1, theirs.std(axis=0) / sd - 1
    assert np.all(own < 0.02)  # an sd of 40,000 draws is known to 0.4 %
    assert np.all(np.abs(own) < np.abs(base_sd) + 0.02)


def test_q_is_the_same_with_a_proposal_and_without():
    density = CallableDensity(*student()[:2], dimension=2)
    plain, polished = (
        Bernstein(SHAPE, base="laplace", polish=p, step=NOISY).fit(density, n=1500, random_seed=1)
        for p in (None, WIDER)
    )
    z = np.random.default_rng(1).standard_normal((100, 2))
    for a, b in zip(plain.q.forward(z), polished.q.forward(z), strict=True):
        np.testing.assert_array_equal(a, b)
    assert plain.result.fresh == polished.result.fresh
    assert plain.proposal is None and polished.proposal is not None
    assert polished.result.elbo == plain.result.elbo
    assert polished.result.log_marginal_is == polished.result.fresh_proposal.log_marginal_is


def test_a_proposal_has_its_own_density_and_better_weights():
    density = CallableDensity(*student()[:2], dimension=2)
    algorithm = Bernstein(SHAPE, base="laplace", polish=WIDER, step=NOISY)
    fitted = algorithm.fit(density, n=1500, random_seed=1)
    stages = fitted.stages
    (kept,) = (stage for stage in stages if stage.kept)
    assert kept is not stages[0] and kept.khat < stages[0].khat - 0.05
    assert "(proposal for weights)" in " ".join(fitted.result.notes)
    theta, log_q = fitted.proposal.forward(np.random.default_rng(2).standard_normal((DRAWS, 2)))
    np.testing.assert_allclose(fitted.proposal.log_density(theta[:50]), log_q[:50], rtol=1e-8)
    weights = np.exp(density.log_density(theta) - log_q)  # the target integrates to 1
    assert abs(weights.mean() - 1) < monte_carlo(weights.std() / np.sqrt(DRAWS))
    assert theta.std(axis=0).min() > drawn(fitted.q, density)[0].std(axis=0).max()


def test_under_pm_fit_draws_and_moments_are_qs_and_weights_the_proposals():
    with pm.Model():
        pm.StudentT("x", nu=5, mu=0, sigma=1, shape=2)
        method = px.BernsteinVI(SHAPE, base="laplace", polish=WIDER, step=NOISY, random_seed=1)
        approx = pm.fit(1500, method=method, progressbar=False)
    assert approx.proposal is not None
    z = approx.latent_draws(200, random_seed=3)
    theta, lp, lq = approx.weighted_draws(200, random_seed=3)
    for value, expected in zip((theta, lq), approx.proposal.forward(z), strict=True):
        np.testing.assert_array_equal(value, expected)
    np.testing.assert_allclose(lp, approx.log_p(theta), rtol=EXACT)
    own, _, log_q = approx.draws_with_logs(200, random_seed=3)
    np.testing.assert_allclose(own, approx.q.forward(z)[0], rtol=EXACT)
    draws = approx.sample(200, random_seed=3)
    np.testing.assert_allclose(draws.posterior["x"].values[0], own, rtol=EXACT)
    np.testing.assert_allclose(draws.sample_stats["lq"].values[0], log_q, rtol=EXACT)
    np.testing.assert_array_equal(approx.q.stretch, 0.0)
    method.restart()
    assert approx.proposal is None
    theta = approx.weighted_draws(5, random_seed=3)[0]
    np.testing.assert_array_equal(theta, approx.draws_with_logs(5, random_seed=3)[0])
