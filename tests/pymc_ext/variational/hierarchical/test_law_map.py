"""A law along governors as a map of normals: exact cases, its inverse, its pullback, a prior."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from pymc_ext.variational.hierarchical.law_map import LawMap
from tests.pymc_ext.variational.hierarchical.test_lattice import law as lattice_law
from tests.pymc_ext.variational.hierarchical.test_nested import law_of_funnel


def made(kind: str) -> LawMap:
    return LawMap(law_of_funnel() if kind == "scans" else lattice_law()[0])


def normals(q: LawMap, count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, q.latent_dimension))


@pytest.mark.parametrize("kind", ["scans", "lattice"])
def test_it_is_the_law_without_its_longer_tails(kind) -> None:
    q = made(kind)
    theta, log_q = q.forward(normals(q, 20_000))
    lower, upper = q.law.edges
    own = q.law.masses / q.law.masses.sum()
    cell = q.law.cell_of(theta[:, q.law.governors])
    log_p = q.law.log_density(theta) + np.log(q.law.marginal / own)[cell]
    ratios = np.exp(np.where(cell >= 0, log_p - log_q, -np.inf))
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios)) + 0.002
    sd = theta.std(axis=0)[q.law.governors]
    np.testing.assert_allclose(sd, q.law.sd_along, rtol=5 / np.sqrt(2 * len(theta)) + 0.01)
    assert lower.shape == upper.shape == (len(own), len(q.of_governors.quantiles))


@pytest.mark.parametrize("kind", ["scans", "lattice"])
def test_its_inverse_gives_the_same_normals_and_density(kind) -> None:
    q = made(kind)
    z = 2 * normals(q, 50)  # far out too
    theta, log_q = q.forward(z)
    np.testing.assert_allclose(q.inverse(theta), z, atol=1e-6)
    np.testing.assert_allclose(q.log_density(theta), log_q, rtol=1e-6)


@pytest.mark.parametrize("kind", ["scans", "lattice"])
def test_its_pullback_is_that_of_differences(kind) -> None:
    q = made(kind)
    z = normals(q, 4)
    score = np.random.default_rng(2).standard_normal(z.shape)

    def pulled(z: np.ndarray) -> np.ndarray:
        theta, log_q = q.forward(z)
        return (theta * score).sum(axis=1) - log_q - 0.5 * (z**2).sum(axis=1)

    h = 1e-6
    numeric = [(pulled(z + e) - pulled(z - e)) / (2 * h) for e in h * np.eye(q.dimension)]
    np.testing.assert_allclose(q.pullback(z, score), np.transpose(numeric), rtol=1e-4, atol=1e-5)


def moments(idata, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    values = [idata["posterior"][name].values for name in names]
    flat = np.hstack([x.reshape(x.shape[0] * x.shape[1], -1) for x in values])
    return flat.mean(axis=0), flat.std(axis=0)


@pytest.mark.parametrize("field", [False, True])
def test_two_days_of_a_weak_scale_are_one(request, field) -> None:
    """Where the map's spread along the groups' scale is half of the posterior's."""
    if not field:
        request.getfixturevalue("without_fields")
    group = np.repeat(np.arange(6), 10)
    y = np.random.default_rng(0).normal(size=60)

    def groups(mu, tau, theta, rows, name):
        pm.Normal(name, theta[group[rows]], 1.0, observed=y[rows])

    def model(*days):
        with pm.Model() as made:
            mu, tau = pm.Normal("mu", 0, 3), pm.HalfNormal("tau", 1)
            theta = pm.Normal("theta", mu, tau, shape=6)
            for i, rows in enumerate(days):
                groups(mu, tau, theta, rows, f"y{i}")
        return made

    first, second = np.arange(0, 60, 2), np.arange(1, 60, 2)
    monday = bridge.fit(model(first), random_seed=1)
    assert monday.density.notes["usable"] and isinstance(monday.density.q, LawMap) != field
    if not field:
        assert monday.density.notes["along"] == ["log tau"]
    with pm.Model():
        old = px.prior_from(monday.density, "old")
        groups(old["mu"], old["tau"], old["theta"], second, "y")
        tuesday = bridge.fit(random_seed=1)
    once = bridge.fit(model(first, second), random_seed=1)
    assert tuesday.trusted and once.trusted
    names = ["mu", "tau", "theta"]
    mean, sd = moments(once.idata, names)
    found, sds = moments(tuesday.idata, [f"old_{name}" for name in names])
    assert np.abs((found - mean) / sd).max() < 0.1  # weights worth some thousand draws
    np.testing.assert_allclose(sds, sd, rtol=0.1)
