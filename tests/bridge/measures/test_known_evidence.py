"""Evidence of posteriors whose answer is known by quadrature, from exact posterior draws."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.integrate import quad

from bridge.measures.evidence import log_evidence
from bridge.targets.pymc import pymc_target
from tests.tolerances import NUMERIC, monte_carlo

EFFECT = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERROR = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
EIGHT_SCHOOLS = -31.3113  # normalised half-Cauchy(5) prior on tau
CAUCHY = -21.430686


def tau_density(tau: float) -> float:
    """p(tau, y) of eight schools: schools' effects and their mean integrated out."""
    cov = np.diag(ERROR**2 + tau**2) + 25.0
    return stats.halfcauchy.pdf(tau, scale=5) * stats.multivariate_normal.pdf(EFFECT, cov=cov)


def inverse_cdf(density, grid: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws of a density on the line, from its trapezoidal distribution function."""
    p = np.array([density(x) for x in grid])
    cdf = np.concatenate([[0], np.cumsum((p[1:] + p[:-1]) / 2 * np.diff(grid))])
    return np.interp(rng.uniform(size=n), cdf / cdf[-1], grid)


def eight_schools_draws(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Exact posterior draws: tau from its marginal, mu and theta from their conditionals."""
    tau = np.exp(inverse_cdf(
        lambda u: tau_density(np.exp(u)) * np.exp(u), np.linspace(-12, 8, 4000), n, rng
    ))  # fmt: skip
    weight = 1 / (ERROR**2 + tau[:, None] ** 2)
    precision = 1 / 25 + weight.sum(axis=1)
    mu = (weight * EFFECT).sum(axis=1) / precision + rng.normal(size=n) / np.sqrt(precision)
    precision = 1 / ERROR**2 + 1 / tau[:, None] ** 2
    mean = (EFFECT / ERROR**2 + (mu / tau**2)[:, None]) / precision
    theta = mean + rng.normal(size=(n, 8)) / np.sqrt(precision)
    return {"mu": mu, "tau": tau, "theta": theta, "z": (theta - mu[:, None]) / tau[:, None]}


def eight_schools(centered: bool) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = (
            pm.Normal("theta", mu, tau, shape=8) if centered else mu + tau * pm.Normal("z", shape=8)
        )
        pm.Normal("y", theta, ERROR, observed=EFFECT)
    return model


def test_the_quadratures() -> None:
    assert np.log(quad(tau_density, 0, np.inf, epsabs=0)[0]) == pytest.approx(
        EIGHT_SCHOOLS, abs=5e-5
    )
    draws = eight_schools_draws(40_000, np.random.default_rng(1))
    tau = draws["tau"]
    assert tau.mean() == pytest.approx(3.598, abs=monte_carlo(tau.std() / 200))


@pytest.mark.parametrize("centered", [True, False], ids=["centered", "noncentered"])
def test_eight_schools_evidence(centered: bool) -> None:
    target = pymc_target(eight_schools(centered))
    theta = target.unconstrain(eight_schools_draws(20_000, np.random.default_rng(2)))
    evidence = log_evidence(target, theta.reshape(10, 2000, -1))
    assert evidence.reliable and evidence.se < 0.02
    assert evidence.value == pytest.approx(EIGHT_SCHOOLS, abs=monte_carlo(evidence.se))


def test_evidence_of_the_bimodal_cauchy_posterior() -> None:
    y = np.array([1.2083935, -2.7329216, 4.1769943, 1.9710574, -4.2004027, -2.384988])
    with pm.Model() as model:
        xi = pm.Normal("xi")
        pm.Cauchy("y", xi, 0.5, observed=y)
    target = pymc_target(model)

    def density(x: float) -> float:
        return float(np.exp(stats.norm.logpdf(x) + stats.cauchy.logpdf(y, x, 0.5).sum()))

    assert np.log(quad(density, -12, 12, epsabs=0, limit=500)[0]) == pytest.approx(
        CAUCHY, rel=NUMERIC
    )
    rng = np.random.default_rng(3)
    theta = inverse_cdf(density, np.linspace(-8, 8, 4001), 20_000, rng).reshape(4, 5000, 1)
    evidence = log_evidence(target, theta)
    assert evidence.reliable
    assert evidence.value == pytest.approx(CAUCHY, abs=monte_carlo(evidence.se))
