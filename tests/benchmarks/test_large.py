"""The large hierarchies of the benchmark: scores, and globals with the groups integrated out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.speed import large
from benchmarks.speed.large_models import MODELS
from benchmarks.speed.large_truth import of_intercepts, of_slopes, true_globals
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from tests.tolerances import NUMERIC, monte_carlo


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_density(name) -> None:
    density, step = MODELS[name](4), 1e-5
    theta = 0.5 * np.random.default_rng(1).standard_normal((3, density.dimension))
    assert len(density.unconstrained_names) == density.dimension
    expected = [
        (density.log_density(theta + step * e) - density.log_density(theta - step * e)) / (2 * step)
        for e in np.eye(density.dimension)
    ]
    found = density.log_density_gradient(theta)[1]
    np.testing.assert_allclose(found, np.transpose(expected), rtol=NUMERIC, atol=NUMERIC)


@pytest.mark.parametrize("name", MODELS)
def test_groups_are_integrated_out(name) -> None:
    """One group: ∫ exp(log p̃) by importance sampling from its prior, at two values of φ."""
    model = MODELS[name](1)
    k, rng = model.globals, np.random.default_rng(1)
    marginal = of_slopes if name == "varying slopes" else of_intercepts
    estimates = []
    for phi in (np.zeros(k), 0.3 * np.ones(k)):
        scales = np.exp(phi[2:4] if k == 5 else phi[2:3])
        means = phi[:2] if k == 5 else phi[:1]
        z = rng.standard_normal((200_000, len(scales)))
        effects = means + scales * z
        theta = np.column_stack([np.broadcast_to(phi, (len(z), k)), effects])
        log_prior = -0.5 * np.sum(z**2, axis=1) - np.log(scales).sum()
        weights = np.exp(model.log_density(theta) - log_prior)
        error = weights.std() / weights.mean() / np.sqrt(len(z))
        estimates.append((np.log(weights.mean()) - marginal(model, phi), error))
    (first, error), (second, other) = estimates  # up to one constant
    assert abs(first - second) < monte_carlo(np.hypot(error, other))


def test_globals_are_near_those_of_the_map() -> None:
    model = MODELS["poisson"](30)
    q = Hierarchical().fit(model, random_seed=1).q
    draws = q.forward(np.random.default_rng(1).standard_normal((4000, model.dimension)))[0][:, :3]
    truth = true_globals(model, draws)
    assert truth.ess > 500
    np.testing.assert_allclose((draws.mean(axis=0) - truth.mean) / truth.std, 0, atol=0.2)
    np.testing.assert_allclose(draws.std(axis=0), truth.std, rtol=0.2)


def test_runs_are_kept_and_shown(tmp_path, capsys) -> None:
    path = tmp_path / "large.json"
    arguments = ["--groups", "5", "--models", "poisson", "--methods", "batch-match"]
    for _ in range(2):
        large.main([*arguments, "--results", str(path)])
    made = json.loads(path.read_text())["results"]["runs"]
    assert list(made) == ["poisson/5/batch-match/1"]
    row = made["poisson/5/batch-match/1"]
    assert row["dimension"] == 8
    assert row["peak_mb"] > 0
    assert f"{row['elbo']:.2f}" in capsys.readouterr().out
