"""``px.diagnose`` on posteriors that are known: what it trusts, refuses and says."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_ext as px
from tests.tolerances import monte_carlo


def correlated() -> pm.Model:
    """N((1, −1), [[1, .9], [.9, 1]]) by two normals."""
    with pm.Model() as model:
        x = pm.Normal("x", 1, 1)
        pm.Normal("y", -1 + 0.9 * (x - 1), np.sqrt(1 - 0.81))
    return model


def test_an_exact_fit_is_trusted_and_its_moments_are_told() -> None:
    with correlated():
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    found = px.diagnose(approx, random_seed=1)
    assert found.trusted and all(check.passed for check in found.checks)
    assert abs(found.gap) < 1e-6 and abs(found.fresh.log_marginal_is) < 1e-6
    table = found.summary()
    np.testing.assert_allclose(table["mean"], [1, -1], atol=monte_carlo(20_000**-0.5))
    np.testing.assert_allclose(table["mcse_mean"], 20_000**-0.5, rtol=0.05)
    np.testing.assert_allclose(table["q_sd_ratio"], 1, atol=monte_carlo(40_000**-0.5))
    assert list(table.index) == ["x", "y"] and str(found).endswith("taken for the posterior")


@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_pymcs_own_are_judged_in_the_right_coordinates(method: str) -> None:
    """Mean field of correlation .9 has a variance of 1 − .81, so that KL is known."""
    with correlated():
        approx = pm.fit(20_000, method=method, random_seed=1, progressbar=False)
    found = px.diagnose(approx, random_seed=1)
    kl = -0.5 * np.log(1 - 0.81) if method == "advi" else 0.0  # at the optimum, from the truth
    assert abs(-found.fresh.elbo - kl) < 0.1  # what its noisy steps leave
    if method == "advi":
        assert not found.trusted and not found.checks[0].passed
        assert np.all(found.summary()["q_sd_ratio"] < 0.8) and "NOT PASSED, k̂ = " in str(found)


def test_a_missed_mode_is_found() -> None:
    """Of weights .3 and .7, whichever Laplace has."""
    with pm.Model():
        x = pm.Flat("x")
        parts = np.log(0.3) - (x - 5) ** 2 / 2, np.log(0.7) - (x + 5) ** 2 / 2
        pm.Potential("two", pt.logaddexp(*parts))
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    found = px.diagnose(approx, random_seed=1)
    assert found.checks[0].passed and not found.trusted
    outside = 0.3 if approx.mean.eval()[0] < 0 else 0.7
    ratio = np.exp(found.missed.basins[0].log_ratio)
    assert abs(ratio - outside / (1 - outside)) < 0.1 * ratio
    assert "missed mass: NOT PASSED, mass is missed: a mode at x = " in str(found)


def test_bad_input() -> None:
    with correlated():
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
        empirical = pm.Empirical(size=10)
    with pytest.raises(TypeError, match="got Empirical"):
        px.diagnose(empirical)
    with pytest.raises(ValueError, match="draws >= ess, got ess=400, draws=100"):
        px.diagnose(approx, draws=100)
    with pytest.raises(ValueError, match="ess > 0"):
        px.diagnose(approx, ess=0)
    data = pm.Minibatch(np.zeros(100), batch_size=10)
    with pm.Model():
        pm.Normal("y", pm.Normal("x", 0, 1), 1, observed=data, total_size=100)
        noisy = pm.fit(10, method=px.BernsteinVI(random_seed=1), progressbar=False)
    with pytest.raises(ValueError, match="Minibatch"):
        px.diagnose(noisy)
