"""Every target of the zoo: its score, its draws against its density, its log Z and modes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import bridge
from posteriordb_cases.zoo import ZOO, summary_of, truth_of
from posteriordb_cases.zoo.density import ZooDensity
from posteriordb_cases.zoo.nested import simulated as three_levels
from tests.tolerances import monte_carlo

DRAWS = 20_000
PROPER = [name for name in ZOO if "improper" not in ZOO[name].kind]
EDGED = {
    "half-exponential-2",
    "ordered-2",
    "box-2",
    "walled-5",
}  # Stein's identity has a term of the edge
# Where no Gaussian or t matched to the draws overlaps enough for a bridge; their draws are held to
# Stein's identity alone, and log Z is in closed form or of the law that the draws come from.
WITHOUT_BRIDGE = {
    "ring", "ring-thin", "shell-5", "banana-10", "funnel-2", "funnel-10", "funnel-100",
    "horseshoe", "horseshoe-centred", "product-0", "cauchy-shared-3",
}  # fmt: skip


# Beside the zoo: of benchmarks alone.
BESIDE = {"nested": lambda: three_levels(5, (0.5, 0.3), (4, 3, 4))}


@cache
def made(name: str) -> ZooDensity:
    return BESIDE[name]() if name in BESIDE else ZOO[name].make()


def draws_of(name: str, seed: int = 1, n: int = DRAWS) -> np.ndarray:
    return made(name).draws(n, np.random.default_rng(seed))


def test_the_zoo_is_as_large_as_promised() -> None:
    assert len(ZOO) >= 40
    assert len(PROPER) == sum(made(name).proper for name in ZOO)


@pytest.mark.parametrize("name", [*ZOO, *BESIDE])
def test_the_score_is_the_gradient(name: str) -> None:
    density, rng = made(name), np.random.default_rng(1)
    D = density.dimension
    theta = density.draws(30, rng) if density.proper else rng.standard_normal((30, D))
    lp, score = density.log_density_gradient(theta)
    assert lp.shape == (30,) and score.shape == (30, D)
    np.testing.assert_array_equal(lp, density.log_density(theta))
    for i in range(0, D, max(1, D // 20)):
        step = np.zeros_like(theta)
        step[:, i] = 1e-6 * np.maximum(np.abs(theta[:, i]), 1e-3)
        with np.errstate(invalid="ignore"):  # −∞ on both sides of an edge
            up, down = density.log_density(theta + step), density.log_density(theta - step)
            difference = (up - down) / (2 * step[:, i])
        inside = np.isfinite(difference)
        assert inside.sum() >= 25
        scale = 1 + np.abs(score[inside, i])
        # rounding of log p̃ of some hundred nats over twice the step
        np.testing.assert_allclose(difference[inside] / scale, score[inside, i] / scale, atol=1e-4)


@pytest.mark.parametrize("name", [*(name for name in PROPER if name not in EDGED), *BESIDE])
def test_draws_obey_steins_identity(name: str) -> None:
    """E[f s + f'] = 0 of each coordinate, with bounded f = tanh, also where no moment exists."""
    density, theta, truth = made(name), draws_of(name), truth_of(made(name))
    score = density.log_density_gradient(theta)[1]
    f = np.tanh((theta - truth.median) / truth.width)
    terms = f * score + (1 - f**2) / truth.width
    error = terms.std(axis=0) / np.sqrt(len(theta))
    # four standard errors of one coordinate, with room for the largest of D
    tolerance = monte_carlo(1.0) + 0.3 * np.log(density.dimension)
    assert np.max(np.abs(terms.mean(axis=0)) / error) < tolerance


def matched(theta: np.ndarray, df: float, heavy: bool):
    """A multivariate t with the draws' mean and covariance (of a heavy law median and quantiles):
    log density and draws."""
    D = theta.shape[1]
    found = summary_of(theta)
    middle = found.median if heavy else found.mean
    root = np.diag(found.width) if heavy else np.linalg.cholesky(np.atleast_2d(np.cov(theta.T)))
    norm = gammaln((df + D) / 2) - gammaln(df / 2) - 0.5 * D * np.log(df * np.pi)
    norm -= np.log(np.diag(root)).sum()

    def log_q(x):
        z = np.linalg.solve(root, (x - middle).T)
        return norm - 0.5 * (df + D) * np.log1p((z**2).sum(axis=0) / df)

    def draw(n, rng):
        z = rng.standard_normal((n, D)) / np.sqrt(rng.chisquare(df, (n, 1)) / df)
        return middle + z @ root.T

    return log_q, draw


@pytest.mark.parametrize(
    "name", [*(name for name in PROPER if name not in WITHOUT_BRIDGE), *BESIDE]
)
def test_log_z_and_the_mass_of_each_mode_by_bridge_sampling(name: str) -> None:
    """Within each mode, from a t matched to half of its draws; it knows nothing of the weights."""
    density, theta, truth = made(name), draws_of(name), truth_of(made(name))
    modes = density.mode_of(theta)
    masses, errors = [], []
    for k in np.flatnonzero(truth.shares > 0.02):
        own = theta[modes == k]
        half = len(own) // 2
        with np.errstate(all="ignore"):
            log_q, draw = matched(
                own[:half], 50.0 if density.dimension > 20 else 5.0, density.heavy
            )
            proposed = draw(20_000, np.random.default_rng(2))
            lp_q = np.where(density.mode_of(proposed) == k, density.log_density(proposed), -np.inf)
            found = bridge.bridge_sampling(
                density.log_density(own[half:]), log_q(own[half:]), lp_q, log_q(proposed)
            )
        assert found.reliable, found.reason
        masses.append(found.value)
        errors.append(found.se)
        share = np.log(truth.shares[k]) + density.log_z
        assert abs(found.value - share) < monte_carlo(found.se + 1 / np.sqrt(200_000 * 0.02))
    known = truth.shares[truth.shares > 0.02].sum()
    assert abs(logsumexp(masses) - np.log(known) - density.log_z) < monte_carlo(max(errors)) + 0.01


def test_draws_inside_edges_are_uniform_in_their_laws() -> None:
    """By the law's own distribution function, Kolmogorov's distance."""
    n = DRAWS
    limit = 1.95 / np.sqrt(n)  # exceeded once in a thousand
    box, half = draws_of("box-2"), draws_of("half-exponential-2")
    for x in ((box + 1) / 3).T, (1 - np.exp(-(half + 0.5))).T:
        for u in x:
            assert np.max(np.abs(np.sort(u) - (np.arange(n) + 0.5) / n)) < limit
    ordered = draws_of("ordered-2")
    assert (ordered[:, 0] < ordered[:, 1] + 0.5).all()
    # given the sum, which the edge does not cut, the law of a normal with variance 2
    assert abs(ordered.sum(axis=1).var() - 2) < monte_carlo(2 * np.sqrt(2 / n))


def test_a_wrong_law_of_draws_is_seen() -> None:
    """The identity is not blind: draws of a t of 5 degrees are not those of 6."""
    theta = made("student-shared-10").draws(DRAWS, np.random.default_rng(1)) * 1.05
    score = made("student-shared-10").log_density_gradient(theta)[1]
    f = np.tanh(theta)
    terms = (f * score + 1 - f**2).mean(axis=1)
    assert abs(terms.mean()) > monte_carlo(terms.std() / np.sqrt(DRAWS))


@pytest.mark.parametrize("name", [name for name in ZOO if name not in PROPER])
def test_improper_posteriors_have_no_truth(name: str) -> None:
    with pytest.raises(ValueError, match="is improper"):
        truth_of(made(name))


def test_a_heavy_law_is_judged_by_quantiles() -> None:
    truth = truth_of(made("cauchy-1"))
    assert truth.heavy
    se = np.pi / 2 / np.sqrt(200_000)  # of a Cauchy's median
    np.testing.assert_allclose(truth.median, 1.0, atol=monte_carlo(se))
    np.testing.assert_allclose(3.29 * truth.width, 2 * 6.3138, rtol=0.03)  # tan(.45 π)


def test_labels_are_as_many_as_orders() -> None:
    shares = truth_of(made("labels-3")).shares
    np.testing.assert_allclose(shares, 1 / 6, atol=monte_carlo(np.sqrt(5 / 36 / 200_000)))
