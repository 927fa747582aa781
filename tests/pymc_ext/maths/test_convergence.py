"""ESS and R̂ of many scalars at once against ArviZ's own of each."""

import arviz as az
import numpy as np
import pytest

from pymc_ext.maths.convergence import (
    TAILS,
    bulk_ess,
    bulk_ess_and_rhat,
    energy_fmi,
    mean_error,
    quantile_error,
    sd_error,
    tail_ess,
)
from tests.tolerances import monte_carlo

RNG = np.random.default_rng(1)


def rhat(x):
    return bulk_ess_and_rhat(x)[1]


def autoregressive(rho, shape=(4, 301)):
    """Chains of x_t = ρ x_{t−1} + noise, variance one."""
    x = RNG.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


SCALARS = {
    "independent": RNG.normal(size=(4, 301)),
    "sticky": autoregressive(0.95),
    "antithetic": autoregressive(-0.6),
    "one chain apart": RNG.normal(size=(4, 301)) + np.array([0, 0, 0, 3.0])[:, None],
    "one chain wider": RNG.normal(size=(4, 301)) * np.array([1, 1, 1, 5.0])[:, None],
    "Cauchy": RNG.standard_cauchy((4, 301)),
    "rejections": np.repeat(RNG.normal(size=(4, 101)), 3, axis=1)[:, :301],
    "drifting": np.linspace(0, 5, 301) + RNG.normal(size=(4, 301)),
}
X = np.stack(list(SCALARS.values()), axis=-1)


@pytest.mark.parametrize("draws", [301, 300, 50, 9, 4])
def test_every_scalar_is_as_arviz_has_it(draws):
    x = X[:, :draws]
    for k, name in enumerate(SCALARS):
        own = x[..., k]
        for found, method, tails in ((bulk_ess(x), "bulk", None), (tail_ess(x), "tail", TAILS)):
            truth = az.ess(own, method=method, prob=tails)
            np.testing.assert_allclose(found[k], truth, rtol=1e-9, err_msg=f"{name} {method}")
        np.testing.assert_allclose(
            rhat(x)[k], az.rhat(own, method="rank"), rtol=1e-12, err_msg=name
        )
    np.testing.assert_array_equal(bulk_ess_and_rhat(x)[0], bulk_ess(x))


@pytest.mark.parametrize("name", SCALARS)
def test_errors_of_means_are_those_of_arviz(name):
    k = list(SCALARS).index(name)
    truth = az.mcse(SCALARS[name], method="mean")
    np.testing.assert_allclose(mean_error(X)[k], truth, rtol=0.01)  # n − 1 draws in its sd


@pytest.mark.parametrize("rho", [0.0, 0.8, -0.5])
def test_errors_of_quantiles_are_those_of_arviz(rho):
    """Which takes whole draws, where here points between them count."""
    x = autoregressive(rho, (4, 10_000))
    for p in (0.05, 0.5, 0.95):
        truth = az.mcse(x, method="quantile", prob=p)
        np.testing.assert_allclose(
            quantile_error(x[..., None], p)[0], truth, rtol=0.1
        )  # a draw more


def test_small_numbers_are_no_constants():
    x = RNG.normal(size=(4, 500, 1))
    for error in (mean_error, lambda x: quantile_error(x, 0.5)):
        np.testing.assert_allclose(error(1e-17 * x), 1e-17 * error(x), rtol=1e-6)
    np.testing.assert_allclose(bulk_ess(1e-17 * x), bulk_ess(x))


def test_errors_of_constants_and_of_what_is_not_finite():
    x = np.zeros((4, 100, 2))
    x[0, 0, 1] = np.nan
    for found in (mean_error(x), quantile_error(x, 0.5)):
        np.testing.assert_array_equal(found, [0.0, np.nan])


def test_independent_draws_count_fully_and_sticky_ones_by_their_correlation():
    x = np.stack([RNG.normal(size=(4, 5000)), autoregressive(0.9, (4, 5000))], axis=-1)
    independent, sticky = bulk_ess(x)
    assert 0.9 < independent / 20_000 < 1.1
    assert abs(sticky / 20_000 - 0.1 / 1.9) < 0.01  # (1 − ρ) / (1 + ρ)


def test_constants_and_draws_that_are_not_finite():
    x = np.stack([np.full((4, 100), 7.0), SCALARS["independent"][:, :100]], axis=-1)
    x[0, 0, 1] = np.nan
    assert bulk_ess(x)[0] == tail_ess(x)[0] == 400 and rhat(x)[0] == 1
    x[1, 0, 1] = -np.inf
    for function in (bulk_ess, tail_ess, rhat):
        assert np.isnan(function(x)[1])


def test_energy_that_is_drawn_anew_and_energy_that_creeps():
    fresh, creeping = RNG.normal(size=(1, 20_000)), np.cumsum(RNG.normal(size=(1, 20_000)))[None]
    # differences of independent draws have twice the variance; its standard error from 20,000
    assert abs(energy_fmi(fresh)[0] - 2) < monte_carlo(np.sqrt(8 / 20_000))
    assert energy_fmi(creeping)[0] < 0.01


@pytest.mark.parametrize("shape", [(4, 3, 1), (4, 100)])
def test_too_few_draws_are_refused(shape):
    with pytest.raises(ValueError, match=r"draws must have shape \(chains, draws >= 4, scalars\)"):
        bulk_ess(np.zeros(shape))


def test_the_error_of_an_sd_is_its_spread_over_repetitions():
    """Of independent draws, sticky ones, and a law of kurtosis 9."""
    makers = (
        lambda: RNG.normal(size=(4, 301)), lambda: autoregressive(0.8),
        lambda: RNG.exponential(size=(4, 301)),
    )  # fmt: skip
    for make in makers:
        runs = np.stack([make() for _ in range(300)], axis=-1)
        sds = runs.std(axis=(0, 1))
        relative = np.std(sds) / np.mean(sds)
        # of a spread over 300, and of the estimate itself in chains of 301
        assert np.median(sd_error(runs)) == pytest.approx(relative, rel=0.2)
    constant = np.full((4, 100, 2), 7.0)
    constant[0, 0, 1] = np.inf
    assert sd_error(constant)[0] == 0 and np.isnan(sd_error(constant)[1])
