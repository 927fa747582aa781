"""Targets of Blessing et al. (2024): their log densities as the suite has them, their log Z."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

import bridge
from benchmarks import record
from benchmarks.papers import elbo_suite
from benchmarks.papers import elbo_suite_targets as suite
from tests.tolerances import NUMERIC

ROOT = record.Path(__file__).parents[2]


def normal(x, sd):
    return -0.5 * (x / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)


def of_wells(theta):
    d, v = np.split(theta, 2)
    return np.sum(-0.5 * d + 6 * d**2 - d**4 - v**2 / 2)


def of_brownian(theta):
    (a, b), x = theta[:2], theta[2:]
    walk = normal(np.diff(x, prepend=0.0), np.exp(a)).sum()
    seen = normal(suite.PLACES - x[suite.SEEN], np.exp(b)).sum()
    return normal(a, 2) + normal(b, 2) + walk + seen  # of log scales: LogNormal and its Jacobian


def of_seeds(theta):
    log_tau, a, b = theta[0], theta[1:5], theta[5:]
    r, n = suite.SEEDS_ROWS
    eta = a[0] + a[1] * suite.PLANT + a[2] * suite.EXTRACT + a[3] * suite.PLANT * suite.EXTRACT + b
    of_tau = 0.01 * np.log(0.01) - gammaln(0.01) + 0.01 * log_tau - 0.01 * np.exp(log_tau)
    choices = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)
    rows = choices + r * eta - n * np.logaddexp(0, eta)
    return of_tau + normal(a, 10).sum() + normal(b, np.exp(-log_tau / 2)).sum() + rows.sum()


def of_funnel(theta):
    return normal(theta[0], 3) + normal(theta[1:], np.exp(theta[0] / 2)).sum()


@pytest.mark.parametrize(
    ("name", "log_p"),
    [
        ("many-well", of_wells),
        ("brownian", of_brownian),
        ("seeds", of_seeds),
        ("funnel", of_funnel),
    ],
)
def test_models_are_the_targets(name, log_p) -> None:
    target = suite.TARGETS[name]
    ours = bridge.pymc_target(target.model())
    theta = 0.5 * np.random.default_rng(1).standard_normal((3, target.dimension))
    np.testing.assert_allclose(ours.log_density(theta), [log_p(x) for x in theta], rtol=NUMERIC)


def test_masses_are_those_of_the_suite() -> None:
    mass = integrate.quad(lambda d: np.exp(-0.5 * d + 6 * d**2 - d**4), -4, 4, limit=200)[0]
    assert abs(mass - suite.WELL_MASS) < 1e-4
    assert suite.wells_log_z() == pytest.approx(16 * np.log(suite.WELL_MASS * np.sqrt(2 * np.pi)))


def test_the_brownian_log_z_is_that_of_its_model() -> None:
    """p(y | scales) = p(x, y | scales) / p(x | y, scales) at any x, by a normal of all."""
    assert abs(suite.brownian_log_z(141) - suite.brownian_log_z()) < 1e-4
    scales, rng = np.array([-2.0, -1.5]), np.random.default_rng(1)
    steps = np.arange(1.0, suite.STEPS + 1)
    prior = np.exp(2 * scales[0]) * np.minimum.outer(steps, steps)
    seen = prior[np.ix_(suite.SEEN, suite.SEEN)] + np.exp(2 * scales[1]) * np.eye(len(suite.SEEN))
    gain = prior[:, suite.SEEN] @ np.linalg.inv(seen)
    given = stats.multivariate_normal(gain @ suite.PLACES, prior - gain @ prior[suite.SEEN])
    x = given.rvs(random_state=rng)
    joint = of_brownian(np.r_[scales, x]) - normal(scales, 2).sum()
    expected = joint - given.logpdf(x)
    w, U = np.linalg.eigh(np.minimum.outer(suite.SEEN + 1.0, suite.SEEN + 1.0))
    variances = np.exp(2 * scales[0]) * w + np.exp(2 * scales[1])
    assert normal(U.T @ suite.PLACES, np.sqrt(variances)).sum() == pytest.approx(expected)


def test_the_page_has_the_stored_table() -> None:
    results = record.kept(elbo_suite.Path(elbo_suite.__file__).parent / "results/elbo_suite.json")
    page = (ROOT / "docs/peers.md").read_text(encoding="utf-8")
    assert elbo_suite.markdown(results) in page
