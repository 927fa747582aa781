"""Summaries: numbers by weights or of chains, and errors that are as large as what they are of."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bridge
from bridge.advice.summary import QUANTILES, of_chains, of_weights
from pymc_ext.sampling.heavy import Heavy
from tests.tolerances import monte_carlo

Y = np.array([1.2, 0.4, 2.2, 1.9])


@pytest.fixture(scope="module")
def advice():
    with pm.Model(coords={"site": ["a", "b"]}) as model:
        scale = pm.HalfNormal("scale", dims="site")
        pm.Deterministic("count", pm.math.ge(scale, 1).astype(int), dims="site")
        pm.Normal("mu")
        pm.Normal("y", model["mu"], 1, observed=Y)
    return bridge.fit(model, random_seed=1)


def weighted(rng, draws=2_000):
    """N(1, 2²) by draws of another normal law; three copies, the last one's exponential."""
    x = rng.normal(0.5, 2.5, size=draws)
    log_ratios = stats.norm.logpdf(x, 1, 2) - stats.norm.logpdf(x, 0.5, 2.5)
    w = np.exp(log_ratios - log_ratios.max())
    return np.stack([x, -x], axis=1), log_ratios, w / w.sum()


def test_errors_are_as_large_as_estimates_differ():
    rng = np.random.default_rng(1)
    found = [of_weights(*weighted(rng)) for _ in range(400)]
    truth = {"mean": 1.0, "sd": 2.0} | {
        name: stats.norm.ppf(p, 1, 2) for name, p in QUANTILES.items()
    }
    for name, exact in truth.items():
        values = np.array([one[name][0] for one in found])
        errors = np.array([one[f"mcse_{name}"][0] for one in found])
        assert abs(values.mean() - exact) < monte_carlo(values.std() / 20)
        # the spread of 400 is known to 1/√800
        assert abs(values.std() / np.sqrt((errors**2).mean()) - 1) < monte_carlo(1 / np.sqrt(800))
    mirrored = found[0]
    np.testing.assert_allclose(mirrored["q5"][1], -mirrored["q95"][0])
    np.testing.assert_allclose(mirrored["mcse_q5"][1], mirrored["mcse_q95"][0])


def test_draws_that_are_ruled_out_and_constants_have_no_errors():
    x, log_ratios, weights = weighted(np.random.default_rng(3))
    x = np.column_stack([x, np.zeros(len(x)), np.full(len(x), 3.0)])
    expected = of_weights(x, log_ratios, weights)
    x[0, :2], log_ratios[0], weights[0] = np.inf, -np.inf, 0.0
    found = of_weights(x, log_ratios, weights / weights.sum())
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=0.05, atol=0.05)
    for name in ("mcse_mean", "mcse_sd", "mcse_q5"):
        np.testing.assert_allclose(found[name][2:], 0.0, atol=1e-12)
    assert np.isneginf(found["khat_sd"][2:]).all()


def test_errors_that_no_weights_tell_are_not_shown():
    """Of Student's t by draws of a normal the weights tell no sd."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4_000, 1))
    log_ratios = stats.t(2.5).logpdf(x[:, 0]) - stats.norm.logpdf(x[:, 0])
    weights = np.exp(log_ratios - log_ratios.max())
    found = of_weights(x, log_ratios, weights / weights.sum())
    assert found["khat_sd"][0] > 0.7 and np.isnan(found["mcse_sd"][0])
    assert np.isfinite(found["sd"][0])
    narrow = of_weights(x, np.zeros(4_000), np.full(4_000, 1 / 4_000))
    assert np.isfinite(narrow["mcse_mean"][0]) and np.isfinite(narrow["mcse_sd"][0])


def test_of_chains_they_are_by_effective_draws():
    x = np.random.default_rng(2).normal(1, 2, size=(4, 2_000, 1))
    for t in range(1, 2_000):
        x[:, t] = 1 + 0.8 * (x[:, t - 1] - 1) + 0.6 * (x[:, t] - 1)
    found = of_chains(x)
    for name, exact in {"mean": 1.0, "sd": 2.0, "median": 1.0}.items():
        assert abs(found[name][0] - exact) < monte_carlo(found[f"mcse_{name}"][0])
    effective = 8_000 * (1 - 0.8) / (1 + 0.8)
    assert found["mcse_mean"][0] == pytest.approx(2 / np.sqrt(effective), rel=0.15)
    assert found["ess_bulk"][0] == pytest.approx(effective, rel=0.25) and found["rhat"][0] < 1.02


def test_rows_are_named_by_coords_and_right_to_their_errors(advice):
    frame = advice.summary()
    assert set(frame.index) == {"mu", "scale[a]", "scale[b]", "count[a]", "count[b]"}
    half = stats.halfnorm
    exact = {"mu": (Y.sum() / 5, 1 / np.sqrt(5)), "scale[a]": (half.mean(), half.std())}
    for name, (mean, sd) in exact.items():
        row = frame.loc[name]
        assert abs(row["mean"] - mean) < monte_carlo(row["mcse_mean"])
        assert abs(row["sd"] - sd) < monte_carlo(row["mcse_sd"])
        assert abs(row["median"] - row["mean"]) < sd and row["q5"] < row["median"] < row["q95"]
        assert row["khat_mean"] < 0.7
    assert frame.loc["count[a]", "median"] in (0, 1)
    assert frame.attrs["trusted"] is True
    for names in ("scale", ["scale"]):
        assert list(advice.summary(names).index) == ["scale[a]", "scale[b]"]


def test_names_that_are_none_and_moments_that_are_not_known(advice):
    with pytest.raises(ValueError, match=r"var_names must be of .*scale.*, got 'tau'"):
        advice.summary(["mu", "tau"])
    with pytest.raises(ValueError, match="no variable that was asked for has numbers"):
        advice.summary([])
    heavy = (Heavy("scale[a]", 0.2, 1.1), Heavy("scale[b]", 0.2, 1.5))
    frame = bridge.advice.summary.summary_of(advice.unresampled, heavy)
    untold = frame.loc[["scale[a]", "scale[b]"], ["mean", "mcse_mean", "sd", "mcse_sd"]].isna()
    assert untold.values.tolist() == [[False, False, True, True], [True] * 4]
    assert frame.notna().loc[:, ["q5", "mcse_q95"]].values.all()


def test_of_chains_of_the_models_own_sampler():
    with pm.Model() as model:
        pm.Cauchy("heavy", 0, 1)
        pm.Bernoulli("kind", 0.3)
    found = bridge.fit(model, random_seed=1, draws=8_000, progressbar=False)
    assert found.method == "nuts" and "heavy" in found.unknown
    frame = found.summary()
    assert np.isnan(frame.loc["heavy", "sd"]) and np.isfinite(frame.loc["heavy", "median"])
    kind = frame.loc["kind"]
    assert abs(kind["mean"] - 0.3) < monte_carlo(kind["mcse_mean"]) and kind["rhat"] < 1.02


@pytest.mark.stan
def test_a_programs_arrays_count_from_one():
    program = """
    parameters { vector[2] b; real<lower=0> s; }
    model { b ~ normal(3, 2); s ~ exponential(1); }
    generated quantities { real twice = 2 * s; }
    """
    frame = bridge.fit(program, random_seed=1).summary()
    assert list(frame.index) == ["b[1]", "b[2]", "s", "twice"]
    np.testing.assert_allclose(frame.loc["twice", "mcse_sd"], 2 * frame.loc["s", "mcse_sd"])
