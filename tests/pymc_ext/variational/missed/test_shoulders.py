"""Mass in no basin of its own: found with its size; none where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.missed.missed_mass import mass_outside
from pymc_ext.variational.missed.outside import Misses, edge_of
from pymc_ext.variational.missed.shoulders import (
    AGAIN,
    CHAINS,
    STEPS,
    TRANSITIONS,
    may_have,
    shoulder,
)

RIDGE = np.linspace(1.0, 8.0, 36)  # middles along the first coordinate, each .2 sds after the last
WEIGHT = 0.04


def ridge(D: int) -> CallableDensity:
    """N(0, I), and a ridge of normals .5 wide whose weights fall by e^-2: it has no mode."""
    heights = np.concatenate([[1 - WEIGHT], WEIGHT * softmax(-2 * (RIDGE - 1) / 7)])
    middles = np.concatenate([[0.0], RIDGE])[:, None] * np.eye(D)[0]
    sds = np.concatenate([[1.0], np.full(len(RIDGE), 0.5)])

    def parts(t):
        squares = ((t[None] - middles[:, None]) ** 2).sum(-1) / sds[:, None] ** 2
        constants = np.log(heights) - D * np.log(sds) - 0.5 * D * np.log(2 * np.pi)
        return constants[:, None] - 0.5 * squares

    def score(t):
        shares = softmax(parts(t), axis=0) / sds[:, None] ** 2
        return -np.einsum("kn,knd->nd", shares, t[None] - middles[:, None])

    return CallableDensity(lambda t: logsumexp(parts(t), axis=0), score, dimension=D)


def exact_draws(D: int, N: int, rng: np.random.Generator) -> np.ndarray:
    """Of the density above, (N, D)."""
    of_ridge = rng.random(N) < WEIGHT
    k = rng.choice(len(RIDGE), size=N, p=softmax(-2 * (RIDGE - 1) / 7))
    theta = rng.standard_normal((N, D)) * np.where(of_ridge, 0.5, 1.0)[:, None]
    theta[:, 0] += np.where(of_ridge, RIDGE[k], 0.0)
    return theta


@pytest.mark.parametrize("D", [2, 5])
def test_ridge_without_a_mode_is_found(D):
    density, q = CountedDensity(ridge(D)), Gaussian(np.zeros(D), np.eye(D))
    rng = np.random.default_rng(1)
    theta, log_q = q.forward(rng.standard_normal((2000, D)))
    log_p = density.log_density(theta)
    misses = Misses(density, q.log_density, edge_of(log_q), 0.0, np.zeros(D), np.ones(D))
    edge = theta[np.argsort(log_q - log_p)[:CHAINS]]
    before = density.gradients
    found = shoulder(density, edge, q, misses, rng)
    assert found is not None
    assert density.gradients - before == (1 + AGAIN) * CHAINS * (1 + TRANSITIONS * STEPS)
    # what is unseen by q, and by how much its squares add to a variance, from exact draws
    exact = exact_draws(D, 200_000, rng)
    unseen = density.log_density(exact) - q.log_density(exact) > 6
    mass = unseen.mean()
    assert 0.3 * mass < np.exp(found.log_mass) < mass * (1 + 3 * found.error)
    far = np.sqrt((exact[unseen] ** 2).mean(axis=0).max())
    assert found.distance == pytest.approx(far, rel=0.25)
    assert found.q.mean[0] == pytest.approx(exact[unseen, 0].mean(), abs=1.0)


def test_search_names_a_shoulder_where_it_is_asked_for_one():
    D = 3
    density, q = CountedDensity(ridge(D)), Gaussian(np.zeros(D), np.eye(D))
    theta, _ = q.forward(np.random.default_rng(2).standard_normal((2000, D)))
    log_p = density.log_density(theta)

    def searched(shoulders):
        rng = np.random.default_rng(3)
        return mass_outside(density, theta, log_p, q.log_density, 0.0, rng, q, shoulders=shoulders)

    alone = searched(None)
    assert not alone.matters
    found = searched((np.zeros(D), np.ones(D)))
    assert found.matters and not found.has_modes
    assert "a shoulder at" in found.sentence and "short chains" in found.sentence
    light = replace(found, basins=(replace(found.basins[0], log_ratio=-np.inf),))
    assert light.shoulder is light.basins[0] and not light.matters
    assert light.unsettled().matters  # weights do not settle what it is worth
    assert "worth an unknown part of the mass" in light.unsettled().sentence
    assert found.gradients >= alone.gradients + CHAINS * TRANSITIONS * STEPS


@pytest.mark.parametrize("law", ["normal", "t"])
def test_nothing_is_found_beside_what_has_no_shoulder(law):
    """q is right, or has lighter tails by a ratio that its draws show."""
    D, df = 4, 8.0
    density = CallableDensity(
        lambda t: -0.5 * (t**2).sum(1) - 0.5 * D * np.log(2 * np.pi), lambda t: -t, dimension=D
    )
    if law == "t":
        density = CallableDensity(
            lambda t: -0.5 * (df + D) * np.log1p((t**2).sum(1) / df),
            lambda t: -(df + D) * t / (df + (t**2).sum(1))[:, None],
            dimension=D,
        )
    counted = CountedDensity(density)
    q = Gaussian(np.zeros(D), np.eye(D) * np.sqrt(df / (df - 2) if law == "t" else 1.0))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        theta, log_q = q.forward(rng.standard_normal((2000, D)))
        log_p = counted.log_density(theta)
        log_z = float(logsumexp(log_p - log_q) - np.log(len(log_q)))
        moments = np.zeros(D), np.full(D, q.root[0, 0])
        found = mass_outside(counted, theta, log_p, q.log_density, log_z, rng, q, moments)
        assert not found.matters, found.sentence


def test_which_weights_are_looked_at():
    assert may_have(0.5, 0.9) and may_have(0.1, 0.7)
    assert not may_have(0.1, 0.95)  # a light tail
    assert not may_have(1.7, 0.99)  # weights that hardly differ
    assert not may_have(1.2, 0.9) and not may_have(0.8, 0.3)  # q is wrong
    assert not may_have(np.nan, 0.3)
